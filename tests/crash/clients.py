"""Producers and consumers of the crash test: raw HTTP on kept connections, one thread each.

They go on for ever; a refused connection or a cut answer is what the test is about, so they note
it, wait for the server to be back and go on. Any answer that is neither success nor the end of the
connection is an error of the server.
"""

import http.client
import itertools
import json
import random
import threading
import time

from crash.ledger import FILLER
from support.wire import JSON_TYPE

# A call that hangs, or an answer that is no HTTP, is none of it.
CUT = (ConnectionError, http.client.IncompleteRead)
# What bodies are filled with.
NOISE = random.Random(0).randbytes(256 * 1024).hex()
# What a delete may say of a handle: another receive of the message came in between. FIFO only.
EXPIRED = ("ReceiptHandleIsInvalid", "The receipt handle has expired")


class Outages:
    """When the server was down, told by the one who kills it: before and after."""

    def __init__(self):
        self.serving = threading.Event()
        self.serving.set()
        self.count = 0

    def begins(self):
        # In this order: who reads the count and then whether the server is up cannot miss it.
        self.serving.clear()
        self.count += 1

    def ends(self):
        self.serving.set()

    def seen(self):
        """To be compared later: None while the server is down."""
        count = self.count
        return count if self.serving.is_set() else None


class Connection:
    """A kept connection to the one server of the test, opened again when it was cut. With
    `outages`, only they may cut it."""

    def __init__(self, port, outages=None):
        self.port = port
        self.outages = outages
        self.opened = None
        self.http = None

    def call(self, action, **parameters):
        """The answer of an action, or None if nobody knows whether it happened."""
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": f"AmazonSQS.{action}"}
        answer = self.send(action, "POST", "/", json.dumps(parameters), headers)
        if answer is None:
            return None
        status, body = answer
        assert status == 200, (action, status, body)
        return json.loads(body or b"{}")

    def send(self, action, method, path, body, headers):
        """Status and body of an answer, or None if nobody knows whether it happened."""
        try:
            if self.http is None:
                self.opened = self.outages and self.outages.seen()
                self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            self.http.request(method, path, body, headers)
            answer = self.http.getresponse()
            body = answer.read()
        except CUT as cut:
            self.check_outage(action, cut)
            self.http.close()
            self.http = None
            return None
        if answer.status == 503:
            self.check_outage(action, body)
            return None  # Draining or poisoned: not accepted.
        return answer.status, body

    def check_outage(self, action, what):
        if self.outages is None or self.opened is None:
            return
        assert self.outages.count != self.opened, f"{action} was cut while the server was up: {what!r}"


class Load:
    """A set of client threads on one server."""

    def __init__(self, port, outages=None):
        """With `outages`, nothing else may cut a call."""
        self.port = port
        self.outages = outages
        self.ended = threading.Event()
        self.serving = outages.serving if outages else threading.Event()
        self.failures = []
        self.threads = []

    def run(self, client, *arguments):
        def loop():
            connection = Connection(self.port, self.outages)
            try:
                steps = client(connection, *arguments)
                while not self.ended.is_set():
                    if next(steps) is None:
                        self.serving.wait(1)
            except Exception as failure:  # Shown by the test; a thread cannot raise.
                self.failures.append(failure)

        thread = threading.Thread(target=loop, daemon=True)
        self.threads.append(thread)
        thread.start()

    def end(self):
        self.ended.set()
        self.serving.set()
        for thread in self.threads:
            thread.join(90)
        assert not self.failures, self.failures
        assert not any(thread.is_alive() for thread in self.threads), "a client hangs"


def produce(connection, url, ledger, name, filler_bytes=0):
    """Single sends and batches in turn; each step yields the answer, None if it was cut. Bodies,
    all bodies of a batch together, are filled up with as many bytes at most."""
    rng = random.Random(name)

    def filler(most):
        length = rng.randint(0, most)
        begin = rng.randrange(len(NOISE) - length)
        return FILLER + NOISE[begin : begin + length] if most else ""

    for n in itertools.count():
        if n % 4:
            bodies = [f"{name}-{n}{filler(filler_bytes)}"]
            ledger.send_begins(bodies)
            answer = connection.call("SendMessage", QueueUrl=url, MessageBody=bodies[0])
        else:
            bodies = [f"{name}-{n}-{m}{filler(filler_bytes // 5)}" for m in range(5)]
            entries = [{"Id": f"id{m}", "MessageBody": body} for m, body in enumerate(bodies)]
            ledger.send_begins(bodies)
            answer = connection.call("SendMessageBatch", QueueUrl=url, Entries=entries)
            assert answer is None or "Failed" not in answer, answer
        if answer is not None:
            ledger.send_acknowledged(bodies)
        yield answer


def produce_fifo(connection, url, ledger, name, groups=8):
    """Sends in order to its own groups; a cut send is tried again with the same deduplication id
    and another body, until one is acknowledged."""
    for n in itertools.count():
        group = f"{name}g{n % groups}"
        number = n // groups
        for attempt in itertools.count():
            body = f"{group}:{number}:{attempt}"
            ledger.send_begins([body])
            answer = connection.call(
                "SendMessage",
                QueueUrl=url,
                MessageBody=body,
                MessageGroupId=group,
                MessageDeduplicationId=f"{group}:{number}",
            )
            if answer is not None:
                ledger.send_acknowledged([body])
                yield answer
                break
            yield None


def consume(connection, url, ledger):
    """Receives and deletes; every tenth batch is left to come again."""
    for n in itertools.count():
        asked_at = time.monotonic()
        answer = connection.call(
            "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=1
        )
        if answer is None:
            yield None
            continue
        messages = answer.get("Messages", [])
        bodies = [message["Body"] for message in messages]
        ledger.received(bodies, asked_at)
        if messages and n % 10:
            entries = [{"Id": f"id{m}", "ReceiptHandle": x["ReceiptHandle"]} for m, x in enumerate(messages)]
            ledger.delete_begins(bodies)
            answer = connection.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)
            if answer is None:
                ledger.delete_cut(bodies)
            else:
                note_deletes(ledger, bodies, answer)
        yield answer


def note_deletes(ledger, bodies, answer):
    """What a batch of deletes answered: each is done, or its handle is that of an older receive."""
    body_of = {f"id{m}": body for m, body in enumerate(bodies)}
    done = [body_of.pop(result["Id"]) for result in answer.get("Successful", [])]
    failed = answer.get("Failed", [])
    refused = [body_of.pop(result["Id"]) for result in failed]
    assert not body_of, f"no answer for {sorted(body_of)}"
    for result in failed:
        assert (result["Code"], result["Message"]) == EXPIRED, result
    ledger.delete_acknowledged(done)
    ledger.delete_refused(refused)


def is_empty(connection, url) -> bool:
    names = [f"ApproximateNumberOfMessages{suffix}" for suffix in ("", "NotVisible", "Delayed")]
    got = connection.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
    return all(value == "0" for value in got.values())


def drain(connection, url, ledger):
    """Receives and deletes until the queue is empty: bodies in order of receipt."""
    drained = []
    while True:
        asked_at = time.monotonic()
        answer = connection.call(
            "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=30
        )
        messages = answer.get("Messages", [])
        if not messages:
            if is_empty(connection, url):
                return drained
            continue
        bodies = [message["Body"] for message in messages]
        ledger.received(bodies, asked_at)
        drained += bodies
        entries = [{"Id": f"id{m}", "ReceiptHandle": x["ReceiptHandle"]} for m, x in enumerate(messages)]
        ledger.delete_begins(bodies)
        deleted = connection.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)
        assert "Failed" not in deleted, deleted
        ledger.delete_acknowledged(bodies)
