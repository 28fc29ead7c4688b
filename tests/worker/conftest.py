"""Fixtures of the worker suite."""

import http.client

import pytest

from support.server import free_port
from worker.rig import HttpServer, Work


@pytest.fixture
def work(server, tmp_path):
    """Starts workers on the shared server, or on another endpoint: `work(url, "--exec", …)`."""
    started = []

    def start(queue, *args, endpoint=None, **more) -> Work:
        worker = Work(tmp_path, endpoint or server.endpoint, queue, *args, **more)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.kill()
        assert "panicked" not in worker.text(), worker.text()


@pytest.fixture
def http_server():
    """Starts HTTP servers that answer with what a function returns."""
    started = []

    def start(answer) -> HttpServer:
        started.append(HttpServer(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()


class FreeHttp:
    """An address for a worker's counters, and what it answers."""

    def __init__(self):
        self.port = free_port()
        self.flags = ["--metrics-listen", f"127.0.0.1:{self.port}"]

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return None, ""
        finally:
            connection.close()


@pytest.fixture
def free_http():
    return FreeHttp()


@pytest.fixture
def send(sqs):
    """Sends bodies in batches of ten."""

    def to(url, bodies, **more):
        bodies = list(bodies)
        for start in range(0, len(bodies), 10):
            part = bodies[start : start + 10]
            entries = [{"Id": str(n), "MessageBody": body} | more for n, body in enumerate(part)]
            assert "Failed" not in sqs.send_message_batch(QueueUrl=url, Entries=entries)

    return to
