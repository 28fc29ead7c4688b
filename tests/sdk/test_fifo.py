"""FIFO queues: deduplication, group locks, order, receive attempts. On the test clock."""

import pytest

from support.expect import refused

WINDOW_S = 300


@pytest.fixture
def send(sqs):
    """Sends `g1-m1` to group `g1`; deduplication is by content unless an id is given."""

    def to(url, *names, **parameters):
        sent = [
            sqs.send_message(
                QueueUrl=url, MessageBody=name, **({"MessageGroupId": name.split("-")[0]} | parameters)
            )
            for name in names
        ]
        return sent[0] if len(sent) == 1 else sent

    return to


def hide(sqs, url, message, seconds):
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
    )


def delete(sqs, url, message):
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


class TestDeduplication:
    def test_duplicate_send_succeeds_with_the_first_ids(self, fifo, send, bodies):
        url = fifo()

        first = send(url, "g-1", MessageDeduplicationId="d")
        second = send(url, "g-2", MessageDeduplicationId="d")

        assert second["MessageId"] == first["MessageId"]
        assert second["SequenceNumber"] == first["SequenceNumber"]
        assert second["MD5OfMessageBody"] != first["MD5OfMessageBody"]
        assert bodies(url) == ["g-1"]

    def test_content_is_the_id_unless_one_is_given(self, fifo, send, receive):
        url = fifo()

        send(url, "g-same")
        send(url, "g-same")
        send(url, "g-same", MessageDeduplicationId="explicit")

        assert [m["Body"] for m in receive(url)] == ["g-same", "g-same"]

    def test_content_is_the_body_only(self, sqs, fifo, bodies):
        url = fifo()
        for value in ("1", "2"):
            sqs.send_message(
                QueueUrl=url,
                MessageBody="same",
                MessageGroupId="g",
                MessageAttributes={"a": {"DataType": "String", "StringValue": value}},
            )

        assert bodies(url) == ["same"]

    def test_window_is_five_minutes_from_the_first_send(self, server, fifo, send, counts):
        url = fifo()
        first = send(url, "g-x")
        server.advance(WINDOW_S - 10)
        assert send(url, "g-x")["MessageId"] == first["MessageId"]

        server.advance(11)
        assert send(url, "g-x")["MessageId"] != first["MessageId"]

        assert counts(url) == (2, 0, 0)

    def test_id_is_remembered_after_receive_and_delete(self, sqs, fifo, send, receive):
        url = fifo()
        first = send(url, "g-x")
        (message,) = receive(url)
        assert send(url, "g-x")["MessageId"] == first["MessageId"]
        delete(sqs, url, message)

        assert send(url, "g-x")["MessageId"] == first["MessageId"]
        assert receive(url) == []

    def test_purge_forgets(self, sqs, fifo, send, bodies):
        url = fifo()
        send(url, "g-x")

        sqs.purge_queue(QueueUrl=url)
        send(url, "g-x")

        assert bodies(url) == ["g-x"]

    def test_scope_queue_spans_groups(self, fifo, send, bodies):
        url = fifo()

        send(url, "g1-x", "g2-x", MessageDeduplicationId="d")

        assert bodies(url) == ["g1-x"]

    def test_scope_group_does_not(self, fifo, send, bodies):
        url = fifo(DeduplicationScope="messageGroup")

        send(url, "g1-x", "g2-x", "g1-y", MessageDeduplicationId="d")

        assert sorted(bodies(url)) == ["g1-x", "g2-x"]


class TestGroups:
    def test_order_within_a_group(self, fifo, send, bodies):
        url = fifo()
        names = [f"g-{n:02}" for n in range(10)]

        send(url, *names)

        assert bodies(url) == names

    def test_a_receive_fills_from_one_group_then_from_the_next(self, fifo, send, bodies):
        url = fifo()

        send(url, "g1-m1", "g2-m1", "g1-m2", "g1-m3")

        got = bodies(url)
        assert sorted(got) == ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]
        assert [name for name in got if name.startswith("g1")] == ["g1-m1", "g1-m2", "g1-m3"]
        assert got.index("g2-m1") in (0, 3)

    def test_ten_of_one_group_come_in_one_receive(self, fifo, send, bodies):
        url = fifo()

        send(url, *[f"g-{n:02}" for n in range(15)])

        assert bodies(url) == [f"g-{n:02}" for n in range(10)]

    def test_group_with_a_message_in_flight_is_locked(self, fifo, send, bodies):
        url = fifo()
        send(url, "g1-m1", "g1-m2", "g2-m1")

        first = bodies(url, MaxNumberOfMessages=1)
        second = bodies(url)
        third = bodies(url)

        locked = first[0][:2]
        assert {name[:2] for name in second} == {"g1", "g2"} - {locked}
        assert third == []

    def test_new_message_does_not_unlock_its_group(self, fifo, send, bodies):
        url = fifo()
        send(url, "g-1")
        assert bodies(url) == ["g-1"]

        send(url, "g-2")

        assert bodies(url) == []

    def test_partial_delete_keeps_the_lock(self, sqs, fifo, send, receive, bodies):
        url = fifo()
        send(url, "g-1", "g-2", "g-3")
        first, second = receive(url, MaxNumberOfMessages=2)

        delete(sqs, url, first)
        assert bodies(url) == []

        delete(sqs, url, second)
        assert bodies(url) == ["g-3"]

    def test_lock_ends_with_the_visibility(self, server, fifo, send, bodies):
        url = fifo()
        send(url, "g-1", "g-2")
        assert bodies(url, MaxNumberOfMessages=1, VisibilityTimeout=5) == ["g-1"]

        server.advance(6)

        assert bodies(url) == ["g-1", "g-2"]

    def test_locked_messages_still_count_as_ready(self, fifo, send, receive, counts):
        url = fifo()
        send(url, *[f"g-{n}" for n in range(6)])

        assert len(receive(url, MaxNumberOfMessages=2)) == 2

        assert counts(url) == (4, 2, 0)

    @pytest.mark.parametrize("extended", [0, 1, 2])
    def test_hidden_message_blocks_what_is_behind_it(self, server, sqs, fifo, send, receive, extended):
        url = fifo()
        send(url, "g-0", "g-1", "g-2")
        messages = receive(url, VisibilityTimeout=5)
        hide(sqs, url, messages[extended], 100)

        server.advance(6)

        assert [m["Body"] for m in receive(url)] == [f"g-{n}" for n in range(extended)]

    def test_returned_message_waits_for_nobody_behind_it(self, sqs, fifo, send, receive, bodies):
        url = fifo()
        send(url, "g1-m1", "g1-m2")
        first, _ = receive(url)
        send(url, "g2-m1")
        hide(sqs, url, first, 0)

        assert sorted(bodies(url)) == ["g1-m1", "g2-m1"]

    def test_every_group_makes_progress(self, fifo, send, receive, sqs):
        url = fifo()
        send(url, *[f"g{group}-{n}" for n in range(3) for group in range(20)])

        order = {}
        for _ in range(100):
            messages = receive(url)
            if not messages:
                break
            for message in messages:
                group, n = message["Body"].split("-")
                order.setdefault(group, []).append(n)
                delete(sqs, url, message)

        assert order == {f"g{group}": ["0", "1", "2"] for group in range(20)}

    def test_deep_backlog_in_one_group_drains_in_order(self, sqs, fifo):
        url = fifo()
        for start in range(0, 1000, 10):
            entries = [
                {"Id": f"id{n}", "MessageBody": f"{start + n}", "MessageGroupId": "g"} for n in range(10)
            ]
            sqs.send_message_batch(QueueUrl=url, Entries=entries)

        got = []
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            got += [int(message["Body"]) for message in messages]
            entries = [{"Id": m["MessageId"], "ReceiptHandle": m["ReceiptHandle"]} for m in messages]
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)

        assert got == list(range(1000))


class TestSequenceNumbers:
    def test_they_increase_within_a_queue(self, fifo, send):
        url = fifo()

        numbers = [int(sent["SequenceNumber"]) for sent in send(url, *[f"g{n % 3}-{n}" for n in range(9)])]

        assert numbers == sorted(set(numbers))


class TestDelay:
    def test_queue_delay_applies_to_waiting_messages_too(self, server, sqs, fifo, send, bodies, counts):
        url = fifo(DelaySeconds="10")
        send(url, "g-1")
        assert counts(url) == (0, 0, 1)
        assert bodies(url) == []

        server.advance(11)
        assert bodies(url) == ["g-1"]

    def test_changing_the_delay_reaches_messages_that_wait(self, server, sqs, fifo, send, bodies):
        url = fifo(DelaySeconds="600")
        send(url, "g-1")
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "0"})

        assert bodies(url) == ["g-1"]


class TestReceiveAttempts:
    def receive(self, sqs, url, attempt, **parameters):
        return sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, ReceiveRequestAttemptId=attempt, **parameters
        ).get("Messages", [])

    def test_same_attempt_gets_the_same_messages_and_handles(self, sqs, fifo, send):
        url = fifo()
        send(url, "g-1", "g-2")

        first = self.receive(sqs, url, "attempt")
        second = self.receive(sqs, url, "attempt")

        assert [m["Body"] for m in first] == ["g-1", "g-2"]
        assert [(m["Body"], m["ReceiptHandle"]) for m in second] == [
            (m["Body"], m["ReceiptHandle"]) for m in first
        ]

    def test_repeated_attempt_renews_the_visibility(self, server, sqs, fifo, send):
        url = fifo(VisibilityTimeout="30")
        send(url, "g-1")
        (message,) = self.receive(sqs, url, "attempt")
        server.advance(20)
        assert len(self.receive(sqs, url, "attempt")) == 1

        server.advance(20)

        delete(sqs, url, message)  # Would be refused, had the handle expired.

    def test_another_attempt_gets_nothing_of_a_locked_group(self, sqs, fifo, send):
        url = fifo()
        send(url, "g-1", "g-2")
        assert len(self.receive(sqs, url, "one")) == 2

        assert self.receive(sqs, url, "two") == []

    def test_attempt_ends_with_a_delete(self, sqs, fifo, send):
        url = fifo()
        send(url, "g-1", "g-2")
        first, _ = self.receive(sqs, url, "attempt")

        delete(sqs, url, first)

        assert self.receive(sqs, url, "attempt") == []

    def test_attempt_ends_with_the_visibility(self, server, sqs, fifo, send):
        url = fifo(VisibilityTimeout="5")
        send(url, "g-1")
        (first,) = self.receive(sqs, url, "attempt")

        server.advance(6)
        (second,) = self.receive(sqs, url, "attempt")

        assert second["ReceiptHandle"] != first["ReceiptHandle"]

    @pytest.mark.parametrize("attempt", ["a" * 129, "with space"])
    def test_attempt_id_is_checked(self, api, fifo, attempt):
        given = {"QueueUrl": fifo(), "ReceiveRequestAttemptId": attempt}
        refused(api, "ReceiveMessage", "InvalidParameterValue", **given)
