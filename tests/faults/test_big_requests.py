"""Requests that are large, deep, or of very many parts: each is answered soon, with an error that
fits, in bounded memory."""

import base64
import gzip
import json
import select
import time
import urllib.parse
import zlib

import pytest

from crash.clients import Connection
from faults.rig import Memory, connect, form_request, json_request, read_response
from support.waiting import eventually

MIB = 1 << 20
MANY = 100_000
TOO_MANY = {404}  # MalformedQueryString has this status.
ANSWER_S = 5  # Generous: what takes seconds is quadratic.


def parameters(pattern: str, action: str) -> bytes:
    """100,000 parameters of a form, numbered."""
    numbered = "&".join(pattern.format(n=n) for n in range(1, MANY + 1))
    return f"Action={action}&{numbered}".encode()


def send_json(body: bytes, action="SendMessage", extra="") -> bytes:
    return json_request(action, body, extra)


def head_of(lines: bytes) -> bytes:
    return b"GET /health HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n"


def chunked(chunk: bytes, count: int) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + (b"%x\r\n%s\r\n" % (len(chunk), chunk)) * count + b"0\r\n\r\n"


NOISE = zlib.compress(bytes(range(256)) * 4000)
METRICS_CBOR = (
    b"POST /service/GraniteServiceVersion20100801/operation/PutMetricData HTTP/1.1\r\nHost: a\r\n"
    b"Smithy-Protocol: rpc-v2-cbor\r\nContent-Type: application/cbor\r\nContent-Length: %d\r\n\r\n%s"
)


def metrics_cbor(count: int) -> bytes:
    """Data points without members, of a byte each."""
    body = b"\xa1\x6aMetricData\x9b" + count.to_bytes(8, "big") + b"\xa0" * count
    return METRICS_CBOR % (len(body), body)


# name → statuses, and the request, made when it is needed.
CASES = {
    "arrays nested 1,000,000 deep": ({400}, lambda _: send_json(b"[" * 1_000_000)),
    "arrays nested and closed": ({400}, lambda _: send_json(b"[" * MANY + b"]" * MANY)),
    "objects nested 100,000 deep": ({400}, lambda _: send_json(b'{"a":' * MANY + b"1" + b"}" * MANY)),
    "deep in an unknown member": (
        {400},
        lambda url: send_json(b'{"QueueUrl":"%s","x":%s%s}' % (url, b"[" * MANY, b"]" * MANY)),
    ),
    "100,000 members": (
        {400},
        lambda _: send_json(json.dumps({f"member{n}": n for n in range(MANY)}).encode()),
    ),
    "100,000 entries of a batch": (
        {400},
        lambda url: send_json(
            json.dumps({
                "QueueUrl": url.decode(),
                "Entries": [{"Id": f"i{n}", "MessageBody": "x"} for n in range(MANY)],
            }).encode(),
            "SendMessageBatch",
        ),
    ),
    "50,000 message attributes": (
        {400},
        lambda url: send_json(
            json.dumps({
                "QueueUrl": url.decode(),
                "MessageBody": "x",
                "MessageAttributes": {f"a{n}": {"DataType": "String", "StringValue": "x"} for n in range(50_000)},
            }).encode()
        ),
    ),
    "100,000 attribute names": (
        {200, 400},
        lambda url: send_json(
            json.dumps({"QueueUrl": url.decode(), "AttributeNames": ["All"] * MANY}).encode(),
            "GetQueueAttributes",
        ),
    ),
    "a body of 7 MiB": (
        {400},
        lambda url: send_json(b'{"QueueUrl":"%s","MessageBody":"%s"}' % (url, b"x" * (7 * MIB))),
    ),
    "a body of 7 MiB in escapes": (
        {400},
        lambda url: send_json(b'{"QueueUrl":"%s","MessageBody":"%s"}' % (url, b"\\u00e9" * (7 * MIB // 6))),
    ),
    "a number of 1,000,000 digits": (
        {400},
        lambda url: send_json(
            b'{"QueueUrl":"%s","MessageBody":"x","DelaySeconds":%s}' % (url, b"9" * 1_000_000)
        ),
    ),
    "a body beyond the limit": ({413}, lambda _: send_json(b"x" * (9 * MIB))),
    "a length beyond all bounds": (
        {413},
        lambda _: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999\r\n\r\nx",
    ),
    "a task's handle of 700,000 members": (
        {400},
        lambda _: send_json(
            b'{"TaskHandle":"%s"}' % base64.b64encode(b'{"a":[%s0]}' % (b'{"a":0},' * 700_000)),
            "CancelMessageMoveTask",
        ),
    ),
    "noise": ({400, 403, 404}, lambda _: send_json(NOISE * 3)),
    "compressed noise, said so": ({400}, lambda _: send_json(NOISE, extra="Content-Encoding: gzip\r\n")),
    "a bomb, compressed": (
        {413},
        lambda _: send_json(gzip.compress(bytes(64 * MIB), 1), extra="Content-Encoding: gzip\r\n"),
    ),
    "1,000,000 data points in CBOR": ({400}, lambda _: metrics_cbor(1_000_000)),
    "7,000,000 data points in CBOR": ({413}, lambda _: metrics_cbor(7_000_000)),
    "a header of 1 MiB": ({431}, lambda _: head_of(b"X: " + b"x" * MIB + b"\r\n")),
    "10,000 headers": ({431}, lambda _: head_of(b"X: x\r\n" * 10_000)),
    "a header without an end": ({400, 431}, lambda _: b"GET / HTTP/1.1\r\nX: " + b"x" * MIB),
    "a request line of 1 MiB": ({400, 414, 431}, lambda _: b"GET /" + b"x" * MIB + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
    "1,000,000 empty lines first": ({400, 431}, lambda _: b"\r\n" * 1_000_000 + head_of(b"")),
    "1,000,000 chunks of a byte": ({400, 404}, lambda _: chunked(b"x", 1_000_000)),
    "a chunk's endless size": (
        {400},
        lambda _: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 100_000,
    ),
    "100,000 parameters": (TOO_MANY, lambda _: form_request(parameters("p{n}=x", "SendMessage"))),
    "100,000 parameters in the path": (
        {400, 414, 431},
        lambda _: b"GET /?%s HTTP/1.1\r\nHost: a\r\n\r\n" % parameters("p{n}=x", "ListQueues"),
    ),
    "100,000 times the same parameter": (
        TOO_MANY,
        lambda _: form_request(b"Action=SendMessage" + b"&MessageBody=x" * MANY),
    ),
    "100,000 attributes by number": (
        TOO_MANY,
        lambda url: form_request(
            b"QueueUrl=%s&" % urllib.parse.quote(url).encode()
            + parameters("MessageAttribute.{n}.Name=a{n}", "SendMessage")
        ),
    ),
    "100,000 entries by number": (
        TOO_MANY,
        lambda url: form_request(
            b"QueueUrl=%s&" % urllib.parse.quote(url).encode()
            + parameters("SendMessageBatchRequestEntry.{n}.Id=i{n}", "SendMessageBatch")
        ),
    ),
    "100,000 tags by number": (
        TOO_MANY,
        lambda _: form_request(b"QueueName=t&" + parameters("Tag.{n}.Key=k{n}", "CreateQueue")),
    ),
    "100,000 names by number": (
        TOO_MANY,
        lambda url: form_request(
            b"QueueUrl=%s&" % urllib.parse.quote(url).encode()
            + parameters("AttributeName.{n}=All", "GetQueueAttributes")
        ),
    ),
    "1,000,000 ampersands": ({400}, lambda _: form_request(b"Action=SendMessage" + b"&" * 1_000_000)),
    "1,000,000 percent signs": ({400}, lambda _: form_request(b"Action=SendMessage&MessageBody=" + b"%" * 1_000_000)),
    "an index beyond all bounds": (
        {400},
        lambda url: form_request(
            b"QueueUrl=%s&Action=SendMessageBatch&SendMessageBatchRequestEntry.18446744073709551615.Id=a"
            % urllib.parse.quote(url).encode()
        ),
    ),
}


@pytest.fixture(scope="module")
def big_server(tmp_path_factory):
    from support.server import Server

    server = Server(tmp_path_factory.mktemp("big")).start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def url(big_server) -> bytes:
    created = Connection(big_server.port).call("CreateQueue", QueueName="big")
    return created["QueueUrl"].encode()


@pytest.mark.parametrize("name", CASES)
def test_big_request_is_answered_soon(big_server, url, name):
    statuses, make = CASES[name]
    request = make(url)
    memory = Memory(big_server)

    began = time.monotonic()
    connection = connect(big_server, timeout=20)
    try:
        connection.sendall(request)
    except (ConnectionResetError, BrokenPipeError):
        pass  # Refused before all was sent; the answer is there.
    with connection.makefile("rb") as stream:
        status, headers, body = read_response(stream)
    took_s = time.monotonic() - began
    connection.close()

    assert status in statuses, (status, body[:300])
    if "json" in headers["content-type"] and status != 200:
        assert json.loads(body)["__type"]
    assert took_s < ANSWER_S, f"{took_s:.1f} s for {len(request)} bytes"
    memory.check(print)
    assert big_server.get("/health")[0] == 200


def test_little_memory_takes_few_large_bodies_at_a_time(make_server):
    """As in a small container, which would be killed. Those that were taken are not given up."""
    server = make_server(config=f"[limits]\nmemory_bytes = {64 * MIB}\n")
    url = Connection(server.port).call("CreateQueue", QueueName="large")["QueueUrl"]
    whole = json_request("SendMessage", {"QueueUrl": url, "MessageBody": "x" * 1_000_000})
    memory = Memory(server)
    connections = [connect(server) for _ in range(60)]
    for connection in connections:
        try:
            connection.sendall(whole[:-1])
        except OSError:
            pass  # Refused, and cut off.

    def answered():
        return select.select(connections, [], [], 0)[0]

    eventually(lambda: len(answered()) >= 55, "the others are refused", 10)
    memory.check(print, growth_mb=40)
    refused = answered()
    statuses = []
    for connection in connections:
        if connection not in refused:
            try:
                connection.sendall(whole[-1:])
            except OSError:
                pass  # Refused only now: its turn had not come.
            # One that was taken and given up would be closed without an answer.
            with connection.makefile("rb") as stream:
                statuses.append(read_response(stream)[0])
    print("taken and refused late:", statuses)
    assert statuses.count(200) >= 2 and set(statuses) <= {200, 503}
    with refused[0].makefile("rb") as stream:
        assert read_response(stream)[0] == 503
    for connection in connections:
        connection.close()


WAITING = 1_000
JUNK = b"&".join(b"%d" % number for number in range(11_000))  # Parameters that nobody asks for.
LONG_POLL = {"QueueUrl": "http://a/000000000000/big", "WaitTimeSeconds": 5}
# Each is small enough to be read whatever the others hold.
SMALL = {
    "a compressed body of a long poll": json_request(
        "ReceiveMessage",
        gzip.compress(json.dumps(LONG_POLL).encode().ljust(MIB)),
        "Content-Encoding: gzip\r\n",
    ),
    "parameters of a long poll, again and again": form_request(
        b"Action=ReceiveMessage&" + urllib.parse.urlencode(LONG_POLL).encode() + b"&a" * 30_000
    ),
    "parameters of metrics": form_request(
        b"Action=PutMetricData&Version=2010-08-01&Namespace=n&MetricData.member.1.MetricName=m"
        b"&MetricData.member.1.Value=1&" + JUNK
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_requests_that_wait_hold_little_memory(make_server, name):
    server = make_server()
    Connection(server.port).call("CreateQueue", QueueName="big")
    request = SMALL[name]
    assert len(request) < 64 * 1024
    memory = Memory(server)

    connections = [connect(server, timeout=60) for _ in range(WAITING)]
    for connection in connections:
        connection.sendall(request)
    for connection in connections:
        memory.look()
        with connection.makefile("rb") as stream:
            assert read_response(stream)[0] in (200, 400)
        connection.close()

    memory.check(print, growth_mb=300)
