"""Bodies, secrets and signatures reach neither the log, at whatever level, nor the answer to a
request that is refused."""

import json
import socket
import urllib.parse
import uuid

import pytest

from support.server import Server
from support.sigv4 import Signer
from support.wire import FORM_TYPE, JSON_TYPE, request

VERSION = "Version=2012-11-05"
END_STREAM, END_HEADERS = 1, 4


def marker():
    """A word that no other part of a test has. Letters: no number and no digest has it either."""
    return "".join(chr(ord("g") + int(digit, 16)) for digit in uuid.uuid4().hex)


@pytest.fixture
def secret():
    return marker()


@pytest.fixture
def guarded(make_server, secret):
    config = f'[[credentials]]\naccess_key = "AKID"\nsecret_key = "{secret}"\n'
    return make_server(config=config, args=["--log-level", "trace"])


class Client:
    """Signs and sends, and keeps what must not be seen again: signatures and bodies."""

    def __init__(self, server, secret):
        self.server = server
        self.signer = Signer("AKID", secret)
        self.hidden = {secret}
        self.body = self.hide(marker())
        self.url = f"{server.endpoint}/000000000000/q"

    def hide(self, word):
        self.hidden.add(word)
        return word

    def headers(self, action, body, signer=None, path="/"):
        """`action`: of a JSON request; None: a form."""
        headers = {"Content-Type": FORM_TYPE if action is None else JSON_TYPE}
        if action is not None:
            headers["X-Amz-Target"] = f"AmazonSQS.{action}"
        headers = (signer or self.signer).headers("POST", self.server.endpoint + path, headers, body)
        self.hide(headers["authorization"].rpartition("Signature=")[2])
        return headers

    def json(self, action, parameters, signer=None, **changed):
        body = parameters if isinstance(parameters, str) else json.dumps(parameters)
        headers = self.headers(action, body, signer) | changed
        return request(self.server.endpoint, "POST", "/", body, headers)

    def form(self, body, signer=None, **changed):
        headers = self.headers(None, body, signer) | changed
        return request(self.server.endpoint, "POST", "/", body, headers)

    def presigned(self, parameters, signer=None):
        url = (signer or self.signer).presigned("GET", f"{self.url}?{VERSION}&{parameters}")
        self.hide(url.rpartition("X-Amz-Signature=")[2])
        return request(self.server.endpoint, "GET", url.removeprefix(self.server.endpoint))

    def raw(self, data: bytes, then=lambda _: None) -> bytes:
        """All that comes until the server closes, which it does when `data` and `then` are done."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
            connection.sendall(data)
            then(connection)
            answer = b""
            while more := connection.recv(65536):
                answer += more
            return answer

    def shown_in(self, text) -> list[str]:
        text = text if isinstance(text, str) else text.decode(errors="replace")
        return [word for word in self.hidden if word in text]

    def check_log(self):
        """To be done last: all is written only when the server has ended."""
        assert self.server.stop() == 0
        log = self.server.log.read_text(errors="replace")
        assert "request answered" in log, "the log is not that detailed"
        assert self.shown_in(log) == []


@pytest.fixture
def client(guarded, secret):
    client = Client(guarded, secret)
    assert client.json("CreateQueue", {"QueueName": "q"}).status == 200
    return client


def test_requests_that_are_accepted(client):
    text = {"DataType": "String", "StringValue": client.hide(marker())}
    sent = {"QueueUrl": client.url, "MessageBody": client.body, "MessageAttributes": {"a": text}}
    entry = {"Id": "a", "MessageBody": client.body}
    body = urllib.parse.quote(client.body)

    answers = [
        client.json("SendMessage", sent),
        client.json("SendMessageBatch", {"QueueUrl": client.url, "Entries": [entry]}),
        client.form(f"Action=SendMessage&{VERSION}&QueueUrl={client.url}&MessageBody={body}"),
        client.presigned(f"Action=SendMessage&MessageBody={body}"),
        client.presigned("Action=ReceiveMessage&VisibilityTimeout=0"),
        client.json("ReceiveMessage", {"QueueUrl": client.url, "MaxNumberOfMessages": 10}),
    ]

    assert [answer.status for answer in answers] == [200] * 6
    for answer in answers[-2:]:
        assert client.body in answer.text
    client.check_log()


def test_requests_that_are_refused(client):
    wrong, unknown = Signer("AKID", client.hide(marker())), Signer("OTHER", client.hide(marker()))
    body = client.body
    sent = {"QueueUrl": client.url, "MessageBody": body}
    number = {"DataType": "Number", "StringValue": client.hide(marker())}
    form = f"Action=SendMessage&{VERSION}&QueueUrl={client.url}&MessageBody={body}"
    # The first eight for their signatures, the others for what they ask.
    refused = [
        client.json("SendMessage", sent, wrong),
        client.json("SendMessage", sent, unknown),
        client.json("SendMessage", sent, **{"x-amz-date": "20200101T000000Z"}),
        client.json("SendMessage", sent, authorization=f"AWS4-HMAC-SHA256 Signature={client.hide(marker())}"),
        client.form(form, wrong),
        client.form(form, authorization=f"AWS4-HMAC-SHA256 {client.hide(marker())}"),
        client.form(form, authorization=f"Basic {client.hide(marker())}"),
        client.presigned("Action=ReceiveMessage", wrong),
        client.json("SendMessage", sent | {"QueueUrl": f"{client.url}-absent"}),
        client.json("SendMessage", sent | {"MessageBody": body + "\u0001"}),
        client.json("SendMessage", sent | {"MessageBody": body * 40_000}),
        client.json("SendMessage", sent | {"DelaySeconds": 100_000}),
        client.json("SendMessage", sent | {"MessageAttributes": {"a": number}}),
        client.form(form + "%01"),
        client.form(form + "&DelaySeconds=100000"),
        client.presigned(f"Action=SendMessage&MessageBody={body}%01"),
    ]

    for number, answer in enumerate(refused):
        expected = {400, 401, 403} if number < 8 else {400, 404}
        assert answer.status in expected, (number, answer.text)
        assert client.shown_in(answer.text) == [], number
    client.check_log()


def test_requests_that_are_malformed(client):
    body = client.body
    sent = {"QueueUrl": client.url, "MessageBody": body}
    refused = [
        client.json("SendMessage", json.dumps(sent)[:-3]),
        client.json("SendMessage", json.dumps(sent)[:-1] + f",{body}"),
        client.json("SendMessage", json.dumps(sent | {"MessageBody": [body]})),
        client.json("SendMessage", json.dumps(sent | {"MessageBody": {body: body}})),
        client.form(f"Action=SendMessage&{VERSION}&QueueUrl={client.url}&MessageBody={body}%ff%fe"),
        client.form(f"{VERSION}&QueueUrl={client.url}&MessageBody={body}"),
        client.form(json.dumps(sent)),
        client.json("SendMessage", f"Action=SendMessage&{VERSION}&MessageBody={body}"),
    ]

    for number, answer in enumerate(refused):
        assert 400 <= answer.status < 500, (number, answer.text)
        assert client.shown_in(answer.text) == [], number
    client.check_log()


def test_requests_whose_answers_quote_them(client):
    """The answer to a bad signature names the request as it should have been signed, as AWS's does; a form that is
    presigned has the body there. What has the wrong type is quoted, too."""
    body = client.body
    quoting = [
        client.presigned(f"Action=SendMessage&MessageBody={body}", Signer("AKID", client.hide(marker()))),
        client.json("SendMessage", json.dumps(body)),
        client.json("SendMessage", {"QueueUrl": client.url, "MessageBody": "x", "MessageAttributes": body}),
        client.json("SendMessageBatch", {"QueueUrl": client.url, "Entries": [body]}),
    ]

    for number, answer in enumerate(quoting):
        assert answer.status in (400, 403), (number, answer.text)
        assert client.shown_in(answer.text.replace(body, "")) == [], number
    client.check_log()


def test_requests_that_are_no_http(client):
    signature = client.headers("SendMessage", client.body)["authorization"]
    start = b"POST / HTTP/1.1\r\nHost: a\r\n"
    refused = [
        start + f"Authorization: {signature}\r\nbad header\r\n\r\n".encode(),
        start + f"Authorization: {signature}\x01\r\n\r\n".encode(),
        start + f"Authorization: {signature}\r\nContent-Length: x\r\n\r\n{client.body}".encode(),
        start + f"Authorization: {signature}\r\nTransfer-Encoding: chunked\r\n\r\n{client.body}".encode(),
        f"POST / {client.body}\r\n\r\n".encode(),
        f"{client.body}\r\n\r\n".encode(),
    ]

    for number, data in enumerate(refused):
        answer = client.raw(data, then=lambda connection: connection.shutdown(socket.SHUT_WR))
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 505 ")), (number, answer)
        assert client.shown_in(answer) == [], number
    client.check_log()


def test_http2(client):
    """Whose frames have a log of their own."""
    sent = json.dumps({"QueueUrl": client.url, "MessageBody": client.body})
    wrong = Signer("AKID", client.hide(marker()))
    for signer, body, answered in (
        (None, sent, b'"MessageId":'),
        (wrong, sent, b"InvalidSignatureException"),
        (None, sent[:-3], b"SerializationException"),
    ):
        headers = client.headers("SendMessage", body, signer)
        del headers["host"]
        answer = client.raw(http2_request(f"127.0.0.1:{client.server.port}", headers, body.encode()))
        assert answered in answer
        assert client.shown_in(answer) == []
    client.check_log()


def http2_request(authority: str, headers: dict, body: bytes) -> bytes:
    def frame(kind, flags, stream, payload=b""):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def text(value):
        value = value.encode()
        # HPACK's integers: a prefix of seven bits, then what is beyond it.
        length = bytes([len(value)]) if len(value) < 127 else b"\x7f" + varint(len(value) - 127)
        return length + value

    pseudo = {":method": "POST", ":scheme": "http", ":path": "/", ":authority": authority}
    # Each a literal that is not indexed.
    block = b"".join(b"\0" + text(name) + text(value) for name, value in (pseudo | headers).items())
    data, head, settings, goaway = 0, 1, 4, 7
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(
        [
            frame(settings, 0, 0),
            frame(head, END_HEADERS, 1, block),
            frame(data, END_STREAM, 1, body),
            frame(goaway, 0, 0, bytes(8)),
        ]
    )


def varint(number: int) -> bytes:
    low, rest = number % 128, number // 128
    return bytes([low]) if rest == 0 else bytes([low | 128]) + varint(rest)


def test_tokens_of_projects(make_server, secret):
    """In the header, in the URL, in an access key of SQS; right, wrong, made at run time, revoked."""
    config = f'''[[credentials]]
access_key = "AKID"
secret_key = "{secret}"
[projects.shop]
tokens = {{ ci = "{secret}" }}
'''
    client = Client(make_server(config=config, args=["--log-level", "trace"]), secret)
    path = "/_millrace/projects/tokens/"

    def admin(below, **body):
        body = json.dumps({"project": "shop"} | body)
        return request(client.server.endpoint, "POST", path + below, body, client.headers("x", body, path=path + below))

    made = client.hide(admin("create", label="new").json()["token"])
    assert admin("revoke", token=client.hide(marker())).status == 400
    body, answers = json.dumps({"messages": [{"body": client.body}]}), []
    for token in (secret, made, client.hide(marker())):
        for version in (1, 3):
            queue = f"/{version}/projects/shop/queues/q"
            headers = {"Authorization": f"OAuth {token}"}
            answers += [
                request(client.server.endpoint, "POST", f"{queue}/messages", body, headers),
                request(client.server.endpoint, "GET", f"{queue}?oauth={token}"),
                request(client.server.endpoint, "GET", f"{queue}/nothing?oauth={token}"),
                request(client.server.endpoint, "POST", f"{queue}/webhook?oauth={token}&%ff", client.body),
            ]
        signer = Signer(f"shop:{token}", "x")
        answers += [
            client.json("ListQueues", {}, signer),
            client.json("SendMessage", {"QueueUrl": client.url}, signer),
            client.presigned("Action=ListQueues", signer),
        ]
        head = {":method": "GET", ":path": f"/3/projects/shop/queues?oauth={token}", "authorization": f"OAuth {token}"}
        over_http2 = client.raw(http2_request(f"127.0.0.1:{client.server.port}", head, b""))
        assert (b"queues" in over_http2) == (token in (secret, made))
    assert admin("revoke", token="new").status == 200
    answers.append(request(client.server.endpoint, "GET", f"/3/projects/shop/queues?oauth={made}"))

    assert {200, 201, 401, 403} <= {answer.status for answer in answers}
    for answer in answers:
        assert client.shown_in(answer.text) == [], answer.text
    client.check_log()


@pytest.mark.parametrize(
    "line",
    [
        'secret_key = "{}',
        'secret_key = "{}" "',
        "secret_key = {}",
        'secret_key = ["{}"]',
        'secret_kye = "{}"',
        'secret_key = "{0}"\nsecret_key = "{0}"',
        'secret_key = "\\q{}"',
    ],
)
def test_configuration_that_is_refused(tmp_path, secret, line):
    config = '[[credentials]]\naccess_key = "AKID"\n' + line.format(secret) + "\n"
    server = Server(tmp_path / "server", config=config)
    server.spawn()

    try:
        assert server.process.wait(20) != 0
    finally:
        server.kill()
    log = server.log.read_text()
    assert "millrace.toml:" in log
    assert secret not in log


def test_lines_of_the_log_are_not_the_clients(make_server):
    server = make_server(args=["--log-level", "debug"])
    name = "x\n2026-01-01T00:00:00.000000Z ERROR made::up: \x1b[31m" + "long" * 1000

    answer = request(server.endpoint, "GET", "/?" + urllib.parse.urlencode({"Action": name, "QueueName": "q"}))

    assert answer.status == 400
    assert server.stop() == 0
    lines = server.log.read_bytes().splitlines()
    refused = [line for line in lines if b"InvalidAction" in line]
    assert len(refused) == 1 and b"ERROR made::up" in refused[0]
    assert b"long" * 20 not in refused[0] and not any(b"\x1b" in line for line in lines)
