"""The three batch actions: what fails the whole call, what fails one entry."""

import pytest

from support.expect import PREFIX, md5, refused

ACTIONS = ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]
ID_RULE = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)


def entry(action, entry_id):
    extra = {
        "SendMessageBatch": {"MessageBody": "x"},
        "DeleteMessageBatch": {"ReceiptHandle": "garbage"},
        "ChangeMessageVisibilityBatch": {"ReceiptHandle": "garbage", "VisibilityTimeout": 1},
    }
    return {"Id": entry_id} | extra[action]


@pytest.mark.parametrize("action", ACTIONS)
def test_more_than_ten_entries_are_refused(api, url, action):
    entries = [entry(action, f"id{n}") for n in range(20)]
    message = "Maximum number of entries per request are 10. You have sent 20."

    code = PREFIX + "TooManyEntriesInBatchRequest"
    refused(api, action, code, message, QueueUrl=url, Entries=entries)


@pytest.mark.parametrize("action", ACTIONS)
def test_empty_batch_is_refused(api, url, action):
    refused(api, action, PREFIX + "EmptyBatchRequest", QueueUrl=url, Entries=[])


@pytest.mark.parametrize("action", ACTIONS)
def test_repeated_id_is_refused(api, url, action):
    entries = [entry(action, "a"), entry(action, "b"), entry(action, "a")]

    code = PREFIX + "BatchEntryIdsNotDistinct"
    refused(api, action, code, "Id a repeated.", QueueUrl=url, Entries=entries)


@pytest.mark.parametrize("bad", ["", "with space", "dot.", "a" * 81, "\u00e9"])
@pytest.mark.parametrize("action", ACTIONS)
def test_bad_id_is_refused(api, url, action, bad):
    entries = [entry(action, "good"), entry(action, bad)]

    code = PREFIX + "InvalidBatchEntryId"
    refused(api, action, code, ID_RULE, QueueUrl=url, Entries=entries)


@pytest.mark.parametrize("action", ACTIONS)
def test_missing_id_is_named(api, url, action):
    entries = [entry(action, "a"), entry(action, "b")]
    del entries[1]["Id"]
    message = f"The request must contain the parameter {action}RequestEntry.2.Id."

    refused(api, action, "MissingParameter", message, QueueUrl=url, Entries=entries)


@pytest.mark.parametrize("good", ["a", "a" * 80, "A-b_9"])
def test_good_ids_are_accepted(api, url, good):
    entries = [entry("SendMessageBatch", good)]

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    assert [result["Id"] for result in sent["Successful"]] == [good]


def test_ten_entries_are_sent_in_order(api, url):
    entries = [{"Id": f"id{n}", "MessageBody": f"m{n}"} for n in range(10)]

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)
    messages = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]

    assert "Failed" not in sent
    assert [(r["Id"], r["MD5OfMessageBody"]) for r in sent["Successful"]] == [
        (f"id{n}", md5(f"m{n}")) for n in range(10)
    ]
    ids = {m["MessageId"]: m["Body"] for m in messages}
    assert ids == {r["MessageId"]: f"m{n}" for n, r in enumerate(sent["Successful"])}


def test_entry_with_bad_characters_fails_alone(api, url):
    entries = [{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": "a\x01"}]

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    assert [result["Id"] for result in sent["Successful"]] == ["good"]
    (failed,) = sent["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "InvalidMessageContents", True)


def test_entry_above_the_queues_size_fails_alone(api, url):
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})
    entries = [{"Id": "fits", "MessageBody": "a" * 1024}, {"Id": "big", "MessageBody": "a" * 1025}]

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    assert [result["Id"] for result in sent["Successful"]] == ["fits"]
    assert sent["Failed"] == [
        {
            "Id": "big",
            "SenderFault": True,
            "Code": "InvalidParameterValue",
            "Message": "One or more parameters cannot be validated. "
            "Reason: Message must be shorter than 1024 bytes.",
        }
    ]


@pytest.mark.parametrize("empty", [{}, {"MessageBody": ""}], ids=["none", "empty"])
def test_entry_without_a_body_fails_alone(api, url, empty):
    entries = [{"Id": name, "MessageBody": "x"} for name in "ab"] + [{"Id": "c"} | empty]

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    assert [result["Id"] for result in sent["Successful"]] == ["a", "b"]
    assert sent["Failed"] == [
        {
            "Id": "c",
            "SenderFault": True,
            "Code": "EmptyValue",
            "Message": "No Value Found for SendMessageBatchRequestEntry.3.MessageBody.",
        }
    ]


@pytest.mark.parametrize("body", [{}, {"MessageBody": ""}], ids=["none", "empty"])
def test_fifo_entry_without_a_body_fails_all(api, fifo_url, body):
    entry = {"Id": "a", "MessageGroupId": "g", "MessageDeduplicationId": "d"} | body
    message = "The request must contain the parameter SendMessageBatchRequestEntry.1.MessageBody."

    refused(api, "SendMessageBatch", "MissingParameter", message, QueueUrl=fifo_url, Entries=[entry])


def test_entry_of_a_standard_queue_takes_no_deduplication_id(api, url):
    entries = [{"Id": "a", "MessageBody": "x", "MessageDeduplicationId": "d"}]

    (failed,) = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)["Failed"]

    assert failed["Code"] == "InvalidParameterValue"
    assert failed["Message"] == "The request include parameter that is not valid for this queue type"


@pytest.mark.parametrize("action", ["DeleteMessageBatch", "ChangeMessageVisibilityBatch"])
def test_entry_with_the_handle_of_another_queue_is_shown(api, url, new_name, action):
    other = api.call("CreateQueue", QueueName=new_name())["QueueUrl"]
    api.call("SendMessage", QueueUrl=other, MessageBody="x")
    (message,) = api.call("ReceiveMessage", QueueUrl=other)["Messages"]
    handle = message["ReceiptHandle"]
    entries = [entry(action, "a") | {"ReceiptHandle": handle}]

    (failed,) = api.call(action, QueueUrl=url, Entries=entries)["Failed"]

    assert (failed["Code"], failed["SenderFault"]) == ("ReceiptHandleIsInvalid", True)
    assert failed["Message"] == f'The receipt handle "{handle}" is not valid for this queue.'


@pytest.mark.parametrize(
    "bad",
    [
        {"DelaySeconds": 901},
        {"MessageAttributes": {"a": {"DataType": "Number", "StringValue": "x"}}},
        {"MessageAttributes": {"AWS.a": {"DataType": "String", "StringValue": "x"}}},
    ],
)
def test_entry_with_a_bad_parameter_fails_alone(api, url, bad):
    entries = [{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": "x"} | bad]

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    assert [result["Id"] for result in sent["Successful"]] == ["good"]
    (failed,) = sent["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "InvalidParameterValue", True)


def test_all_entries_failed_is_still_a_success(api, url):
    entries = [{"Id": "bad", "MessageBody": "\x01"}]

    sent = api.call("SendMessageBatch", QueueUrl=url, Entries=entries)

    assert [result["Id"] for result in sent["Failed"]] == ["bad"]
    assert not sent.get("Successful")


@pytest.mark.parametrize("missing", ["MessageGroupId", "MessageDeduplicationId"])
def test_fifo_batch_with_an_incomplete_entry_fails_whole(api, fifo_url, missing):
    whole = {"MessageBody": "x", "MessageGroupId": "g"}
    entries = [
        {"Id": "good", "MessageDeduplicationId": "d1"} | whole,
        {"Id": "bad", "MessageDeduplicationId": "d2"} | whole,
    ]
    del entries[1][missing]
    message = {
        "MessageGroupId": "The request must contain the parameter MessageGroupId.",
        "MessageDeduplicationId": "The queue should either have ContentBasedDeduplication enabled "
        "or MessageDeduplicationId provided explicitly",
    }[missing]

    refused(api, "SendMessageBatch", "InvalidParameterValue", message, QueueUrl=fifo_url, Entries=entries)

    assert api.call("ReceiveMessage", QueueUrl=fifo_url, MaxNumberOfMessages=10) == {}


BAD_FIFO_ENTRIES = [
    ({"MessageBody": ""}, "MissingParameter"),
    ({"MessageBody": "\u0001"}, "InvalidMessageContents"),
    ({"DelaySeconds": 3}, "InvalidParameterValue"),
    ({"MessageGroupId": "a b"}, "InvalidParameterValue"),
    ({"MessageDeduplicationId": "\u00e9"}, "InvalidParameterValue"),
    ({"MessageAttributes": {"a": {"DataType": "Number", "StringValue": "x"}}}, "InvalidParameterValue"),
]


@pytest.mark.parametrize(("bad", "code"), BAD_FIFO_ENTRIES, ids=range(len(BAD_FIFO_ENTRIES)))
def test_fifo_batch_with_a_bad_entry_fails_whole(api, fifo_url, bad, code):
    entries = [
        {"Id": f"id{n}", "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": f"d{n}"}
        for n in range(3)
    ]
    entries[1] |= bad

    error = refused(api, "SendMessageBatch", code, QueueUrl=fifo_url, Entries=entries)

    if code == "MissingParameter":
        assert error.message.endswith("SendMessageBatchRequestEntry.2.MessageBody.")
    assert api.call("ReceiveMessage", QueueUrl=fifo_url, MaxNumberOfMessages=10) == {}


def test_fifo_batch_keeps_its_order(api, fifo_url):
    entries = [
        {"Id": f"id{n}", "MessageBody": f"m{n}", "MessageGroupId": "g", "MessageDeduplicationId": f"d{n}"}
        for n in range(10)
    ]

    sent = api.call("SendMessageBatch", QueueUrl=fifo_url, Entries=entries)
    messages = api.call("ReceiveMessage", QueueUrl=fifo_url, MaxNumberOfMessages=10)["Messages"]

    numbers = [int(result["SequenceNumber"]) for result in sent["Successful"]]
    assert numbers == sorted(set(numbers)) and len(numbers) == 10
    assert [m["Body"] for m in messages] == [f"m{n}" for n in range(10)]


def test_duplicate_inside_one_batch_is_sent_once(api, fifo_url):
    same = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "same"}

    sent = api.call("SendMessageBatch", QueueUrl=fifo_url, Entries=[{"Id": "a"} | same, {"Id": "b"} | same])
    messages = api.call("ReceiveMessage", QueueUrl=fifo_url, MaxNumberOfMessages=10)["Messages"]

    assert len({result["MessageId"] for result in sent["Successful"]}) == 1
    assert len(messages) == 1


def test_delete_batch_tells_each_entrys_fate(api, url):
    api.call("SendMessage", QueueUrl=url, MessageBody="x")
    (message,) = api.call("ReceiveMessage", QueueUrl=url)["Messages"]
    entries = [
        {"Id": "bad", "ReceiptHandle": "garbage"},
        {"Id": "good", "ReceiptHandle": message["ReceiptHandle"]},
    ]

    deleted = api.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)

    assert deleted["Successful"] == [{"Id": "good"}]
    (failed,) = deleted["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "ReceiptHandleIsInvalid", True)


def test_visibility_batch_tells_each_entrys_fate(api, url):
    for n in range(3):
        api.call("SendMessage", QueueUrl=url, MessageBody=f"m{n}")
    first, second, third = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    api.call("DeleteMessage", QueueUrl=url, ReceiptHandle=third["ReceiptHandle"])
    entries = [
        {"Id": "back", "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0},
        {"Id": "long", "ReceiptHandle": second["ReceiptHandle"], "VisibilityTimeout": 43201},
        {"Id": "gone", "ReceiptHandle": third["ReceiptHandle"], "VisibilityTimeout": 1},
        {"Id": "bad", "ReceiptHandle": "garbage", "VisibilityTimeout": 1},
    ]

    changed = api.call("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=entries)

    assert changed["Successful"] == [{"Id": "back"}]
    assert {failed["Id"]: failed["Code"] for failed in changed["Failed"]} == {
        "long": "InvalidParameterValue",
        "gone": "ReceiptHandleIsInvalid",
        "bad": "ReceiptHandleIsInvalid",
    }
    (again,) = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert again["MessageId"] == first["MessageId"]
