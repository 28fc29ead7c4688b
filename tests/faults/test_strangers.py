"""Clients without a key, or with only its name, hold little memory and keep nobody out."""

import json
import time

import pytest

from faults.rig import connect, log_since, read_response, rss_mb
from faults.test_http2_floods import END_HEADERS, END_STREAM, HEADERS, PREFACE, REQUEST, RST_STREAM, SETTINGS, frame
from support.server import free_port
from support.sigv4 import Signer
from support.waiting import eventually
from support.wire import FORM_TYPE, JSON_TYPE, request

MIB = 1 << 20
MEMORY = 128 * MIB
LIMITS = f"[limits]\nmemory_bytes = {MEMORY}\n"
KEYS = """
[[credentials]]
access_key = "AKIDONE"
secret_key = "secret-one"
account = "111111111111"
[[credentials]]
access_key = "AKIDTWO"
secret_key = "secret-two"
account = "222222222222"
"""
ONE, TWO = Signer("AKIDONE", "secret-one"), Signer("AKIDTWO", "secret-two")
CONFIGS = {"keys": KEYS + LIMITS, "open": LIMITS}
CONTINUATION = 9
POST = b"\x83\x86\x84\x41\x01a"  # HPACK: POST, http, /, :authority a.


def open_streams(count, head=POST) -> bytes:
    """Streams without bodies, which are awaited."""
    streams = b"".join(frame(HEADERS, END_HEADERS, 2 * n + 1, head) for n in range(count))
    return PREFACE + frame(SETTINGS) + streams


HALF_HEAD = b"GET / HTTP/1.1\r\nHost: a\r\nA: "
POST_LINE = b"POST / HTTP/1.1\r\nHost: a\r\n"
# What each of so many connections sends, before it waits.
ATTACKS = {
    "open streams": (300, open_streams(256)),
    "a stream each": (1500, open_streams(1)),
    "nothing": (1500, b""),
    "half heads": (1500, HALF_HEAD),
    "large half heads": (1500, HALF_HEAD + b"a" * 60_000),
    "small bodies": (1500, POST_LINE + b"Content-Length: 65000\r\n\r\n" + b"a" * 60_000),
    "chunked bodies": (1500, POST_LINE + b"Transfer-Encoding: chunked\r\n\r\nFFFF\r\n" + b"a" * 60_000),
}


def hold(port, count, first, each=None):
    """Connections that sent that and wait; `each` is called now and then."""
    held = []
    for n in range(count):
        connection = connect(type("Port", (), {"port": port}), timeout=5)
        held.append(connection)
        try:
            connection.sendall(first)
        except OSError:
            pass  # Cut off already.
        if each and n % 100 == 99:
            each()
    return held


def call(server, action, body, signer=None) -> int:
    body = json.dumps(body)
    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": f"AmazonSQS.{action}"}
    if signer:
        headers = signer.headers("POST", f"{server.endpoint}/", headers, body)
    return request(server.endpoint, "POST", "/", body, headers).status


def check_attack(process, port, attack, answered, say, sent=None):
    """The attack of that name, or one that sends `sent`: a number of connections, and bytes on each."""
    count, first = sent or ATTACKS[attack]
    highest_mb, answers = [rss_mb(process)], []

    def look():
        answers.append(answered())
        highest_mb.append(rss_mb(process))

    held = hold(port, count, first, look)
    for _ in range(3):
        look()
    say(f"{attack}: {highest_mb[0]:.0f} MB before, {max(highest_mb):.0f} MB at most, {len(answers)} calls beside it")
    assert set(answers) == {200}
    assert max(highest_mb) < (MEMORY + 64 * MIB) / 1e6
    for connection in held:
        connection.close()


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("mode", CONFIGS)
def test_strangers_hold_little_memory(make_server, say, mode, attack):
    server = make_server(config=CONFIGS[mode], test=False)
    signer = ONE if mode == "keys" else None

    check_attack(server, server.port, attack, lambda: call(server, "ListQueues", {}, signer), say)


@pytest.mark.parametrize("attack", ["open streams", "large half heads"])
def test_strangers_of_the_console_hold_little_memory(make_server, say, attack):
    port = free_port()
    server = make_server(config=KEYS + LIMITS, test=False, console=f"127.0.0.1:{port}")

    def answered():
        assert call(server, "ListQueues", {}, ONE) == 200
        return request(f"http://127.0.0.1:{port}", "GET", "/login").status

    check_attack(server, port, attack, answered, say)


def test_key_ids_without_their_secret_hold_little_memory(make_server, say):
    """Heads like those of a client that knows the key: only the body would show that it does not."""
    server = make_server(config=KEYS + LIMITS, test=False)
    headers = {"content-type": JSON_TYPE, "x-amz-target": "AmazonSQS.SendMessage"}
    signed = ONE.headers("POST", "http://a/", headers, "{}")
    literals = b"".join(literal(name.lower(), value) for name, value in signed.items() if name.lower() != "host")
    sent = (300, open_streams(256, POST + literals))
    check_attack(server, server.port, "claimed streams", lambda: call(server, "ListQueues", {}, ONE), say, sent)


def block(stream, head) -> bytes:
    """A request without a body, whose head has as many frames as it needs."""
    pieces = [head[at : at + 16_384] for at in range(0, len(head), 16_384)]
    kinds = [HEADERS] + [CONTINUATION] * (len(pieces) - 1)
    flags = [END_STREAM if kind == HEADERS else 0 for kind in kinds]
    flags[-1] |= END_HEADERS
    return b"".join(frame(kind, flag, stream, piece) for kind, flag, piece in zip(kinds, flags, pieces))


def kept_heads(first_stream) -> bytes:
    """Requests each of which adds an entry to the table of headers, beside a large header."""
    large = literal("f", "x" * 60_000)
    heads = [REQUEST + large + literal("a", f"{n:03}", first=b"\x40") for n in range(112)]
    return b"".join(block(first_stream + 2 * n, head) for n, head in enumerate(heads))


def decoded_heads(first_stream) -> bytes:
    """Requests with a large path in Huffman code, each before one that adds a small entry in it."""
    large = b"\x82\x86" + number(b"\x04", 0x80, 96_002) + b"\x60" + bytes(96_001)
    small = b"\x82\x86\x84\x41\x81\x07"
    streams = [block(first_stream + 4 * n, large) + block(first_stream + 4 * n + 2, small) for n in range(60)]
    return b"".join(streams)


def test_heads_that_the_table_of_headers_keeps_alive_are_counted(make_server, say):
    """An entry of the table, which is small, keeps the whole head that it came in."""
    server = make_server(config=KEYS + LIMITS, test=False)
    sent = (150, PREFACE + frame(SETTINGS) + kept_heads(1))
    check_attack(server, server.port, "kept heads", lambda: call(server, "ListQueues", {}, ONE), say, sent)


@pytest.mark.parametrize("heads", [kept_heads, decoded_heads])
def test_heads_that_the_table_keeps_alive_are_counted_of_those_that_were_let_in(make_server, say, heads):
    """Without keys everybody is let in."""
    server = make_server(config=LIMITS, test=False)
    list_queues = b"\x82\x86\x41\x01a" + literal(":path", "/?Action=ListQueues")
    hello = PREFACE + frame(SETTINGS) + frame(HEADERS, END_STREAM | END_HEADERS, 1, list_queues)
    highest_mb, statuses, held = [], [], []
    for n in range(300):
        connection = connect(server, timeout=5)
        try:
            connection.sendall(hello)
            # Frames of settings, then the answer, which lets it in.
            answer = b""
            while b"ListQueuesResult" not in answer:
                answer += connection.recv(65_536) or b"ListQueuesResult, not: closed"
            connection.sendall(heads(3))
        except OSError:
            pass  # Cut off: it holds too much.
        held.append(connection)
        if n % 10 == 9:
            statuses.append(call(server, "ListQueues", {}))
            highest_mb.append(rss_mb(server))

    say(f"{max(highest_mb):.0f} MB at most, {len(statuses)} calls beside it")
    assert set(statuses) == {200}
    assert max(highest_mb) < (MEMORY + 64 * MIB) / 1e6
    for connection in held:
        connection.close()


def number(before: bytes, flag: int, value: int) -> bytes:
    """A number of HPACK, behind seven bits."""
    if value < 127:
        return before + bytes([flag | value])
    rest, out = value - 127, bytes([flag | 127])
    while rest >= 128:
        out += bytes([rest % 128 + 128])
        rest //= 128
    return before + out + bytes([rest])


def literal(name: str, value: str, first=b"\0") -> bytes:
    """A header that HPACK does not index, or, with another first byte, does."""

    def text(of: str) -> bytes:
        return number(b"", 0, len(of)) + of.encode()

    return first + text(name) + text(value)


def body_head(signed_as, kind) -> bytes:
    """The head of a body of 8 MiB, by whoever signs as."""
    size = b"Transfer-Encoding: chunked\r\n" if kind == "chunked" else b"Content-Length: %d\r\n" % (8 * MIB)
    lines = b"".join(f"{name}: {value}\r\n".encode() for name, value in signed_as.items() if name != "host")
    first = b"%x\r\n" % (8 * MIB) if kind == "chunked" else b""
    return b"POST / HTTP/1.1\r\nHost: a\r\n" + lines + size + b"\r\n" + first


@pytest.mark.parametrize("kind", ["length", "chunked"])
@pytest.mark.parametrize("who", ["nobody", "an unknown key", "a known key without its secret"])
def test_bodies_of_strangers_keep_none_of_others_out(make_server, who, kind):
    server = make_server(config=KEYS + f"[limits]\nmemory_bytes = {256 * MIB}\n", test=False)
    assert call(server, "CreateQueue", {"QueueName": "q"}, ONE) == 200
    signers = {"an unknown key": Signer("AKIDNONE", "x"), "a known key without its secret": Signer("AKIDONE", "x")}
    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.SendMessage"}
    if who in signers:
        headers = signers[who].headers("POST", "http://a/", headers, "")
    first = body_head(headers, kind) + b"a" * (8 * MIB - 64_000)

    held = hold(server.port, 4, first)
    big = {"QueueUrl": "q", "MessageBody": "x" * 900_000}
    statuses = [call(server, "SendMessage", big, signer) for signer in [ONE] * 5]

    assert statuses == [200] * 5
    for connection in held:
        connection.close()


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [(JSON_TYPE, b"MissingAuthenticationToken"), (FORM_TYPE, b"<Code>MissingAuthenticationToken</Code>")],
)
def test_large_body_without_a_signature_is_refused_by_its_head(make_server, content_type, expected):
    server = make_server(config=KEYS, test=False)
    headers = {"Content-Type": content_type}
    if content_type == JSON_TYPE:
        headers["X-Amz-Target"] = "AmazonSQS.SendMessage"
    connection = connect(server)

    connection.sendall(body_head(headers, "length"))  # Nothing of the body follows.
    with connection.makefile("rb") as stream:
        status, _, body = read_response(stream)

    assert status == 403, body
    assert expected in body


def test_answers_that_one_client_does_not_take_keep_none_from_others(make_server):
    server = make_server(config=KEYS + LIMITS, test=False)
    for signer in (ONE, TWO):
        assert call(server, "CreateQueue", {"QueueName": "q"}, signer) == 200
        for _ in range(20):
            assert call(server, "SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 900_000}, signer) == 200

    def receive(signer) -> bytes:
        body = json.dumps({"QueueUrl": "q", "MaxNumberOfMessages": 1})
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.ReceiveMessage"}
        signed = signer.headers("POST", f"{server.endpoint}/", headers, body)
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items() if name.lower() != "host")
        host = server.endpoint.removeprefix("http://")
        head = f"POST / HTTP/1.1\r\nHost: {host}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body.encode()

    # 16 MB where a sixteenth of 128 MiB is for answers.
    held = [connect(server, receive_buffer=4096) for _ in range(18)]
    for connection in held:
        connection.sendall(receive(ONE))
    time.sleep(1)  # They stand still: what is tested.

    statuses = []
    for _ in range(10):
        connection = connect(server)
        connection.sendall(receive(TWO))
        with connection.makefile("rb") as stream:
            statuses.append(read_response(stream)[0])
        connection.close()

    assert statuses == [200] * 10
    for connection in held:
        connection.close()


def test_what_strangers_cause_is_logged_with_a_bound(make_server):
    server = make_server(config=KEYS, test=False)
    stream = END_STREAM | END_HEADERS
    resets = b"".join(
        frame(HEADERS, stream, 2 * n + 1, REQUEST) + frame(RST_STREAM, 0, 2 * n + 1, b"\0\0\0\x08") for n in range(60)
    )
    offset = server.log.stat().st_size

    for _ in range(200):
        connection = connect(server)
        connection.sendall(PREFACE + frame(SETTINGS) + resets)
        try:
            connection.recv(1000)
        except OSError:
            pass
        connection.close()
    eventually(lambda: request(server.endpoint, "GET", "/health").status == 200, "it goes on")

    lines = log_since(server, offset).splitlines()
    assert len(lines) < 50, lines[-1]
    if lines:
        assert b"too many of a kind" in lines[-1]
