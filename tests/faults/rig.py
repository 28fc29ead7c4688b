"""What the fault tests share: load with ledgers, a look at the process, raw sockets, the journal's
files."""

import contextlib
import json
import os
import socket
import statistics
import struct
import subprocess
import threading
import time
from dataclasses import dataclass

from crash.clients import Connection, Load, consume, drain, produce, produce_fifo
from crash.ledger import FifoLedger, QueueLedger
from support.server import binary
from support.waiting import eventually
from support.wire import FORM_TYPE, JSON_TYPE

SCALE = int(os.environ.get("FAULT_SCALE", "1"))


class LedgeredLoad:
    """Producers and consumers of a standard and a FIFO queue that a fault must not disturb: no
    call of theirs may be cut or answered 503, unless the test is about that. As a context, it runs
    while the block does."""

    def __init__(self, server, name="load", producers=2, may_be_cut=False):
        self.port = server.port
        self.may_be_cut = may_be_cut
        self.queues = []
        self.producers = producers
        self.generation = 0
        for ledger, suffix in ((QueueLedger(), ""), (FifoLedger(), ".fifo")):
            attributes = {"FifoQueue": "true"} if suffix else {}
            parameters = {"QueueName": name + suffix, "Attributes": attributes}
            url = Connection(self.port).call("CreateQueue", **parameters)["QueueUrl"]
            self.queues.append((url, ledger))

    def __enter__(self):
        """May be entered again, for instance after a restart: the ledgers go on."""
        self.load = Load(self.port)
        self.load.serving.set()
        self.generation += 1
        (plain_url, plain), (fifo_url, fifo) = self.queues
        for n in range(self.producers):
            name = f"g{self.generation}p{n}"
            self.load.run(self.uncut, produce, plain_url, plain, name)
            self.load.run(self.uncut, produce_fifo, fifo_url, fifo, name)
        for url, ledger in self.queues:
            self.load.run(self.uncut, consume, url, ledger)
        return self

    def __exit__(self, *_):
        self.load.end()

    def uncut(self, connection, client, *arguments):
        for answer in client(connection, *arguments):
            is_fine = answer is not None or self.may_be_cut or self.load.ended.is_set()
            assert is_fine, "a client's call was cut"
            yield answer

    def go_on_for(self, seconds):
        """So long, and on a slow disk until both queues have acknowledged something more."""
        before = [len(ledger.acknowledged) for _, ledger in self.queues]
        time.sleep(seconds)
        eventually(
            lambda: all(
                len(ledger.acknowledged) > count
                for (_, ledger), count in zip(self.queues, before, strict=True)
            ),
            "an acknowledgement",
        )

    def kill(self, server):
        """SIGKILL in the middle: only now may calls be cut."""
        self.load.ended.set()
        server.kill()
        self.load.end()

    def check(self, say):
        """Drains both queues and lets the ledgers judge."""
        connection = Connection(self.port)
        for url, ledger in self.queues:
            left = drain(connection, url, ledger)
            ledger.check_drained(left)
            say(
                f"{url.rpartition('/')[2]}: {len(ledger.acknowledged)} acknowledged, "
                f"{len(ledger.deleted_at)} deleted, {len(left)} left at the end, "
                f"{len(ledger.errors)} errors"
            )
            assert not ledger.errors, ledger.errors
            assert ledger.acknowledged


class Probe:
    """Another client meanwhile: sends, receives and deletes one message at a time on its own
    queue, and notes how long each turn takes."""

    def __init__(self, server, name="probe"):
        self.connection = Connection(server.port)
        self.url = self.connection.call("CreateQueue", QueueName=name)["QueueUrl"]
        self.turns_s = []
        self.failure = None
        self.ended = threading.Event()

    def turn(self):
        began = time.monotonic()
        sent = self.connection.call("SendMessage", QueueUrl=self.url, MessageBody="probe")
        got = self.connection.call("ReceiveMessage", QueueUrl=self.url, WaitTimeSeconds=5)
        assert sent and got, "the probe's call was cut"
        (message,) = got["Messages"]
        assert message["MessageId"] == sent["MessageId"]
        handle = message["ReceiptHandle"]
        assert self.connection.call("DeleteMessage", QueueUrl=self.url, ReceiptHandle=handle) is not None
        self.turns_s.append(time.monotonic() - began)

    def __enter__(self):
        def run():
            try:
                while True:  # A fault may be over before the first turn is.
                    self.turn()
                    if self.ended.wait(0.01):
                        break
            except Exception as failure:  # Shown by the test; a thread cannot raise.
                self.failure = failure

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(60)

    def check(self, say, worst_s=10.0):
        """The bound is generous: what it finds is a server that stands still."""
        assert self.failure is None, repr(self.failure)
        assert self.turns_s, "the probe never got a turn"
        median, worst = statistics.median(self.turns_s), max(self.turns_s)
        say(f"others meanwhile: {len(self.turns_s)} turns, median {median * 1e3:.1f} ms, worst {worst:.2f} s")
        assert worst < worst_s


def rss_mb(server) -> float:
    with open(f"/proc/{server.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files(server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def open_sockets(server) -> int:
    """Of them, sockets: whoever is connected, as far as the server knows."""
    folder = f"/proc/{server.process.pid}/fd"
    links = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
            links.append(os.readlink(f"{folder}/{name}"))
    return sum(link.startswith("socket:") for link in links)


@dataclass
class Memory:
    """Resident memory over a test: the highest seen by `look` against that at the start."""

    server: object
    start_mb: float = 0
    highest_mb: float = 0

    def __post_init__(self):
        self.start_mb = self.highest_mb = rss_mb(self.server)

    def look(self):
        self.highest_mb = max(self.highest_mb, rss_mb(self.server))

    def check(self, say, growth_mb=100):
        self.look()
        grown = self.highest_mb - self.start_mb
        say(f"memory: {self.start_mb:.0f} MB at first, grown by {grown:.0f} MB at most, bound {growth_mb}")
        assert grown < growth_mb


def log_since(server, offset) -> bytes:
    with server.log.open("rb") as log:
        log.seek(offset)
        return log.read()


def connect(server, timeout=10, receive_buffer=None, source="127.0.0.1") -> socket.socket:
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(timeout)
    if source != "127.0.0.1":
        connection.bind((source, 0))
    connection.connect(("127.0.0.1", server.port))
    return connection


def vanish(connection, by_reset):
    """Closes without a goodbye; by reset as a crashed host does, else as a killed process."""
    if by_reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def json_request(action, parameters, extra="") -> bytes:
    body = parameters if isinstance(parameters, bytes) else json.dumps(parameters).encode()
    head = (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON_TYPE}\r\n"
        f"X-Amz-Target: AmazonSQS.{action}\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def form_request(body: bytes, path="/") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM_TYPE}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def read_response(stream) -> tuple[int, dict, bytes]:
    """One response off a buffered reader, with its framing checked; status 0 at the end."""
    line = stream.readline(65536)
    if not line:
        return 0, {}, b""
    version, status, _ = line.split(b" ", 2)
    assert version == b"HTTP/1.1", line
    headers = {}
    while (line := stream.readline(65536)) != b"\r\n":
        assert line.endswith(b"\r\n"), line
        name, _, value = line.partition(b":")
        headers[name.decode().lower()] = value.strip().decode()
    length = int(headers.get("content-length", "0"))
    body = stream.read(length)
    assert len(body) == length, "the answer was cut"
    return int(status), headers, body


class Journal:
    """The files of a server that is down."""

    def __init__(self, server):
        self.data = server.data
        self.directory = server.data / "journal"

    def command(self, *arguments) -> subprocess.CompletedProcess:
        command = [binary(), "journal", *arguments, "--data", self.data]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def report(self) -> dict:
        checked = self.command("check", "--json")
        report = json.loads(checked.stdout)
        assert checked.returncode == (0 if report["is_sound"] else 1), checked
        return report

    def end(self) -> tuple[str, int]:
        """Name of the last segment, and where its last intact frame ends."""
        last = self.report()["segments"][-1]
        return last["segment"], last["size_bytes"]

    def path(self, segment: str):
        return self.directory / f"{segment}.seg"

    def write(self, segment: str, offset: int, data: bytes):
        with self.path(segment).open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def read(self, segment: str, offset: int, length: int) -> bytes:
        with self.path(segment).open("rb") as file:
            file.seek(offset)
            return file.read(length)
