"""What /metrics has of IronMQ: its requests, and the endpoints of its push queues."""

import http.server
import json
import threading
from urllib.parse import quote

import pytest

from support.prometheus import of, scrape
from support.waiting import eventually

PROJECT = "/3/projects/000000000000/queues"


@pytest.fixture
def endpoint():
    """An HTTP server that answers with the status that its path names."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(int(self.path.strip("/").split("?")[0]))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def call(make_server):
    server = make_server()

    def ask(method, path, body=None):
        return server.http(method, path, None if body is None else json.dumps(body))[0]

    ask.server = server
    return ask


def push_queue(call, name, *urls, kind="multicast"):
    subscribers = [{"name": f"s{number}", "url": url} for number, url in enumerate(urls)]
    queue = {"type": kind, "push": {"subscribers": subscribers}}
    assert call("PUT", f"{PROJECT}/{name}", {"queue": queue}) == 200


def post(call, name, count=1):
    messages = [{"body": "m"}] * count
    assert call("POST", f"{PROJECT}/{name}/messages", {"messages": messages}) == 201


def test_requests_of_both_versions_are_counted_by_endpoint(call):
    post(call, "jobs", 3)
    assert call("POST", f"{PROJECT}/jobs/reservations", {"n": 1}) == 200
    assert call("GET", "/1/projects/000000000000/queues/jobs/messages") == 200
    assert call("GET", f"{PROJECT}/missing") == 404
    assert call("GET", "/3/projects/000000000000/nonsense") == 404

    series = scrape(call.server)

    def requests(service, action, outcome):
        return of(series, "millrace_requests_total", service=service, action=action, outcome=outcome)

    assert requests("ironmq", "PostMessages", "success") == 1
    assert requests("ironmq", "ReserveMessages", "success") == 2
    assert requests("ironmq", "GetQueue", "client_error") == 1
    assert requests("other", "other", "client_error") == 1
    assert of(series, "millrace_request_duration_seconds_count", service="ironmq", action="ReserveMessages") == 2


def test_subscribers_count_as_endpoints_and_queues_among_them_do_not(call, endpoint):
    push_queue(call, "all", f"{endpoint}/200", f"{endpoint}/500?oauth=secret", "ironmq:///other")
    push_queue(call, "one", f"{endpoint}/200", f"{endpoint}/200", kind="unicast")
    push_queue(call, "inner", "ironmq:///other")
    post(call, "all", 2)
    post(call, "one")
    # Two posts to each of the two endpoints, and one.
    eventually(lambda: of(scrape(call.server), "millrace_push_attempts_total") == 5, "5 attempts")
    eventually(lambda: of(scrape(call.server), "millrace_push_waiting") == 2, "two wait")

    series = scrape(call.server)

    assert of(series, "millrace_push_endpoints") == 4
    assert of(series, "millrace_push_failing_endpoints") == 1
    queue = {"subscription": "arn:aws:sqs:us-east-1:000000000000:all"}
    for figure, count in [("attempts", 4), ("delivered", 2), ("retried", 2), ("failed", 0)]:
        assert of(series, f"millrace_push_endpoint_{figure}_total", **queue) == count, figure
    assert of(series, "millrace_push_endpoint_waiting", **queue) == 2
    one = {"subscription": "arn:aws:sqs:us-east-1:000000000000:one"}
    assert of(series, "millrace_push_endpoint_delivered_total", **one) == 1
    assert not any(("subscription", "arn:aws:sqs:us-east-1:000000000000:inner") in key for key in series)
    assert "secret" not in str(series)


def test_any_name_of_a_queue_can_be_a_label(call, endpoint):
    name = 'a "b" \\c'
    push_queue(call, quote(name, safe=""), f"{endpoint}/200")

    labels = [dict(key[1:]) for key in scrape(call.server) if key[0] == "millrace_push_endpoint_waiting"]

    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    assert labels == [{"subscription": f"arn:aws:sqs:us-east-1:000000000000:{escaped}"}]
