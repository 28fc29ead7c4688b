"""Malformed requests in masses: each gets a proper error or a closed connection, never a 500, and
the server goes on. `FAULT_SCALE=50` makes it a million."""

import io
import json
import socket
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

import pytest

from crash.clients import Connection
from faults.rig import SCALE, LedgeredLoad, Memory, Probe, connect, form_request, json_request, read_response

REQUESTS = 20_000 * SCALE
THREADS = 4
# What HTTP and the two protocols refuse with; 200 is for what a mutation left sound, 403 for a
# mutated signature.
STATUSES = {200, 204, 400, 403, 404, 405, 408, 411, 413, 414, 415, 417, 431, 501, 505}
KEPT_PER_CONNECTION = 500

WORDS = [
    b"null", b"true", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'""', b"[[]]", b'{"":{}}', b'"\\ud800"',
    b'"\\u0000"', b"99999999999999999999999", b"0.1", b'"\xff\xfe"', b'"../../etc"', b'"%00"',
]  # fmt: skip
ACTIONS = [
    "SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "DeleteMessageBatch",
    "ChangeMessageVisibility", "GetQueueUrl", "GetQueueAttributes", "SetQueueAttributes", "ListQueues",
    "TagQueue", "UntagQueue", "ListQueueTags", "StartMessageMoveTask", "CreateQueue", "", "X", "sendmessage",
]  # fmt: skip
MEMBERS = [
    "QueueUrl", "QueueName", "MessageBody", "Entries", "Id", "ReceiptHandle", "VisibilityTimeout", "Attributes",
    "MessageAttributes", "MaxNumberOfMessages", "DelaySeconds", "AttributeNames", "Tags", "TagKeys", "SourceArn",
    "MessageSystemAttributes", "MessageGroupId", "StringValue", "DataType", "MaxResults", "NextToken", "x",
]  # fmt: skip


class Requests:
    """Draws malformed requests."""

    def __init__(self, rng, url):
        self.rng = rng
        self.url = url
        batch = [{"Id": "a", "MessageBody": "b", "MessageAttributes": {"k": {"DataType": "String"}}}]
        self.sound = [
            json_request("SendMessage", {"QueueUrl": url, "MessageBody": "hello"}),
            json_request("SendMessageBatch", {"QueueUrl": url, "Entries": batch}),
            json_request("ReceiveMessage", {"QueueUrl": url, "VisibilityTimeout": 0}),
            json_request("GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]}),
            form_request(f"Action=SendMessage&QueueUrl={urllib.parse.quote(url)}&MessageBody=b".encode()),
            form_request(b"Action=ListQueues&MaxResults=3&Version=2012-11-05"),
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nT: x\r\n\r\n",
        ]

    def mutated(self, data: bytes, most=6) -> bytes:
        rng = self.rng
        data = bytearray(data)
        for _ in range(rng.randrange(1, most)):
            at, end = rng.randrange(len(data) + 1), len(data)
            kind = rng.randrange(6)
            if kind == 0 and at < end:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                data[at:at] = rng.randbytes(rng.randrange(1, 8))
            elif kind == 2:
                del data[at : at + rng.randrange(1, 20)]
            elif kind == 3:
                data[at:at] = rng.choice(WORDS)
            elif kind == 4:
                data[at:at] = data[at : at + rng.randrange(1, 60)] * rng.randrange(1, 4)
            elif kind == 5:
                data[at:at] = rng.choice([b"\r\n", b"\n", b"\0", b": ", b" ", b"&", b"=", b"%", b'"', b"\\"])
        return bytes(data)

    def wire(self) -> bytes:
        """Anything at all, framing included."""
        rng = self.rng
        kind = rng.randrange(10)
        if kind == 0:
            return rng.randbytes(rng.randrange(1, 2000))
        if kind == 1:
            return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(rng.randrange(200))
        if kind == 2:
            frame = rng.randrange(100).to_bytes(3, "big") + rng.randbytes(6) + rng.randbytes(60)
            return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + frame
        if kind == 3:
            return b"\x16\x03\x01" + rng.randbytes(rng.randrange(300))
        return self.mutated(rng.choice(self.sound))

    def value(self, depth=0):
        rng = self.rng
        kind = rng.randrange(9 if depth < 4 else 6)
        if kind == 0:
            return self.url
        if kind <= 2:
            return rng.choice([None, True, -1, 0, 2**31, 2**63, 2**64, 1e300, 0.5])
        if kind <= 5:
            return rng.choice(["", "a", "\0", "\ud7ff\ue000", "x" * 300, "String", "All", "a.b", "-1", "%"])
        if kind == 6:
            return [self.value(depth + 1) for _ in range(rng.randrange(12))]
        return {rng.choice(MEMBERS): self.value(depth + 1) for _ in range(rng.randrange(6))}

    def framed(self) -> bytes:
        """Sound HTTP, so that an answer is owed; what it says is nonsense."""
        rng = self.rng
        kind = rng.randrange(4)
        if kind <= 1:
            parameters = {rng.choice(MEMBERS): self.value() for _ in range(rng.randrange(8))}
            parameters["QueueUrl"] = rng.choice([self.url, self.url, self.value()])
            body = json.dumps(parameters).encode()
            if kind == 1:
                body = self.mutated(body)
            return json_request(rng.choice(ACTIONS), body)
        members = [f"{rng.choice(MEMBERS)}.{rng.randrange(-1, 99)}.{rng.choice(MEMBERS)}" for _ in range(4)]
        pairs = [("Action", rng.choice(ACTIONS)), ("QueueUrl", self.url)]
        pairs += [(rng.choice([m, m.split(".")[0]]), str(self.value(4))) for m in members]
        body = urllib.parse.urlencode(pairs).encode()
        return form_request(self.mutated(body) if kind == 3 else body)


def check_answer(request, status, headers, body):
    """A proper answer: a known status, and an error in the form of its protocol."""
    assert status in STATUSES, (status, body, request)
    if status in (200, 204) or not body:
        return
    kind = headers.get("content-type", "")
    if "json" in kind:
        error = json.loads(body)
        assert "__type" in error or "error" in error, (body, request)
    elif "xml" in kind:
        try:
            root = ElementTree.fromstring(body)
        except ElementTree.ParseError as error:
            raise AssertionError((str(error), body, request)) from None
        # A path that can be no queue's is answered as SQS does it, without a code.
        is_error = root.tag == "UnknownOperationException" or root.findtext(".//{*}Code")
        assert is_error, (body, request)
    else:
        assert kind.startswith("text/plain"), (kind, body, request)


def send_framed(server, requests, count, tally):
    """Kept connections; each request must be answered on them."""
    connection = stream = None
    for n in range(count):
        if n % KEPT_PER_CONNECTION == 0:
            if connection is not None:
                stream.close()
                connection.close()
            connection = connect(server)
            stream = connection.makefile("rb")
        request = requests.framed()
        connection.sendall(request)
        status, headers, body = read_response(stream)
        assert status, ("closed without an answer", request)
        check_answer(request, status, headers, body)
        tally[status] = tally.get(status, 0) + 1
    stream.close()
    connection.close()


def send_wire(server, requests, count, tally):
    """A connection each; silence is allowed only until we say that nothing more comes."""
    for _ in range(count):
        request = requests.wire()
        connection = connect(server)
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            answer = b""
        except TimeoutError:
            raise AssertionError(("neither answered nor closed", request)) from None
        finally:
            connection.close()
        if request.startswith(b"PRI ") or not answer:
            tally["closed"] = tally.get("closed", 0) + 1
            continue
        # A mutation can make two requests out of one.
        stream = io.BytesIO(answer)
        while stream.tell() < len(answer):
            status, headers, body = read_response(stream)
            if status == 100:
                continue
            check_answer(request, status, headers, body)
            tally[status] = tally.get(status, 0) + 1


@pytest.mark.timeout(120 + 120 * SCALE)
def test_malformed_requests_get_proper_errors(make_server, rng, say):
    server = make_server(durability="fsync")
    connection = Connection(server.port)
    # Nothing that a mutation makes may hold what it receives, or fill the disk.
    attributes = {"MessageRetentionPeriod": "60"}
    url = connection.call("CreateQueue", QueueName="malformed", Attributes=attributes)["QueueUrl"]
    load, probe = LedgeredLoad(server, producers=1), Probe(server)
    memory = Memory(server)
    tallies, failures = [], []

    def run(send, seed, tally):
        try:
            send(server, Requests(type(rng)(seed), url), REQUESTS // THREADS, tally)
        except BaseException as failure:  # Shown below; a thread cannot raise.
            failures.append(failure)

    began = time.monotonic()
    threads = []
    with load, probe:
        for n in range(THREADS):
            tallies.append({})
            arguments = ((send_framed, send_wire)[n % 2], rng.randrange(2**32), tallies[-1])
            threads.append(threading.Thread(target=run, args=arguments, daemon=True))
            threads[-1].start()
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.2)
            time.sleep(0.1)
            memory.look()
    for name, two in (("requests in sound HTTP", tallies[::2]), ("connections of anything", tallies[1::2])):
        keys = sorted({key for tally in two for key in tally}, key=str)
        found = ", ".join(f"{key}: {sum(tally.get(key, 0) for tally in two)}" for key in keys)
        say(f"{REQUESTS // 2} {name} in {time.monotonic() - began:.0f} s: {found}")
    assert not failures, failures[:3]
    probe.check(say)
    memory.check(say)
    # Whatever nonsense was accepted, it is served, and a start reads it back.
    for again in (False, True):
        if again:
            server.restart("kill")
            connection = Connection(server.port)
        sent = connection.call("SendMessage", QueueUrl=url, MessageBody="still served")
        assert sent is not None
        assert connection.call("ListQueues")["QueueUrls"]
    load.check(say)
    assert "ERROR" not in server.log.read_text()


@pytest.mark.parametrize("character", ["\ufffe", "\uffff"])
def test_noncharacter_does_not_break_an_xml_error(query_api, queue, character):
    answer = query_api.post("DeleteMessage", {"QueueUrl": queue(), "ReceiptHandle": character})

    assert answer.status == 404
    assert answer.xml().findtext(".//{*}Code") == "ReceiptHandleIsInvalid"
