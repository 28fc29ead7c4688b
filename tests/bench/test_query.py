"""The scenarios in SQS's Query protocol."""

import http.client

import pytest

from support.fake import FakeService

from .run import bench

QUICK = ["--scale", "0.001", "--json", "--protocol", "query"]


class Recorder(FakeService):
    """Passes requests on to a server that sees forms only."""

    def __init__(self, endpoint: str):
        self.upstream = endpoint.removeprefix("http://")
        self.actions = set()
        super().__init__()

    def take(self, method, target, headers, body):
        assert headers["Content-Type"] == "application/x-www-form-urlencoded" and "X-Amz-Target" not in headers
        self.actions.add(body.decode().split("&")[0].removeprefix("Action="))
        upstream = http.client.HTTPConnection(self.upstream, timeout=40)
        try:
            upstream.request(method, target, body, {"Content-Type": headers["Content-Type"]})
            answer = upstream.getresponse()
            assert answer.getheader("Content-Type").startswith("text/xml")
            return answer.status, "text/xml", answer.read()
        finally:
            upstream.close()


@pytest.fixture
def recorder(server):
    service = Recorder(server.endpoint)
    yield service
    service.close()


def test_pc_counts_every_message(recorder):
    few = ["--producers", "2", "--consumers", "2"]
    alone = bench("pc", *QUICK, *few, endpoint=recorder.endpoint)
    processes = bench("pc", *QUICK, *few, "--procs", "2", "--batch", "10", endpoint=recorder.endpoint)

    for mode in ("single", "batch"):
        assert alone.metric(f"pc.{mode}.messages") > 0
        assert alone.metric(f"pc.{mode}.lost") == alone.metric(f"pc.{mode}.failed") == 0
    assert processes.metric("messages") > 0
    assert processes.metric("lost") == processes.metric("duplicated") == processes.metric("failed") == 0
    assert recorder.actions == {
        "CreateQueue", "DeleteQueue", "SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage",
        "DeleteMessageBatch",
    }


def test_poll_and_position_read_and_write_it(recorder):
    few = ["--handler", "50ms", "--interval", "10ms", "--batch", "1,10"]
    poll = bench("poll", *QUICK, *few, endpoint=recorder.endpoint)
    position = bench("position", *QUICK, "--sends", "10", "--at-once", "4", endpoint=recorder.endpoint)

    assert poll.metric("poll.serial.10.time") > 0 and poll.metric("poll.worker.time") > 0
    assert position.metric("position.endpoint.connections") == 20


def test_sweep_rate_and_ab_send_in_it(recorder):
    sweep = bench("sweep", *QUICK, "--clients", "1,2", endpoint=recorder.endpoint)
    rate = bench("rate", *QUICK, "--rate", "50", "--conns", "4", endpoint=recorder.endpoint)
    bench("ab", *QUICK, "--sends", "10", "--versus", recorder.endpoint, endpoint=recorder.endpoint)

    assert sweep.metric("sweep.2.rate") > 0
    assert rate.metric("rate.50.failed") == 0 and rate.metric("rate.50.achieved") > 0


def test_drain_empties_a_queue_over_http_and_https(server):
    outcome = bench("drain", *QUICK, "--workers", "2", endpoint=server.endpoint)

    assert outcome.metric("drain.http.kept.2.connections") == outcome.metric("drain.https.kept.2.connections") == 2
