"""Browsers on loopback may call the server directly."""

import pytest

from support.wire import JSON_TYPE, request

ORIGIN = "http://localhost:3000"


def test_preflight_is_answered(server):
    answer = request(
        server.endpoint,
        "OPTIONS",
        "/",
        headers={
            "Origin": ORIGIN,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type,x-amz-date,x-amz-target",
        },
    )

    assert answer.status in (200, 204)
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    allowed = answer.headers["Access-Control-Allow-Headers"].lower()
    for header in ("authorization", "content-type", "x-amz-date", "x-amz-target"):
        assert allowed == "*" or header in allowed


@pytest.mark.parametrize("name", ["none", "with space"])
def test_answers_and_errors_may_be_read(server, name):
    headers = {"Origin": ORIGIN, "Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.GetQueueUrl"}

    answer = request(server.endpoint, "POST", "/", f'{{"QueueName":"{name}"}}', headers)

    assert answer.status == 400
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", ORIGIN)
    exposed = answer.headers.get("Access-Control-Expose-Headers", "").lower()
    assert exposed == "*" or "x-amzn-requestid" in exposed


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost.evil.example", "null"])
def test_pages_from_elsewhere_are_refused(server, origin):
    headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site", "User-Agent": "Mozilla/5.0"}

    answer = request(server.endpoint, "GET", "/?Action=ListQueues", headers=headers)

    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_preflight_on_a_queue_path(server, queue):
    path = queue().removeprefix(server.endpoint)
    headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}

    answer = request(server.endpoint, "OPTIONS", path, headers=headers)

    assert answer.status in (200, 204)
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", ORIGIN)
