"""What watches a run: series that are scraped, series that are pushed, and an early end."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.fake import FakeService
from support.sdk import sdk_client
from support.server import binary
from support.waiting import eventually

from .run import bench

QUICK = ["--scale", "0.001", "--json"]
PC = ["pc", *QUICK, "--batch", "1", "--producers", "2", "--consumers", "2"]


class FakeGateway(FakeService):
    """Takes pushes as a Pushgateway does."""

    def __init__(self, status=200):
        self.status = status
        self.pushes = []
        super().__init__()

    def take(self, method, target, headers, body):
        self.pushes.append((method, target, headers["Content-Type"], body.decode()))
        return self.status, "text/plain", b""


@contextlib.contextmanager
def gateway(status=200):
    fake = FakeGateway(status)
    try:
        yield fake
    finally:
        fake.close()


@contextlib.contextmanager
def running(*arguments):
    """A run of a minute, and the URL of its metrics."""
    command = [
        str(binary()), "bench", "pc", "--duration", "1m", "--warm-up", "0s", "--batch", "1", "--producers", "2",
        "--consumers", "2", "--listen", "127.0.0.1:0", *arguments,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stderr.readline().removeprefix("metrics at ").strip()
        finally:
            process.kill()


def interrupted(command, has_begun):
    """Runs until it has begun, and then to the early end that it is asked for."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            eventually(lambda: has_begun(process), "the run has begun")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 1 and "the run was ended early" in err


def series(text: str) -> dict:
    """Name and labels → value, by Prometheus' own parser. Every family has a type and is there once."""
    found, families = {}, set()
    for family in text_string_to_metric_families(text):
        assert family.type in ("counter", "gauge", "histogram") and family.documentation, family
        assert family.name not in families, f"{family.name} is there twice"
        families.add(family.name)
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.items())] = sample.value
    return found


def of(found: dict, name: str, **labels) -> float:
    return found["millrace_bench_" + name, *sorted(labels.items())]


def scraped(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return series(answer.read().decode())


def scrape_with_messages(url: str) -> dict | None:
    """What is scraped, once a message was received and deleted."""
    found = scraped(url)
    return found if of(found, "messages_total", outcome="deleted") else None


def check(found: dict):
    """The series agree with one another."""
    operations = {dict(key[1:])["operation"] for key in found if key[0].endswith("latency_seconds_count")}
    assert {"send", "receive", "delete", "end_to_end"} <= operations
    for operation in operations:
        buckets = [
            (float(dict(key[1:])["le"]), value)
            for key, value in found.items()
            if key[0].endswith("_bucket") and ("operation", operation) in key
        ]
        counts = [value for _, value in sorted(buckets)]
        assert counts == sorted(counts) and len(counts) == 21
        assert counts[-1] == of(found, "latency_seconds_count", operation=operation)
        assert 0 < of(found, "latency_seconds_sum", operation=operation) < 60 * counts[-1]
        at = [of(found, "latency_quantile_seconds", operation=operation, quantile=q) for q in ("0.5", "0.99", "1")]
        assert 0 < at[0] <= at[1] <= at[2]
    assert of(found, "requests_total") >= of(found, "messages_total", outcome="deleted") > 0
    assert of(found, "connections_opened_total") == 4
    assert of(found, "failed_requests_total") == 0
    assert of(found, "messages_foreign") == of(found, "messages_duplicated") == 0


def test_a_gateway_gets_all_series_until_the_end(endpoint):
    with gateway() as fake:
        outcome = bench(*PC, "--push", fake.endpoint, "--push-interval", "200ms", endpoint=endpoint)

    assert len(fake.pushes) >= 4
    assert {push[:3] for push in fake.pushes} == {
        ("POST", "/metrics/job/millrace_bench", "text/plain; version=0.0.4; charset=utf-8")
    }
    sums = [series(push[3]) for push in fake.pushes]
    check(sums[-1])
    deleted = [of(one, "messages_total", outcome="deleted") for one in sums]
    assert deleted == sorted(deleted)
    # What ended between the last count of the report and the end of measuring is in the sums only.
    assert deleted[-1] == pytest.approx(outcome.metric("pc.single.messages"), rel=0.05)
    assert of(sums[-1], "progress_ratios") == 1
    assert fake.endpoint not in outcome.report["command"]


def test_the_path_of_an_importer_is_kept(endpoint):
    with gateway(204) as fake:
        outcome = bench(*PC, "--push", f"{fake.endpoint}/api/v1/import/prometheus", endpoint=endpoint)

    assert {push[1] for push in fake.pushes} == {"/api/v1/import/prometheus"}
    assert "warning: --push" not in outcome.err


def test_a_gateway_that_fails_is_one_warning_and_no_more(endpoint):
    with gateway(500) as fake:
        refusing = bench(*PC, "--push", fake.endpoint, "--push-interval", "200ms", endpoint=endpoint)
    assert len(fake.pushes) >= 4 and "500" in refusing.err
    absent = bench(*PC, "--push", "http://127.0.0.1:1", endpoint=endpoint)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        waiting = bench(*PC, "--push", where, endpoint=endpoint)

    for outcome in (refusing, absent, waiting):
        assert outcome.err.count("warning: --push fails") == 1
        assert outcome.metric("pc.single.messages") > 0 and outcome.metric("pc.single.lost") == 0


def test_a_push_to_nowhere_is_refused_before_the_run(endpoint):
    assert "must begin with http" in bench(*PC, "--push", "gateway:9091", endpoint=endpoint, code=2).err
    assert "--push" in bench(*PC, "--push-interval", "1s", endpoint=endpoint, code=2).err
    seldom = ["--push", "http://127.0.0.1:1", "--push-interval", "25h"]
    assert "24h is the longest" in bench(*PC, *seldom, endpoint=endpoint, code=2).err


def test_scrapes_see_the_series_that_a_gateway_gets(endpoint):
    with running("--endpoint", endpoint) as (_, url):
        found = eventually(lambda: scrape_with_messages(url), "a message is counted")
    check(found)
    assert of(found, "run_info", run="pc 1") == 1
    assert of(found, "messages_per_second", outcome="sent") > 0
    assert of(found, "requests_in_flight") <= 4
    assert 0 < of(found, "progress_ratios") < 1


@pytest.mark.parametrize(("scenario", "path"), [("rate", ""), ("http", "/health")])
def test_a_stall_at_the_end_of_a_rate_counts_in_full(make_server, scenario, path):
    server = make_server()
    command = [
        str(binary()), "bench", scenario, "--rate", "50", "--conns", "16", "--step-duration", "3s", "--json",
        "--endpoint", server.endpoint + path, "--listen", "127.0.0.1:0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stderr.readline().removeprefix("metrics at ").strip()
            wait_for_progress(url, 0.6)
            server.process.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            wait_for_progress(url, 1)
            stalled_s = time.monotonic() - stopped
            server.process.send_signal(signal.SIGCONT)
            out, _ = process.communicate(timeout=20)
        finally:
            server.process.send_signal(signal.SIGCONT)
            process.kill()

    outcome = {metric["name"]: metric["value"] for metric in json.loads(out)["metrics"]}
    assert process.returncode == 0
    assert outcome[f"{scenario}.50.failed"] == 0
    # A fifth of the time at least: 16 requests are stuck, and what is due behind them never goes out.
    assert stalled_s > 0.6
    assert outcome[f"{scenario}.50.max"] > 0.9 * stalled_s * 1e6
    assert outcome[f"{scenario}.50.p90"] > 0.3 * stalled_s * 1e6
    assert outcome[f"{scenario}.50.unsent"] > 0


@pytest.mark.parametrize(("limit", "code"), [("p99>3600s", 1), ("failed>100000", 0)])
def test_requests_that_fail_at_a_rate_have_waited_until_the_end(make_server, limit, code):
    server = make_server()
    command = [
        str(binary()), "bench", "rate", "--rate", "50", "--conns", "4", "--step-duration", "4s", "--json",
        "--endpoint", server.endpoint, "--listen", "127.0.0.1:0", "--fail-if", limit,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stderr.readline().removeprefix("metrics at ").strip()
            wait_for_progress(url, 0.2)
            server.kill()
            wait_for_progress(url, 0.5)
            server.start()
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()

    assert process.returncode == code, err
    assert ("rate.50.failed is" in err) == (code == 1)
    report = json.loads(out)
    outcome = {metric["name"]: metric["value"] for metric in report["metrics"]}
    # For a quarter of the time at least, nobody was there; half of it was left then.
    assert outcome["rate.50.failed"] >= 50 * 4 / 5
    assert outcome["rate.50.p90"] > 0.4 * 4e6
    assert any("requests failed" in warning for warning in report["warnings"])
    table = report["sections"][0]["tables"][0]
    row = dict(zip([column["name"] for column in table["columns"]], table["rows"][0], strict=True))
    assert int(row["failed"]) == outcome["rate.50.failed"]
    due = outcome["rate.50.achieved"] * 4 + outcome["rate.50.failed"] + outcome["rate.50.unsent"]
    assert due == pytest.approx(50 * 4, rel=0.05)


def wait_for_progress(url: str, share: float):
    eventually(lambda: of(scraped(url), "progress_ratios") >= share, f"progress of {share}")


def test_an_interrupt_ends_the_run_early_with_what_was_measured(endpoint):
    with running("--endpoint", endpoint) as (process, url):
        eventually(lambda: scrape_with_messages(url), "a message is counted")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    assert process.returncode == 1 and "the run was ended early" in err
    assert "The run was ended early" in out and "messages/s" in out


def test_a_second_interrupt_ends_even_a_report_that_cannot_be_written(endpoint, tmp_path):
    nobody_reads, written_before = tmp_path / "report.html", tmp_path / "report.csv"
    os.mkfifo(nobody_reads)
    files = ["--csv", str(written_before), "--html", str(nobody_reads)]
    command = [str(binary()), "bench", *PC, *files, "--endpoint", endpoint]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: written_before.exists() or process.poll() is not None, "the report", 60)
            assert process.poll() is None
            for _ in range(50):
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
                    break
            assert process.returncode == 130
        finally:
            process.kill()


@pytest.mark.parametrize("mode", [["pc"], ["send"], ["drain", "--count", "1000000"]])
def test_an_interrupt_ends_a_load_early_and_removes_its_queue(make_server, mode):
    server = make_server()
    sqs = sdk_client(server)
    command = [str(binary()), "bench", "load", *mode, "--duration", "60", "--endpoint", server.endpoint]
    def has_begun(process):
        return sqs.list_queues().get("QueueUrls")

    interrupted(command, has_begun)
    assert not sqs.list_queues().get("QueueUrls")


def test_an_interrupt_ends_all_processes_of_a_run(make_server):
    server = make_server()
    sqs = sdk_client(server)
    command = [str(binary()), "bench", "pc", "--procs", "2", "--duration", "5m", "--endpoint", server.endpoint]

    interrupted(command, lambda _: sqs.list_queues().get("QueueUrls"))
    assert not sqs.list_queues().get("QueueUrls")


@pytest.mark.parametrize(
    "scenario", [["poll", "--delay", "0s"], ["drain", "--pool", "off"], ["position", "--runs", "2000"]]
)
def test_other_scenarios_end_early_too(endpoint, scenario):
    command = [str(binary()), "bench", *scenario, "--endpoint", endpoint, "--listen", "127.0.0.1:0"]
    seen = {}

    def has_begun(process):
        if not seen:
            seen["url"] = process.stderr.readline().removeprefix("metrics at ").strip()
        seen["series"] = scraped(seen["url"])
        return of(seen["series"], "requests_total") > 0

    interrupted(command, has_begun)
    assert of(seen["series"], "connections_opened_total") > 0


def test_an_interrupt_ends_the_filling_of_a_queue(make_server):
    server = make_server()
    sqs = sdk_client(server)
    command = [str(binary()), "bench", "drain", "--backlog", "100000000", "--endpoint", server.endpoint]

    interrupted(command, lambda _: sqs.list_queues().get("QueueUrls"))
    assert not sqs.list_queues().get("QueueUrls")


@pytest.mark.parametrize(
    ("scenario", "first", "second"),
    [
        (["drain", "--scheme", "http", "--pool", "on", "--workers", "2,1", "--backlog", "20000"],
         "drain.http.kept.2.rate", "drain, HTTP 1 kept"),
        (["poll", "--delay", "0s", "--model", "serial", "--batch", "1,2", "--handler", "10ms", "--interval", "0s"],
         "poll.serial.1.rate", "poll, serial, batch 2"),
    ],
)  # fmt: skip
def test_an_interrupt_leaves_the_runs_that_are_done(endpoint, scenario, first, second):
    command = [str(binary()), "bench", *scenario, "--endpoint", endpoint, "--json", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stderr.readline().removeprefix("metrics at ").strip()
            eventually(lambda: f'"{second}"' in urllib.request.urlopen(url).read().decode(), second, 60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()

    report = json.loads(out)
    assert process.returncode == 1 and "the run was ended early" in err
    rates = [metric["name"] for metric in report["metrics"] if metric["name"].endswith(".rate")]
    assert rates == [first]
    assert any("ended early" in warning for warning in report["warnings"])


def children(pid):
    """Process ids of what a process has started."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def has_ended(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def test_what_a_run_has_started_ends_with_it_however_that_ends(endpoint):
    command = [str(binary()), "bench", "drain", "--scheme", "https", "--backlog", "1000000", "--endpoint", endpoint]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            [server] = eventually(lambda: children(process.pid), "a server is started")
        finally:
            process.kill()

    eventually(lambda: has_ended(server), "the server ends")
