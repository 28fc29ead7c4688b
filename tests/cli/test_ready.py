"""`millrace ready`: what a health check or a script asks."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from support.server import free_port


@pytest.fixture
def answers():
    """`answers(503, 200)` → the endpoint of a server that gives these answers, the last one ever after."""
    servers = []

    def start(*statuses):
        left = list(statuses)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                status = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(status if self.path == "/ready" else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_server_that_serves_is_ready_whoever_asks(millrace, make_server):
    guarded = make_server(config='access_key = "AKID"\nsecret_key = "secret"\n')

    assert f"{guarded.endpoint} is ready" in millrace("ready", endpoint=guarded.endpoint).stderr


def test_one_that_is_not_says_why(millrace, answers):
    draining = millrace("ready", endpoint=answers(503), expect=1)
    nobody = millrace("ready", endpoint=f"http://127.0.0.1:{free_port()}", expect=1)

    assert "is not ready: it answered 503" in draining.stderr
    assert "is not ready" in nobody.stderr and "refused" in nobody.stderr


def test_it_is_asked_until_it_is_ready_or_the_time_is_over(millrace, answers):
    millrace("ready", "--wait", "60", endpoint=answers(503, 503, 200))
    millrace("ready", "--wait", "1", endpoint=answers(503), expect=1)
