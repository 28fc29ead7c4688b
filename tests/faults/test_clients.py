"""Clients that vanish, that dawdle, and that come in masses: the others notice nothing, memory and
descriptors come back."""

import time

import pytest

from crash.clients import Connection
from faults.rig import (
    SCALE,
    LedgeredLoad,
    Memory,
    Probe,
    connect,
    json_request,
    open_files,
    open_sockets,
    vanish,
)
from support.waiting import eventually

VANISHING = 2_000 * SCALE  # of each kind
BATCH = 200
DAWDLING = 200
MASS = 50_000
MASS_BATCH = 500
MASS_SECONDS = 40 * SCALE


def in_batches(rng, server, memory, request, cut, pause_s=0.02):
    """Many connect, send what `cut` leaves of a request, and vanish, some by reset."""
    done = 0
    while done < VANISHING:
        connections = []
        for _ in range(BATCH):
            connection = connect(server, receive_buffer=4096)
            connection.sendall(cut(request()))
            connections.append(connection)
        time.sleep(pause_s)
        memory.look()
        for connection in connections:
            vanish(connection, rng.random() < 0.5)
        done += len(connections)


@pytest.mark.timeout(60 + 60 * SCALE)
def test_clients_that_vanish_at_every_point(make_server, rng, say):
    server = make_server(durability="fsync")
    admin = Connection(server.port)
    polled = admin.call("CreateQueue", QueueName="polled")["QueueUrl"]
    large = admin.call("CreateQueue", QueueName="large")["QueueUrl"]
    for _ in range(4):
        admin.call("SendMessage", QueueUrl=large, MessageBody="x" * 1_000_000)
    load, probe = LedgeredLoad(server), Probe(server)
    sockets = open_sockets(server)

    def send():
        return json_request("SendMessage", {"QueueUrl": polled, "MessageBody": "x" * 20_000})

    def poll():
        return json_request("ReceiveMessage", {"QueueUrl": polled, "WaitTimeSeconds": 20})

    def take():
        return json_request("ReceiveMessage", {"QueueUrl": large, "VisibilityTimeout": 0})

    def mid_head(request):
        return request[: rng.randrange(1, request.index(b"\r\n\r\n"))]

    def mid_body(request):
        return request[: rng.randrange(request.index(b"\r\n\r\n") + 4, len(request))]

    def whole(request):
        return request

    memory = Memory(server)
    with load, probe:
        for request, cut, name in (
            (send, mid_head, "mid-head"),
            (send, mid_body, "mid-body"),
            (take, whole, "mid-response"),
            (poll, whole, "mid-poll"),
        ):
            began = time.monotonic()
            in_batches(rng, server, memory, request, cut)
            say(f"{VANISHING} vanished {name} in {time.monotonic() - began:.1f} s")
    probe.check(say)
    memory.check(say, growth_mb=2.5 * BATCH + 100)  # A batch of 1 MB answers at a time.

    # Nobody is left over: what is sent now is not handed to a poller that is gone.
    eventually(lambda: open_sockets(server) <= sockets, "the server has noticed them all", 10)
    for _ in range(20):
        admin.call("SendMessage", QueueUrl=polled, MessageBody="for the living")
    seen = []
    while len(seen) < 20:
        asked = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 2, "AttributeNames": ["All"]}
        messages = admin.call("ReceiveMessage", QueueUrl=polled, **asked).get("Messages")
        assert messages, f"{20 - len(seen)} messages went to clients that are gone"
        seen += messages
    counts = {message["Attributes"]["ApproximateReceiveCount"] for message in seen}
    assert {message["Body"] for message in seen} == {"for the living"}
    assert counts == {"1"}
    load.check(say)


class Race:
    """A poller that vanishes against a send: who gets the message?"""

    def __init__(self, server, rng):
        self.server = server
        self.rng = rng
        self.admin = Connection(server.port)
        self.url = self.admin.call("CreateQueue", QueueName="raced")["QueueUrl"]
        self.poll = json_request("ReceiveMessage", {"QueueUrl": self.url, "WaitTimeSeconds": 20})
        self.rounds = 50 * SCALE

    def run(self, pause_s, connected=lambda: None, vanished=lambda: None) -> int:
        """How many of the messages went to pollers that had vanished. `connected` and `vanished` wait for
        the server to know."""
        taken = 0
        for n in range(self.rounds):
            connection = connect(self.server)
            connection.sendall(self.poll)
            connected()
            time.sleep(self.rng.uniform(0.5, 1) * pause_s)
            vanish(connection, self.rng.random() < 0.5)
            vanished()
            self.admin.call("SendMessage", QueueUrl=self.url, MessageBody=str(n))
            got = self.admin.call("ReceiveMessage", QueueUrl=self.url).get("Messages", [])
            taken += not got
            for message in got:
                self.admin.call("DeleteMessage", QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def left(self) -> int:
        """How many come when all visibility timeouts have ended."""
        self.server.advance(31)
        left = 0
        asked = {"QueueUrl": self.url, "MaxNumberOfMessages": 10}
        while got := self.admin.call("ReceiveMessage", **asked).get("Messages"):
            left += len(got)
        return left


def test_poller_that_vanished_leaves_the_message_to_others(make_server, rng):
    """The next send after the server knows of it is received at once, and once."""
    server = make_server()
    race = Race(server, rng)
    sockets = open_sockets(server)

    def connected():
        eventually(lambda: open_sockets(server) > sockets, "the server has taken the connection", 10)

    def vanished():
        eventually(lambda: open_sockets(server) <= sockets, "the server has noticed the end", 10)

    assert race.run(0.04, connected, vanished) == 0
    assert race.left() == 0


def test_poller_that_vanishes_in_the_moment_of_a_send_loses_nothing(make_server, rng, say):
    """Then, or soon after it asked, it may be handed the message: it comes again later."""
    race = Race(make_server(), rng)

    taken = race.run(0.003)

    say(f"{race.rounds} sent after a poller vanished, {taken} of them went to it")
    assert race.left() == taken, "not even their visibility timeout brings them back"
    assert taken <= race.rounds // 2


@pytest.mark.timeout(180)
def test_slow_readers_are_bounded_and_disturb_nobody(make_server, rng, say):
    server = make_server(durability="fsync")
    load, probe = LedgeredLoad(server, producers=1), Probe(server)
    admin = Connection(server.port)
    url = admin.call("CreateQueue", QueueName="large")["QueueUrl"]
    admin.call("SendMessage", QueueUrl=url, MessageBody="x" * 1_000_000)
    take = json_request("ReceiveMessage", {"QueueUrl": url, "VisibilityTimeout": 0})
    files = open_files(server)

    memory = Memory(server)
    connections = []
    with load, probe:
        for _ in range(DAWDLING):
            connection = connect(server, receive_buffer=4096)
            connection.sendall(take * 3)  # Pipelined: only the first may be worked on.
            connections.append(connection)
        for _ in range(20):
            time.sleep(0.1)
            memory.look()
            for connection in rng.sample(connections, 20):
                connection.recv(100)
        if SCALE > 1:
            # Who takes nothing for 30 s is cut off.
            eventually(lambda: open_files(server) < files + 16, "slow readers are cut off", 60)
    for connection in connections:
        vanish(connection, rng.random() < 0.5)

    probe.check(say)
    memory.check(say, growth_mb=2.5 * DAWDLING)
    eventually(lambda: open_files(server) <= files + 4, "descriptors come back", 10)
    load.check(say)


@pytest.mark.timeout(180)
def test_slow_writers_are_bounded_and_disturb_nobody(make_server, rng, say):
    """One byte every 100 ms: heads, bodies and chunks."""
    server = make_server(durability="fsync")
    load, probe = LedgeredLoad(server, producers=1), Probe(server)
    admin = Connection(server.port)
    url = admin.call("CreateQueue", QueueName="slow")["QueueUrl"]
    whole = json_request("SendMessage", {"QueueUrl": url, "MessageBody": "x" * 100_000})
    body_at = whole.index(b"\r\n\r\n") + 4
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000
    files = open_files(server)

    memory = Memory(server)
    writers = []
    with load, probe:
        for n in range(DAWDLING):
            data, at = [(whole, 0), (whole, body_at), (chunked, chunked.index(b"\r\n\r\n"))][n % 3]
            connection = connect(server)
            connection.sendall(data[:at])
            writers.append([connection, data, at])
        is_cut = 0
        deadline = time.monotonic() + (75 if SCALE > 1 else 3)
        while time.monotonic() < deadline and is_cut < len(writers):
            time.sleep(0.1)
            is_cut = 0
            for writer in writers:
                connection, data, at = writer
                try:
                    connection.sendall(data[at : at + 1])
                    writer[2] += 1
                except OSError:
                    is_cut += 1
            memory.look()
    for connection, _, _ in writers:
        vanish(connection, rng.random() < 0.5)

    # Whether heads or bodies: 30 s, and a body a byte a millisecond from then on.
    if SCALE > 1:
        assert is_cut == len(writers), f"{len(writers) - is_cut} writers may dawdle for ever"
    probe.check(say)
    memory.check(say)
    eventually(lambda: open_files(server) <= files + 4, "descriptors come back", 10)
    load.check(say)


@pytest.mark.timeout(160 + 40 * SCALE)
def test_masses_of_connections_opened_and_dropped(make_server, rng, say):
    server = make_server(durability="fsync")
    load, probe = LedgeredLoad(server, producers=1), Probe(server)
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    files = open_files(server)

    memory = Memory(server)
    began = time.monotonic()
    done = answered = 0
    with load, probe:
        # On a slow machine all of them take longer than a test may: FAULT_SCALE=5 gives them the time.
        fewest = MASS if SCALE > 1 else 10_000
        while done < fewest or (done < MASS and time.monotonic() - began < MASS_SECONDS):
            # Loopback has many addresses: ports do not run out while closed connections linger.
            source = f"127.0.{rng.randrange(1, 250)}.{rng.randrange(1, 250)}"
            connections = [connect(server, source=source) for _ in range(MASS_BATCH)]
            asking = rng.sample(connections, 50)
            for connection in asking:
                connection.sendall(health)
            for connection in asking:
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
                answered += 1
            memory.look()
            for connection in connections:
                # By reset but a few: what is closed politely occupies its port for a minute.
                vanish(connection, rng.random() < 0.9)
            done += len(connections)
    took_s = time.monotonic() - began

    say(f"{done} opened and dropped in {took_s:.1f} s, {answered} asked and were answered")
    probe.check(say)
    memory.check(say)
    eventually(lambda: open_files(server) <= files + 4, "descriptors come back", 20)
    load.check(say)


def asks(connection) -> int:
    """The status that ListQueues has on a connection, which lets it in; 0 if it is closed."""
    try:
        connection.sendall(b"GET /?Action=ListQueues HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return int((connection.recv(65536) or b"HTTP/1.1 000 ").split(b" ")[1])
    except (ConnectionResetError, BrokenPipeError):
        return 0


def test_more_connections_than_allowed_are_told_so(make_server, rng, say):
    """One too many gets a 503 or is closed; those that are there go on; room that is given back
    is used again."""
    allowed = 100
    server = make_server(args=["--max-connections", str(allowed)])
    held = []
    for _ in range(allowed + 20):
        connection = connect(server)
        if asks(connection) == 200:
            held.append(connection)
    assert len(held) == allowed

    told = {200: 0, 503: 0, 0: 0}
    for _ in range(300):
        connection = connect(server)
        told[asks(connection)] += 1
        connection.close()
    assert [asks(connection) for connection in held] == [200] * allowed
    say(f"{allowed} allowed, 300 more: {told[503]} were told, {told[0]} just closed")
    assert told[200] == 0
    assert told[503] > 0

    for connection in held:
        vanish(connection, rng.random() < 0.5)
    eventually(lambda: asks(connect(server)) == 200, "room that was given back is used again", 10)
