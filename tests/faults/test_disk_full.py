"""A disk that fills up under load, is emptied by consumers, fills again, and is given space.

The disk is a tmpfs of this test's own, so this needs root and the right to mount.
"""

import contextlib
import itertools
import os
import subprocess
import threading
import time

import pytest

from crash.clients import NOISE, Connection
from crash.ledger import FILLER, QueueLedger
from faults.rig import SCALE, Journal
from support.server import Server
from support.skips import lacks
from support.waiting import eventually
from support.wire import ApiError, JsonApi, QueryApi

SEGMENT_MB = 64
DISK_MB = 2 * SEGMENT_MB + 24
BODY_BYTES = 256 * 1024
REFUSAL = (503, "ServiceUnavailable")


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0:
        lacks("needs root to mount a small disk")
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "millrace-fault", directory]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        lacks(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", directory], check=True)


@pytest.fixture
def server(disk, tmp_path):
    server = Server(tmp_path / "server", durability="fsync")
    server.data = disk / "data"
    server.start()
    yield server
    server.close()


class Clients:
    """Senders of large bodies, which count on being refused, and what else is done meanwhile."""

    def __init__(self, server, rng):
        self.api = JsonApi(server.endpoint)
        self.query = QueryApi(server.endpoint)
        self.ledger = QueueLedger()
        self.url = self.api.call("CreateQueue", QueueName="full")["QueueUrl"]
        self.rng = rng
        self.names = itertools.count()
        self.failures = []

    def body(self) -> str:
        """A unique start says which message it is; what fills it up differs, too."""
        length = self.rng.randrange(BODY_BYTES // 2, BODY_BYTES)
        begin = self.rng.randrange(len(NOISE) - length)
        return f"m{next(self.names)}{FILLER}{NOISE[begin : begin + length]}"

    def send(self) -> bool:
        """Whether it was accepted; any refusal but the one expected is an error."""
        body = self.body()
        self.ledger.send_begins([body])
        try:
            self.api.call("SendMessage", QueueUrl=self.url, MessageBody=body)
        except ApiError as refused:
            assert (refused.status, refused.code) == REFUSAL, refused
            return False
        self.ledger.send_acknowledged([body])
        return True

    def fill(self):
        """Several send until each was refused a few times: at the edge of the disk, a refused
        send may be followed by one that still fits."""

        def until_refused():
            refused = 0
            deadline = time.monotonic() + 30
            while refused < 5:
                assert time.monotonic() < deadline, "the disk never fills"
                refused += not self.send()

        with self.threads(until_refused):
            pass

    @contextlib.contextmanager
    def knocking(self):
        """Others go on sending, refused or not, while the block runs."""
        ended = threading.Event()

        def until_ended():
            while not ended.wait(0.001):
                self.send()

        with self.threads(until_ended):
            yield
            ended.set()

    @contextlib.contextmanager
    def threads(self, work, count=4):
        def run():
            try:
                work()
            except Exception as failure:  # Shown below; a thread cannot raise.
                self.failures.append(failure)

        threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join(60)
        assert not self.failures, self.failures

    def take(self, count) -> int:
        """Receives up to so many messages and deletes them: how many there were."""
        taken = 0
        while taken < count:
            asked_at = time.monotonic()
            asked = {"QueueUrl": self.url, "MaxNumberOfMessages": min(10, count - taken)}
            messages = self.api.call("ReceiveMessage", **asked).get("Messages", [])
            if not messages:
                break
            bodies = [message["Body"] for message in messages]
            self.ledger.received(bodies, asked_at)
            self.ledger.delete_begins(bodies)
            handles = [message["ReceiptHandle"] for message in messages]
            entries = [{"Id": f"id{n}", "ReceiptHandle": handle} for n, handle in enumerate(handles)]
            deleted = self.api.call("DeleteMessageBatch", QueueUrl=self.url, Entries=entries)
            assert "Failed" not in deleted, deleted
            self.ledger.delete_acknowledged(bodies)
            taken += len(messages)
        return taken

    def refused(self, api, action, **parameters):
        with pytest.raises(ApiError) as caught:
            api.call(action, **parameters)
        assert (caught.value.status, caught.value.code) == REFUSAL, caught.value

    def check_full(self, server):
        """What a full disk refuses, and what it lets go on."""
        body = self.body()
        self.refused(self.api, "SendMessage", QueueUrl=self.url, MessageBody=body)
        self.refused(self.query, "SendMessage", QueueUrl=self.url, MessageBody=body)
        entries = [{"Id": "a", "MessageBody": body}]
        try:
            answer = self.api.call("SendMessageBatch", QueueUrl=self.url, Entries=entries)
            assert "Successful" not in answer, "a batch is accepted where a single send is not"
        except ApiError as refused:
            assert refused.status == 503, refused
        assert server.get("/health")[0] == 200
        assert server.get("/ready")[0] == 200, "consumers are cut off when they are needed most"
        got = self.api.call("GetQueueAttributes", QueueUrl=self.url, AttributeNames=["All"])
        assert int(got["Attributes"]["ApproximateNumberOfMessages"]) > 0
        assert self.api.call("ListQueues")["QueueUrls"] == [self.url]
        (message,) = self.api.call("ReceiveMessage", QueueUrl=self.url)["Messages"]
        handle = {"QueueUrl": self.url, "ReceiptHandle": message["ReceiptHandle"]}
        self.api.call("ChangeMessageVisibility", VisibilityTimeout=0, **handle)
        assert self.take(5) == 5


def grow(disk, megabytes):
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", disk], check=True)


@pytest.mark.timeout(120 + 60 * SCALE)
def test_full_disk_refuses_sends_only_and_recovers(server, disk, rng, say):
    clients = Clients(server, rng)

    for _ in range(2 * SCALE):
        clients.fill()
        waiting = len(clients.ledger.acknowledged - clients.ledger.deleting)
        clients.check_full(server)
        # A start finds its way on a full disk. A few sends fit until it has found that out.
        server.restart(rng.choice(["kill", "stop"]))
        clients.fill()
        clients.check_full(server)
        server.advance(60)  # What was received before the restart comes again.
        say(f"full with {waiting} messages waiting; emptied by consumers")
        with clients.knocking():
            clients.take(waiting)
        clients.take(10**6)
        eventually(clients.send, "sends are accepted again after the queue was emptied", 10)

    clients.fill()
    grow(disk, DISK_MB + 2 * SEGMENT_MB)
    eventually(clients.send, "sends are accepted again after space was added", 10)
    for _ in range(50):
        assert clients.send(), "space came back, and a send is refused"
    assert b"another journal segment is there" in server.log.read_bytes()
    server.restart("kill")
    server.advance(60)
    clients.ledger.check_drained(drain_names(clients))

    ledger = clients.ledger
    say(f"{len(ledger.acknowledged)} acknowledged, {len(ledger.deleted_at)} deleted, {len(ledger.errors)} errors")
    assert ledger.errors == []
    server.stop()
    assert Journal(server).report()["is_sound"]
    assert "poisoned" not in server.log.read_text()


def drain_names(clients) -> list[str]:
    before = set(clients.ledger.deleting)
    clients.take(10**6)
    return sorted(clients.ledger.deleting - before)


def test_filler_of_somebody_else_is_survived(server, disk, rng, say):
    """Somebody else fills the disk while the journal has a segment to go, and leaves again."""
    clients = Clients(server, rng)
    assert clients.send()
    filler = disk / "somebody-else"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\1" * (1 << 20))
        except OSError as full:
            say(f"filled with {filler.stat().st_size >> 20} MB: {full.strerror}")

    clients.fill()
    clients.check_full(server)
    filler.unlink()
    eventually(clients.send, "sends are accepted again after space was freed", 10)
    server.advance(60)
    clients.ledger.check_drained(drain_names(clients))

    assert clients.ledger.errors == []


@pytest.mark.skipif(SCALE == 1, reason="takes a minute: FAULT_SCALE=2")
@pytest.mark.timeout(300)
def test_receives_leave_a_full_disk_the_space_to_delete(server, rng, say):
    """Consumers that receive and never delete write, too; they must not lock the others out."""
    clients = Clients(server, rng)
    api = clients.api
    url = api.call("CreateQueue", QueueName="received-for-ever")["QueueUrl"]
    for _ in range(10):
        entries = [{"Id": f"id{n}", "MessageBody": "x"} for n in range(10)]
        api.call("SendMessageBatch", QueueUrl=url, Entries=entries)
    clients.fill()
    deadline = time.monotonic() + 150
    received = itertools.count()

    def for_ever():
        connection = Connection(server.port)
        asked = {"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
        while time.monotonic() < deadline and connection.call("ReceiveMessage", **asked) is not None:
            next(received)

    with clients.threads(for_ever):
        pass

    say(f"{next(received)} receives without a delete on a full disk")
    api.call("PurgeQueue", QueueUrl=clients.url)
    eventually(clients.send, "sends are accepted again after a purge", 10)
    assert clients.take(10**6) > 0
    assert len(api.call("ReceiveMessage", QueueUrl=url)["Messages"]) == 1
