"""Visibility: how long a receive hides a message and who may change that. On the test clock."""

import pytest

from support.expect import refused

MAX_S = 43_200


@pytest.fixture
def message(sqs, queue, receive):
    """Sends one message and receives it: (queue URL, message)."""

    def make(**parameters):
        url = queue(VisibilityTimeout="30")
        sqs.send_message(QueueUrl=url, MessageBody="x")
        (got,) = receive(url, **parameters)
        return url, got

    return make


def change(sqs, url, message, seconds):
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
    )


def test_receive_hides_a_message_until_its_deadline(server, message, bodies, counts):
    url, _ = message()
    assert counts(url) == (0, 1, 0)

    server.advance(25)
    assert bodies(url) == []

    server.advance(6)
    assert counts(url) == (1, 0, 0)
    assert bodies(url) == ["x"]


def test_timeout_of_the_receive_overrides_the_queues(server, message, bodies):
    url, _ = message(VisibilityTimeout=100)

    server.advance(60)
    assert bodies(url) == []

    server.advance(41)
    assert bodies(url) == ["x"]


def test_zero_returns_a_message_and_leaves_it_visible(message, receive, counts):
    url, _ = message(VisibilityTimeout=0)

    assert counts(url) == (1, 0, 0)
    (again,) = receive(url, VisibilityTimeout=0)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"


def test_queue_timeout_of_zero(sqs, queue, bodies):
    url = queue(VisibilityTimeout="0")
    sqs.send_message(QueueUrl=url, MessageBody="x")

    assert bodies(url) == ["x"]
    assert bodies(url) == ["x"]


def test_new_queue_timeout_counts_for_later_receives_only(server, sqs, message, bodies):
    url, _ = message()
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1000"})

    server.advance(31)
    assert bodies(url) == ["x"]

    server.advance(31)
    assert bodies(url) == []


def test_change_counts_from_now(server, sqs, message, bodies):
    url, got = message()
    server.advance(20)
    change(sqs, url, got, 30)

    server.advance(25)
    assert bodies(url) == []

    server.advance(6)
    assert bodies(url) == ["x"]


def test_change_to_zero_shows_the_message_at_once(sqs, message, receive, counts):
    url, got = message()

    change(sqs, url, got, 0)

    assert counts(url) == (1, 0, 0)
    (again,) = receive(url)
    assert again["MessageId"] == got["MessageId"]
    assert again["ReceiptHandle"] != got["ReceiptHandle"]


def test_change_is_for_this_receive_only(server, sqs, message, bodies):
    url, got = message()
    change(sqs, url, got, 500)
    server.advance(501)
    assert bodies(url) == ["x"]

    server.advance(31)
    assert bodies(url) == ["x"]


def test_change_after_the_deadline_hides_again(server, sqs, message, bodies):
    url, got = message()
    server.advance(31)

    change(sqs, url, got, 60)

    assert bodies(url) == []
    server.advance(61)
    assert bodies(url) == ["x"]


@pytest.mark.parametrize("seconds", [-1, MAX_S + 1])
def test_change_is_bounded(api, message, seconds):
    url, got = message()
    given = {"QueueUrl": url, "ReceiptHandle": got["ReceiptHandle"], "VisibilityTimeout": seconds}

    refused(api, "ChangeMessageVisibility", "InvalidParameterValue", **given)


def test_total_since_the_receive_is_bounded(server, api, message):
    url, got = message()
    server.advance(10)
    given = {"QueueUrl": url, "ReceiptHandle": got["ReceiptHandle"]}

    for seconds in (MAX_S, MAX_S - 5):
        total = (
            f"Value {seconds} for parameter VisibilityTimeout is invalid. "
            "Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
        )
        given |= {"VisibilityTimeout": seconds}
        refused(api, "ChangeMessageVisibility", "InvalidParameterValue", total, **given)
    api.call("ChangeMessageVisibility", **given | {"VisibilityTimeout": MAX_S - 20})


def test_extensions_add_up_against_the_bound(server, sqs, api, message):
    url, got = message()
    for _ in range(4):
        change(sqs, url, got, 10_000)
        server.advance(9_999)
    given = {"QueueUrl": url, "ReceiptHandle": got["ReceiptHandle"], "VisibilityTimeout": 10_000}

    refused(api, "ChangeMessageVisibility", "InvalidParameterValue", **given)


def test_change_of_a_deleted_message_is_refused(api, sqs, message):
    url, got = message()
    handle = got["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    words = (
        f"Value {handle} for parameter ReceiptHandle is invalid. "
        "Reason: Message does not exist or is not available for visibility timeout change."
    )
    given = {"QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 1}

    refused(api, "ChangeMessageVisibility", "InvalidParameterValue", words, **given)


def test_change_by_the_handle_of_an_earlier_receive_changes_the_current_one(server, api, message, receive, bodies):
    url, earlier = message()
    server.advance(31)
    assert receive(url)
    change = {"QueueUrl": url, "ReceiptHandle": earlier["ReceiptHandle"]}

    api.call("ChangeMessageVisibility", **change, VisibilityTimeout=100)
    server.advance(60)
    assert bodies(url) == []

    api.call("ChangeMessageVisibility", **change, VisibilityTimeout=0)
    assert bodies(url) == ["x"]


def test_change_by_the_handle_of_an_earlier_receive_has_the_limit_of_the_latest(server, api, message, receive):
    url, earlier = message()
    server.advance(1000)
    assert receive(url)
    server.advance(10)
    change = {"QueueUrl": url, "ReceiptHandle": earlier["ReceiptHandle"]}

    refused(api, "ChangeMessageVisibility", "InvalidParameterValue", **change, VisibilityTimeout=MAX_S)
    api.call("ChangeMessageVisibility", **change, VisibilityTimeout=MAX_S - 20)


def test_change_of_a_deleted_message_in_a_batch_has_a_code_of_its_own(api, sqs, message):
    url, got = message()
    handle = got["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    entry = {"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 1}

    changed = api.call("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=[entry])

    (failed,) = changed["Failed"]
    assert failed["Code"] == "ReceiptHandleIsInvalid"
    words = "Message does not exist or is not available for visibility timeout change"
    assert failed["Message"] == words
    assert failed["SenderFault"] in (True, "true")


@pytest.mark.parametrize("missing", ["ReceiptHandle", "VisibilityTimeout"])
def test_change_needs_its_parameters(api, message, missing):
    url, got = message()
    given = {"ReceiptHandle": got["ReceiptHandle"], "VisibilityTimeout": 1}
    del given[missing]
    words = f"The request must contain the parameter {missing}."

    refused(api, "ChangeMessageVisibility", "MissingParameter", words, QueueUrl=url, **given)


def test_many_deadlines_pass_in_one_step(server, sqs, queue, receive):
    url = queue()
    entries = [{"Id": f"id{n}", "MessageBody": f"m{n}"} for n in range(10)]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)
    for n in range(10):
        assert len(receive(url, MaxNumberOfMessages=1, VisibilityTimeout=100 + n)) == 1

    server.advance(90)
    assert receive(url) == []

    server.advance(60)
    assert {m["Body"] for m in receive(url)} == {f"m{n}" for n in range(10)}
