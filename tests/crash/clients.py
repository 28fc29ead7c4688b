"""Producers and consumers of the crash test: raw HTTP on kept connections, one thread each.

They go on for ever; a refused connection or a cut answer is what the test is about, so they note
it, wait for the server to be back and go on. Any answer that is neither success nor the end of the
connection is an error of the server.
"""

import http.client
import itertools
import json
import threading
import time

from support.wire import JSON_TYPE

CUT = (ConnectionError, http.client.HTTPException, TimeoutError, OSError)


class Connection:
    """A kept connection to the one server of the test, opened again when it was cut."""

    def __init__(self, port):
        self.port = port
        self.http = None

    def call(self, action, **parameters):
        """The answer of an action, or None if nobody knows whether it happened."""
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": f"AmazonSQS.{action}"}
        try:
            if self.http is None:
                self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            self.http.request("POST", "/", json.dumps(parameters), headers)
            answer = self.http.getresponse()
            body = answer.read()
        except CUT:
            if self.http is not None:
                self.http.close()
            self.http = None
            return None
        if answer.status == 503:
            return None  # Draining or poisoned: not accepted.
        assert answer.status == 200, (action, answer.status, body)
        return json.loads(body or b"{}")


class Load:
    """A set of client threads on one server."""

    def __init__(self, port):
        self.port = port
        self.ended = threading.Event()
        self.serving = threading.Event()
        self.failures = []
        self.threads = []

    def run(self, client, *arguments):
        def loop():
            connection = Connection(self.port)
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
            thread.join(60)
        assert not self.failures, self.failures


def produce(connection, url, ledger, name):
    """Single sends and batches in turn; each step yields the answer, None if it was cut."""
    for n in itertools.count():
        if n % 4:
            bodies = [f"{name}-{n}"]
            ledger.send_begins(bodies)
            answer = connection.call("SendMessage", QueueUrl=url, MessageBody=bodies[0])
        else:
            bodies = [f"{name}-{n}-{m}" for m in range(5)]
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
            if answer is not None:
                done = {result["Id"] for result in answer.get("Successful", [])}
                ledger.delete_acknowledged([b for m, b in enumerate(bodies) if f"id{m}" in done])
        yield answer


def drain(connection, url, ledger, is_empty):
    """Receives and deletes until the queue is empty: bodies in order of receipt."""
    drained = []
    while True:
        asked_at = time.monotonic()
        answer = connection.call(
            "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=30
        )
        messages = answer.get("Messages", [])
        if not messages:
            if is_empty():
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
