"""Topics and `kill -9`: a publish that was answered is in every queue, once; one that was cut is in
all of them or in none. A ledger per queue judges.

`CRASH_ROUNDS` (8 here) and `CRASH_SEED` (random, printed) choose how often and when.
"""

import json
import os
import random
import threading
import time

import botocore.exceptions
import pytest

from support.sdk import sdk_client
from support.waiting import eventually

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "8"))
SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
QUEUES = 3
GROUPS = 2


class Clients:
    """SDK clients of one server."""

    def __init__(self, server):
        self.server = server
        self.sqs = sdk_client(server)
        self.sns = sdk_client(server, service="sns")

    def queue(self, name, **attributes):
        url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        names = {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
        return url, self.sqs.get_queue_attributes(**names)["Attributes"]["QueueArn"]

    def subscribe(self, topic, queue_arn, **attributes):
        request = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn, "Attributes": attributes}
        return self.sns.subscribe(**request)["SubscriptionArn"]

    def drain(self, url):
        """All bodies of a queue, in order."""
        bodies = []
        while True:
            answer = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600)
            messages = answer.get("Messages", [])
            if not messages:
                return bodies
            bodies += [message["Body"] for message in messages]
            entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
            self.sqs.delete_message_batch(QueueUrl=url, Entries=entries)


def test_a_publish_that_was_answered_is_in_both_queues(make_server):
    server = make_server(durability="fsync", test=False)
    clients = Clients(server)
    topic = clients.sns.create_topic(Name="orders")["TopicArn"]
    queues = [clients.queue(name) for name in ("east", "west")]
    for _, queue_arn in queues:
        clients.subscribe(topic, queue_arn)
    (east, _), (west, _) = queues
    first = clients.sns.publish(TopicArn=topic, Message="first", Subject="s")["MessageId"]

    (body,) = clients.drain(east)
    second = clients.sns.publish(TopicArn=topic, Message="second")["MessageId"]
    server.kill()
    server.start()

    notification = json.loads(body)
    assert (notification["MessageId"], notification["Message"]) == (first, "first")
    assert (notification["Type"], notification["TopicArn"]) == ("Notification", topic)
    assert [json.loads(body)["MessageId"] for body in clients.drain(east)] == [second]
    assert [json.loads(body)["MessageId"] for body in clients.drain(west)] == [first, second]
    # The topic and its subscriptions are there to stay.
    third = clients.sns.publish(TopicArn=topic, Message="third")["MessageId"]
    for url, _ in queues:
        assert [json.loads(body)["MessageId"] for body in clients.drain(url)] == [third]


class Publishers:
    """Publish batches to a topic through all crashes."""

    def __init__(self, server, topic, is_fifo):
        self.topic, self.is_fifo = topic, is_fifo
        self.sns = sdk_client(server, service="sns")
        self.acknowledged, self.begun, self.failures = [], set(), []
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(GROUPS)]
        for thread in self.threads:
            thread.start()

    def entry(self, name, number, text):
        entry = {"Id": str(number), "Message": text}
        if self.is_fifo:
            entry |= {"MessageGroupId": name, "MessageDeduplicationId": text.replace(" ", "-")}
        return entry

    def run(self, number):
        step = 0
        while not self.ended.is_set():
            texts = [f"{number} {step + n}" for n in range(3)]
            self.begun.add(tuple(texts))
            entries = [self.entry(f"g{number}", n, text) for n, text in enumerate(texts)]
            try:
                self.sns.publish_batch(TopicArn=self.topic, PublishBatchRequestEntries=entries)
            except botocore.exceptions.ClientError as refused:
                if refused.response["ResponseMetadata"]["HTTPStatusCode"] != 503:
                    self.failures.append(refused)
                    return
            except botocore.exceptions.BotoCoreError:
                self.ended.wait(0.01)  # The server is down.
            else:
                self.acknowledged += texts
            # A FIFO publisher sends again what was cut: the topic knows it.
            step += 3 if not self.is_fifo or texts[-1] in self.acknowledged else 0

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("is_fifo", [False, True])
@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_every_queue_gets_the_same_messages_once(make_server, capsys, is_fifo):
    with capsys.disabled():
        print(f"crash: seed {SEED}, {ROUNDS} rounds")
    rng = random.Random(SEED)
    server = make_server(durability="fsync", test=False)
    clients = Clients(server)
    suffix, attributes = (".fifo", {"FifoQueue": "true"}) if is_fifo else ("", {})
    kind = {"FifoTopic": "true"} if is_fifo else {}
    topic = clients.sns.create_topic(Name="t" + suffix, Attributes=kind)["TopicArn"]
    queues = [clients.queue(f"q{n}{suffix}", **attributes) for n in range(QUEUES)]
    # A standard queue of a FIFO topic relies on the topic alone.
    queues += [clients.queue("standard")] if is_fifo else []
    for _, queue_arn in queues:
        clients.subscribe(topic, queue_arn, RawMessageDelivery="true")

    publishers = Publishers(server, topic, is_fifo)
    try:
        for _ in range(ROUNDS):
            time.sleep(rng.uniform(0.05, 0.6))  # The moment of the crash is the test's own random.
            server.kill()
            server.start()
        # Some are published by the last run, too.
        before = len(publishers.acknowledged)
        eventually(lambda: len(publishers.acknowledged) > before)
    finally:
        publishers.end()

    assert not publishers.failures, publishers.failures
    acknowledged = set(publishers.acknowledged)
    assert len(acknowledged) > ROUNDS
    received = [clients.drain(url) for url, _ in queues]
    for bodies in received:
        assert len(bodies) == len(set(bodies)), "once"
        assert acknowledged <= set(bodies)
        assert set(bodies) == set(received[0]), "all queues or none"
        for batch in publishers.begun:
            assert len(set(batch) & set(bodies)) in (0, len(batch)), "a batch is whole"
        if is_fifo and bodies is not received[-1]:
            for number in range(GROUPS):
                steps = [int(body.split()[1]) for body in bodies if body.split()[0] == str(number)]
                assert steps == sorted(steps)


def test_a_large_fan_out_goes_on_after_a_crash(make_server):
    server = make_server(durability="fsync", test=False)
    clients = Clients(server)
    topic = clients.sns.create_topic(Name="large")["TopicArn"]
    queues = [clients.queue(f"q{n}") for n in range(40)]
    for _, queue_arn in queues:
        clients.subscribe(topic, queue_arn, RawMessageDelivery="true")
    # 10 MB for each: several steps.
    texts = [f"{n} ".ljust(240_000, "x") for n in range(3)]

    for text in texts:
        clients.sns.publish(TopicArn=topic, Message=text)
        server.kill()
        server.start()

    def count(url):
        names = {"QueueUrl": url, "AttributeNames": ["ApproximateNumberOfMessages"]}
        return int(clients.sqs.get_queue_attributes(**names)["Attributes"]["ApproximateNumberOfMessages"])

    eventually(lambda: all(count(url) == len(texts) for url, _ in queues), timeout_s=60)
    for url, _ in queues:
        assert sorted(clients.drain(url)) == texts
