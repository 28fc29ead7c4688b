"""One queue by SQS and by IronMQ. Without credentials a project whose id is an account's twelve digits is that account,
in the server's default region; each other project has queues of its own.
"""

import collections
import contextlib
import json
import threading

import pytest

from support.ironmq import MESSAGE_ID, Iron, Queue, bodies, new_project
from support.polls import let_park
from support.sdk import sdk_client

ACCOUNT = "000000000000"


@pytest.fixture
def iron(server):
    with contextlib.closing(Iron(server.endpoint, ACCOUNT)) as iron:
        yield iron


@pytest.fixture
def both(sqs, iron, new_name):
    """URL and queue: one thing."""
    name = new_name()
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    return url, Queue(iron, name)


def test_a_queue_of_sqs_is_a_queue_of_its_account_s_project(both, iron):
    url, queue = both

    assert queue.info() == {
        "project_id": ACCOUNT,
        "name": queue.name,
        "type": "pull",
        "size": 0,
        "total_messages": 0,
        "message_timeout": 30,
        "message_expiration": 345_600,
    }
    assert iron.call("GET", f"?prefix={queue.name}") == {"queues": [{"name": queue.name}]}


def test_a_queue_of_ironmq_is_a_queue_of_sqs(sqs, iron, new_name, attributes):
    queue = Queue(iron, new_name())
    queue.create(message_timeout=90, message_expiration=7200)

    url = sqs.get_queue_url(QueueName=queue.name)["QueueUrl"]

    assert attributes(url).items() >= {"VisibilityTimeout": "90", "MessageRetentionPeriod": "7200"}.items()
    assert url in sqs.list_queues(QueueNamePrefix=queue.name)["QueueUrls"]


@pytest.mark.parametrize("suffix", [" with spaces", "ü✓", "x" * 200, "%2F+"])
def test_a_name_that_sqs_does_not_allow_is_no_harm_to_sqs(sqs, iron, suffix, new_name):
    name = new_name()
    queue = Queue(iron, name + suffix)
    queue.post("a")

    [url] = sqs.list_queues(QueueNamePrefix=name)["QueueUrls"]

    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "a"


@pytest.mark.parametrize("suffix", ["a/b", "a?b", "a#b"])
def test_a_name_that_no_url_of_a_queue_can_say_is_not_listed_by_sqs(sqs, iron, suffix, new_name):
    name = new_name()
    Queue(iron, name + suffix).post("a")
    Queue(iron, name).post("b")

    [url] = sqs.list_queues(QueueNamePrefix=name)["QueueUrls"]

    assert url.endswith(f"/{name}")
    assert iron.call("GET", f"?prefix={name}") == {"queues": [{"name": name}, {"name": name + suffix}]}


def test_other_projects_and_regions_are_apart(server, sqs, both):
    _, queue = both
    queue.post("a")

    other = Iron(server.endpoint, new_project())
    assert other.call("GET", f"?prefix={queue.name}") == {"queues": []}
    Queue(other, f"{queue.name}-other").post("b")
    other.close()

    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=f"{queue.name}-other")
    assert "QueueUrls" not in sdk_client(server, "eu-west-1").list_queues(QueueNamePrefix=queue.name)


def test_each_account_has_its_project(make_server):
    server = make_server()
    other = Iron(server.endpoint, "111122223333")
    Queue(other, "jobs").post("a")

    assert Iron(server.endpoint, ACCOUNT).call("GET") == {"queues": []}
    url = f"{server.endpoint}/111122223333/jobs"
    assert sdk_client(server).receive_message(QueueUrl=url)["Messages"][0]["Body"] == "a"


def test_what_sqs_sends_ironmq_reserves_and_deletes(sqs, both, counts):
    url, queue = both
    sqs.send_message(QueueUrl=url, MessageBody="grüße ✓")

    [message] = queue.reserve()
    assert MESSAGE_ID.fullmatch(message["id"])
    assert message["body"] == "grüße ✓"
    assert counts(url) == (0, 1, 0)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    queue.delete(message)

    assert counts(url) == (0, 0, 0)


def test_what_ironmq_posts_sqs_receives_and_deletes(sqs, both, receive):
    url, queue = both
    [identifier] = queue.post("grüße ✓")
    assert queue.peek()[0]["id"] == identifier

    [message] = receive(url)
    assert message["Body"] == "grüße ✓"
    assert message["MessageId"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert queue.reserve() == [] and queue.peek() == []
    assert queue.size() == 1
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert queue.size() == 0


def test_an_empty_body_of_ironmq_comes_out_of_sqs(both, receive):
    url, queue = both
    queue.post("")

    assert [message.get("Body", "") for message in receive(url)] == [""]


def test_attributes_of_sqs_survive_a_reservation(sqs, both, receive):
    url, queue = both
    attribute = {"Color": {"DataType": "String", "StringValue": "red"}}
    sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=attribute)

    queue.release(queue.reserve()[0])

    [message] = receive(url)
    assert message["MessageAttributes"] == attribute
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


def test_receives_are_counted_together(server, sqs, both, receive):
    url, queue = both
    [identifier] = queue.post("a")

    receive(url, VisibilityTimeout=5)
    server.advance(6)
    [message] = queue.reserve(timeout=5)
    assert message["reserved_count"] == 2
    server.advance(6)
    [message] = receive(url)

    assert message["Attributes"]["ApproximateReceiveCount"] == "3"
    assert queue.get(identifier)["reserved_count"] == 3


def test_ironmq_does_not_delete_what_sqs_has_received(both, receive, refused):
    url, queue = both
    [identifier] = queue.post("a")
    receive(url)

    with refused(400, "A reservation_id is required"):
        queue.delete(identifier)

    assert queue.size() == 1


def test_a_receive_of_sqs_ends_a_reservation_that_timed_out(server, both, receive, refused):
    url, queue = both
    queue.post("a")
    [message] = queue.reserve(timeout=5)
    server.advance(6)
    receive(url)

    for call in (queue.delete, queue.touch, queue.release):
        with refused(403, "Reservation timed out"):
            call(message)


def test_visibility_is_the_same_on_both_sides(server, sqs, both, receive, bodies):
    url, queue = both
    queue.post("a")

    [message] = queue.reserve()
    queue.touch(message, timeout=100)
    server.advance(90)
    assert bodies(url) == []
    server.advance(10.5)
    [message] = receive(url, VisibilityTimeout=100)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)

    assert len(queue.reserve()) == 1


def test_delays_are_the_same_on_both_sides(server, sqs, both, counts, bodies):
    url, queue = both
    queue.post({"body": "a", "delay": 60})
    sqs.send_message(QueueUrl=url, MessageBody="b", DelaySeconds=60)
    assert counts(url) == (0, 0, 2)
    assert queue.size() == 2 and queue.reserve() == []

    server.advance(61)

    assert bodies(url, MaxNumberOfMessages=1) == ["a"]
    assert len(queue.reserve(n=10)) == 1


def test_settings_are_the_same_on_both_sides(sqs, both, attributes):
    url, queue = both
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "77", "MessageRetentionPeriod": "9000"})
    assert queue.info().items() >= {"message_timeout": 77, "message_expiration": 9000}.items()

    queue.update(message_timeout=88)

    assert attributes(url).items() >= {"VisibilityTimeout": "88", "MessageRetentionPeriod": "9000"}.items()


def test_dead_letters_are_the_same_on_both_sides(sqs, both, attributes, arn, new_name):
    url, queue = both
    letters = new_name()
    queue.update(dead_letter={"queue_name": letters, "max_reservations": 3})
    Queue(queue.iron, letters).post("made")
    policy = json.loads(attributes(url)["RedrivePolicy"])
    assert policy["deadLetterTargetArn"] == arn(sqs.get_queue_url(QueueName=letters)["QueueUrl"])
    assert int(policy["maxReceiveCount"]) == 3

    redrive = json.dumps(policy | {"maxReceiveCount": 5})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": redrive})

    assert queue.info()["dead_letter"] == {"queue_name": letters, "max_reservations": 5}


def test_a_purge_clears_and_a_clear_purges(sqs, both, counts):
    url, queue = both
    queue.post("a", "b")
    queue.reserve()
    sqs.purge_queue(QueueUrl=url)
    assert queue.size() == 0

    sqs.send_message(QueueUrl=url, MessageBody="c")
    queue.clear()

    assert counts(url) == (0, 0, 0)


def test_a_deleted_queue_is_gone_on_both_sides(sqs, iron, new_name, refused):
    queue = Queue(iron, new_name())
    queue.create()
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=queue.name)["QueueUrl"])
    with refused(404, "Queue not found"):
        queue.info()

    other = Queue(iron, new_name())
    other.create()
    other.drop()
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName=other.name)


def test_a_post_wakes_a_long_poll_of_sqs_and_the_other_way_round(server, sqs, both, receive, background):
    url, queue = both
    polling = background(receive, url, WaitTimeSeconds=20)
    let_park()
    queue.post("for SQS")
    [message] = polling.result(20)
    assert message["Body"] == "for SQS"

    other = Queue(Iron(server.endpoint, ACCOUNT), queue.name)
    waiting = background(other.reserve, wait=30)
    let_park()
    sqs.send_message(QueueUrl=url, MessageBody="for IronMQ")

    assert bodies(waiting.result(20)) == ["for IronMQ"]


def test_ironmq_in_version_1_deletes_by_id_what_sqs_received(server, sqs, both, receive):
    url, queue = both
    sqs.send_message(QueueUrl=url, MessageBody="a")
    receive(url)
    old = Iron(server.endpoint, ACCOUNT, version=1)
    [identifier] = queue.post("b")
    [message] = old.call("GET", f"/{queue.name}/messages")["messages"]
    assert (message["id"], message["body"]) == (identifier, "b")

    old.call("DELETE", f"/{queue.name}/messages/{identifier}")

    assert queue.size() == 1
    old.close()


class TestFifo:
    """Queues in order are made by SQS."""

    @pytest.fixture
    def both(self, sqs, iron, fifo):
        url = fifo()
        return url, Queue(iron, url.rpartition("/")[2])

    def test_what_ironmq_posts_comes_in_order(self, sqs, both, receive):
        url, queue = both
        queue.post("a", "b", "b")

        messages = receive(url)

        assert [message["Body"] for message in messages] == ["a", "b", "b"]
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        assert queue.size() == 0

    def test_ironmq_reserves_and_deletes(self, sqs, both):
        url, queue = both
        for body in "abc":
            sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")

        [first] = queue.reserve()
        assert first["body"] == "a"
        assert queue.reserve() == [], "its group is not blocked"
        first["reservation_id"] = queue.touch(first)
        queue.release(first)
        messages = queue.reserve(n=10)
        assert bodies(messages) == ["a", "b", "c"]
        queue.delete_many(messages)

        assert queue.size() == 0

    def test_ironmq_makes_none(self, iron, refused):
        with refused(400):
            Queue(iron, "new.fifo").post("a")


class TestUnderLoad:
    """Senders of one interface and receivers of the other, at once: each message comes once, and none is left."""

    SENDERS, RECEIVERS, EACH = 4, 4, 1500

    @pytest.fixture
    def run(self, background):
        """Runs senders and receivers until all has come; the bodies, with their numbers. `receive` gives bodies."""

        def load(send, receive):
            names = [[f"{sender}-{n}" for n in range(self.EACH)] for sender in range(self.SENDERS)]
            came, lock, complete = collections.Counter(), threading.Lock(), threading.Event()

            def receiver():
                with contextlib.closing(receive()) as receives:
                    while not complete.is_set():
                        found = next(receives)
                        with lock:
                            came.update(found)
                            if came.total() >= self.SENDERS * self.EACH:
                                complete.set()

            jobs = [background(send, bodies) for bodies in names] + [
                background(receiver) for _ in range(self.RECEIVERS)
            ]
            try:
                for job in jobs:
                    job.result(60)
            finally:
                complete.set()
            assert came == collections.Counter(sum(names, []))

        return load

    @pytest.fixture
    def by_sqs(self, server, both):
        url, _ = both

        def send(bodies):
            sqs = sdk_client(server)
            for first in range(0, len(bodies), 10):
                entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[first : first + 10])]
                assert "Failed" not in sqs.send_message_batch(QueueUrl=url, Entries=entries)

        def receive():
            sqs = sdk_client(server)
            while True:
                asked = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 1, "VisibilityTimeout": 600}
                messages = sqs.receive_message(QueueUrl=url, **asked).get("Messages", [])
                handles = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
                if handles:
                    assert "Failed" not in sqs.delete_message_batch(QueueUrl=url, Entries=handles)
                yield [message["Body"] for message in messages]

        return send, receive

    @pytest.fixture(params=[3, 1])
    def by_ironmq(self, request, server, both):
        version = request.param
        _, queue = both

        def send(bodies):
            with contextlib.closing(Iron(server.endpoint, ACCOUNT, version)) as iron:
                for first in range(0, len(bodies), 30):
                    messages = [{"body": body} for body in bodies[first : first + 30]]
                    iron.call("POST", f"{queue.path}/messages", {"messages": messages})

        def receive():
            with contextlib.closing(Iron(server.endpoint, ACCOUNT, version)) as iron:
                while True:
                    if version == 3:
                        asked = {"n": 30, "wait": 1, "timeout": 600}
                        messages = iron.call("POST", f"{queue.path}/reservations", asked)["messages"]
                        ids = [{"id": m["id"], "reservation_id": m["reservation_id"]} for m in messages]
                    else:
                        messages = iron.call("GET", f"{queue.path}/messages?n=30&wait=1&timeout=600")["messages"]
                        ids = [message["id"] for message in messages]
                    if ids:
                        iron.call("DELETE", f"{queue.path}/messages", {"ids": ids})
                    yield bodies(messages)

        return send, receive

    def test_a_queue_written_by_sqs_is_drained_by_ironmq(self, run, both, by_sqs, by_ironmq, counts):
        run(send=by_sqs[0], receive=by_ironmq[1])

        assert counts(both[0]) == (0, 0, 0)

    def test_a_queue_written_by_ironmq_is_drained_by_sqs(self, run, both, by_sqs, by_ironmq):
        run(send=by_ironmq[0], receive=by_sqs[1])

        assert both[1].size() == 0
        assert both[1].info()["total_messages"] == self.SENDERS * self.EACH
