"""HTTP itself: keep-alive, pipelining, chunked bodies, odd requests, bounds."""

import http.client
import json
import socket

import pytest

from support.wire import JSON_TYPE, request

HEADERS = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.ListQueues"}


@pytest.fixture
def connection(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    yield connection
    connection.close()


@pytest.fixture
def raw(server):
    opened = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    yield opened
    opened.close()


def list_queues(body="{}", extra=""):
    return (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON_TYPE}\r\n"
        f"X-Amz-Target: AmazonSQS.ListQueues\r\nContent-Length: {len(body)}\r\n{extra}\r\n{body}"
    ).encode()


def read_responses(raw, count):
    """Reads so many responses with Content-Length: [(status, body)]."""
    reader = raw.makefile("rb")
    responses = []
    for _ in range(count):
        status = int(reader.readline().split()[1])
        headers = http.client.parse_headers(reader)
        responses.append((status, reader.read(int(headers["Content-Length"]))))
    return responses


def test_connection_is_never_closed_under_a_healthy_client(connection):
    for _ in range(500):
        connection.request("POST", "/", "{}", HEADERS)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        assert answer.headers.get("Connection", "").lower() != "close"


def test_connection_survives_errors(connection):
    local_port = None
    for body in ("{", "{}", '{"QueueUrl":1}', "{}"):
        connection.request("POST", "/", body, HEADERS | {"X-Amz-Target": "AmazonSQS.SendMessage"})
        connection.getresponse().read()
        assert local_port in (None, connection.sock.getsockname()[1])
        local_port = connection.sock.getsockname()[1]


def test_close_is_honoured(raw):
    raw.sendall(list_queues(extra="Connection: close\r\n"))

    assert raw.makefile("rb").read().startswith(b"HTTP/1.1 200")


def test_http_1_0_client_gets_its_answer(raw):
    raw.sendall(b"GET /health HTTP/1.0\r\n\r\n")

    assert b" 200 " in raw.makefile("rb").readline()


def test_pipelined_requests_are_answered_in_order(raw, json_api, new_name):
    names = [new_name("pipelined") for _ in range(5)]
    bodies = [json.dumps({"QueueNamePrefix": name}) for name in names]
    for name in names:
        json_api.call("CreateQueue", QueueName=name)

    raw.sendall(b"".join(list_queues(body) for body in bodies))

    for name, (status, body) in zip(names, read_responses(raw, 5), strict=True):
        assert status == 200
        assert json.loads(body)["QueueUrls"][0].endswith(f"/{name}")


def test_request_in_single_bytes(raw):
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in list_queues():
        raw.sendall(bytes([byte]))

    assert read_responses(raw, 1)[0][0] == 200


def test_chunked_body(connection):
    chunks = iter([b'{"QueueName', b'Prefix":', b'"none"}'])

    connection.request("POST", "/", chunks, HEADERS, encode_chunked=True)

    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())) == (200, {})


def test_expect_continue(raw):
    request = list_queues(extra="Expect: 100-continue\r\n")
    head, body = request[:-2], request[-2:]

    raw.sendall(head)
    interim = raw.recv(1000)
    raw.sendall(body)

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert read_responses(raw, 1)[0][0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    ],
    ids=range(9),
)
def test_nonsense_is_refused_and_the_server_lives(server, raw, sent):
    try:
        raw.sendall(sent)
        raw.shutdown(socket.SHUT_WR)
        answer = raw.makefile("rb").read()
    except ConnectionError:
        answer = b""

    assert answer == b"" or answer.split()[1].startswith(b"4") or answer.split()[1] == b"505"
    assert server.get("/health")[0] == 200


@pytest.mark.parametrize("path", ["/no/such/path/at/all", "/_unknown", "/favicon.ico"])
def test_unknown_path_is_a_client_error(server, path):
    assert 400 <= request(server.endpoint, "GET", path).status < 500


def test_empty_get_of_the_root_is_not_a_server_error(server):
    assert request(server.endpoint, "GET", "/").status < 500


def test_head_has_no_body(raw):
    raw.sendall(b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    answer = raw.makefile("rb").read()
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("method", ["HEAD", "DELETE", "PUT"])
def test_actions_are_asked_for_by_get_or_post(server, sqs, new_name, method):
    name = new_name()
    target = f"/?Action=CreateQueue&QueueName={name}"

    refused = request(server.endpoint, method, target)
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")
    assert not sqs.list_queues(QueueNamePrefix=name).get("QueueUrls")
    assert request(server.endpoint, "GET", target).status == 200


def test_every_answer_has_its_own_request_id(server):
    ids = {
        request(server.endpoint, "POST", "/", "{}", HEADERS).headers["x-amzn-RequestId"] for _ in range(20)
    }

    assert len(ids) == 20


def test_many_connections_at_once(server):
    opened = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(200)]
    for connection in opened:
        connection.sendall(list_queues())
    for connection in opened:
        assert read_responses(connection, 1)[0][0] == 200
        connection.close()
