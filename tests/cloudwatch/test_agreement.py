"""While `millrace bench pc` runs, CloudWatch, Prometheus and the console say what it counted."""

import json
import subprocess
import threading
import urllib.request

import pytest
from support.process import running
from support.prometheus import of, scrape
from support.proxy import Proxy
from support.server import binary, free_port

SENT, RECEIVED, DELETED = COUNTERS = ["NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted"]


class Gate(Proxy):
    """Lets a DeleteQueue pass only when told so: the bench deletes its queues, and this test wants to look
    at them first."""

    def __init__(self, port: int):
        self.is_held = threading.Event()
        self.may_pass = threading.Event()
        super().__init__(port)

    def asked(self, data):
        if b"AmazonSQS.DeleteQueue\r\n" in data:
            self.is_held.set()
            assert self.may_pass.wait(30)


@pytest.fixture
def console_port():
    return free_port()


@pytest.fixture
def alone(make_server, console_port):
    return make_server(console=f"127.0.0.1:{console_port}")


@pytest.fixture
def cloudwatch(new_client):
    return new_client("cloudwatch")


@pytest.fixture
def gate(alone):
    gate = Gate(alone.port)
    yield gate
    gate.close()


def every_message(report: dict) -> dict:
    """Whole-run counts, warm-up and settling included."""
    [row] = [
        dict(zip([column["name"] for column in table["columns"]], table["rows"][0], strict=True))
        for table in report["sections"][0]["tables"]
        if table["title"] == "Every message"
    ]
    count = {name: int(text.replace(",", "")) for name, text in row.items() if name != "run"}
    assert count["lost"] == count["failed requests"] == 0
    # `received` is messages; what comes again is a receive, too.
    return {
        SENT: count["acknowledged"],
        RECEIVED: count["received"] + count["duplicated"],
        DELETED: count["deleted"],
    }


@pytest.mark.parametrize("batch", [1, 10])
def test_all_figures_agree_with_the_bench(alone, clock, gate, console_port, sqs_alone, total, batch):
    command = [str(binary()), "bench", "pc", "--json", "--endpoint", gate.endpoint, "--batch", str(batch)]
    command += ["--producers", "4", "--consumers", "4", "--duration", "6s", "--warm-up", "500ms"]
    console = f"http://127.0.0.1:{console_port}/api/snapshot"
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as bench:
        # Somebody watches all the time.
        overview = urllib.request.urlopen(f"http://127.0.0.1:{console_port}/events?view=overview", timeout=30)
        assert overview.readline().startswith(b"retry:")

        # Minutes end while messages flow; the bench's visibility timeout is an hour.
        minutes = 0
        while not gate.is_held.wait(0.5):
            clock.next_minute()
            minutes += 1
            assert minutes < 50, "the bench does not end"
        assert minutes > 2
        queue = sqs_alone.list_queues()["QueueUrls"][0].rsplit("/", 1)[1]
        shown_by_cloudwatch = {name: total(queue, name) for name in COUNTERS}
        series = scrape(alone)
        address = f"{console}?view=queue&region=us-east-1&account=000000000000&name={queue}"
        shown_by_console = {"now": 0}
        ended = clock.now()
        # All viewers share one sample a second: the next one is awaited.
        while shown_by_console["now"] < ended * 1000:
            with urllib.request.urlopen(address) as answer:
                shown_by_console = json.load(answer)["head"]
        gate.may_pass.set()
        out, err = bench.communicate(timeout=60)
        overview.close()
    assert bench.returncode == 0, err.decode()

    counted = every_message(json.loads(out))
    assert counted[SENT] == counted[DELETED] > 100
    assert shown_by_cloudwatch == counted
    for name, short in zip(COUNTERS, ["sent", "received", "deleted"], strict=True):
        assert shown_by_console[f"total_{short}"] == counted[name]
        labels = {"region": "us-east-1", "account": "000000000000", "queue": queue}
        assert of(series, f"millrace_queue_messages_{short}_total", **labels) == counted[name]
        assert of(scrape(alone), f"millrace_messages_{short}_total") == counted[name]
    # The bench has deleted its queue: CloudWatch's history keeps what it did.
    assert {name: total(queue, name) for name in COUNTERS} == counted
