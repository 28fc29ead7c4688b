"""Limits, baselines, the JSON form, and runs on nodes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path

import jsonschema
import pytest

from conftest import sdk_client
from support.process import running
from support.proxy import Proxy
from support.server import ROOT, binary

from .run import bench
from .simpledb import FakeSimpleDb

SWEEP = ["sweep", "--scale", "0.001", "--clients", "1,2,4", "--json"]
SCHEMA = json.loads((Path(ROOT) / "docs" / "bench-report.schema.json").read_text())


@pytest.fixture
def endpoint(server):
    return server.endpoint


def test_the_report_is_what_its_schema_says(endpoint):
    report = bench("pc", "--scale", "0.001", "--json", endpoint=endpoint).report

    jsonschema.validate(report, SCHEMA)
    assert report["environment"]["server"] == binary().name


def test_a_broken_limit_is_exit_1_and_named(endpoint):
    outcome = bench(*SWEEP, "--fail-if", "sweep.1.rate>0,sweep.2.rate<0", endpoint=endpoint, code=1)

    assert "sweep.1.rate>0: sweep.1.rate is" in outcome.err
    assert "sweep.2.rate" not in outcome.err
    # The report is there all the same.
    assert outcome.report["metrics"]


def test_limits_that_hold_are_exit_0_and_nonsense_is_exit_2(endpoint):
    bench(*SWEEP, "--fail-if", "sweep.1.rate<1", endpoint=endpoint)
    bench(*SWEEP, "--fail-if", "sweep.1.rate", endpoint=endpoint, code=2)
    # Only the run tells which points there are.
    assert "no metric is called" in bench(*SWEEP, "--fail-if", "sweep.9.rate>1", endpoint=endpoint, code=1).err


def test_a_limit_on_what_a_scenario_cannot_have_is_exit_2_before_the_run():
    nobody = "http://127.0.0.1:1"
    assert "p42>1: pc has no metric" in bench("pc", "--fail-if", "lost>0,p42>1", endpoint=nobody, code=2).err
    assert "p42<1s: rate has no metric" in bench("rate", "--find-max", "--slo", "p42<1s", endpoint=nobody, code=2).err


@pytest.mark.parametrize(
    "scenario",
    [
        ["pc", "--producers", "1", "--consumers", "1"], ["position"], ["poll", "--handler", "10ms", "--delay", "0s"],
        ["drain", "--workers", "2", "--pool", "on", "--scheme", "http"], ["sweep", "--clients", "1,2,4"],
        ["rate", "--rate", "20", "--consumers", "1"], ["rate", "--stage", "20/s:1s,30/s:1s"], ["http", "--rate", "20"],
        ["ab", "--sends", "5"],
    ],
)
def test_limits_may_name_whatever_a_report_has(endpoint, scenario):
    where = endpoint + ("/health" if scenario[0] == "http" else "")
    scenario = [*scenario, "--scale", "0.001"] + (["--versus", endpoint] if scenario[0] == "ab" else [])
    report = bench(*scenario, "--json", endpoint=where).report

    limits = ",".join(f"{metric['name']}<0" for metric in report["metrics"])
    # They pass, and then nobody is there.
    assert "no metric" not in bench(*scenario, "--fail-if", limits, endpoint="http://127.0.0.1:1", code=1).err


def test_a_regression_against_the_baseline_is_exit_1(endpoint, tmp_path):
    report = bench(*SWEEP, endpoint=endpoint).report
    for metric in report["metrics"]:
        metric["value"] *= 1000 if metric["better"] == "higher" else 1
    worse = tmp_path / "worse.json"
    worse.write_text(json.dumps(report))

    outcome = bench(*SWEEP, "--baseline", str(worse), "--max-regression", "50%", endpoint=endpoint, code=1)
    assert "sweep.1.rate was" in outcome.err

    for metric in report["metrics"]:
        metric["value"] = 0 if metric["better"] == "higher" else 1e12
    better = tmp_path / "better.json"
    better.write_text(json.dumps(report))
    bench(*SWEEP, "--baseline", str(better), endpoint=endpoint)


def test_a_time_bounds_what_is_counted_in_seconds(endpoint):
    drain = ["drain", "--scale", "0.001", "--workers", "2", "--pool", "on", "--scheme", "http"]
    outcome = bench(*drain, "--fail-if", "time>1us,time>3600s,connections>1s", endpoint=endpoint, code=1)

    assert "time>1us: drain.http.kept.2.time is" in outcome.err
    assert "time>3600s" not in outcome.err
    assert "drain.http.kept.2.connections is no time" in outcome.err


def test_a_baseline_of_another_scale_stops_before_the_run(endpoint, tmp_path):
    before = tmp_path / "before.json"
    bench(*SWEEP[:-1], f"--json={before}", endpoint=endpoint)

    longer = bench("sweep", "--scale", "0.5", "--baseline", str(before), endpoint=endpoint, code=1)
    assert "the baseline is of --scale 0.001, this run of 0.5" in longer.err


@pytest.mark.parametrize(
    ("command", "code"), [(["http", "--rate", "1e-30", "--scale", "0.001"], 0), (["pc", "--scale", "1e30"], 2)]
)
def test_numbers_beyond_all_measure_are_no_panic(endpoint, command, code):
    assert "panic" not in bench(*command, endpoint=endpoint + "/health", code=code).err


def test_a_baseline_that_is_none_stops_before_the_run(endpoint, tmp_path):
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")

    assert "schema" in bench(*SWEEP, "--baseline", str(nothing), endpoint=endpoint, code=1).err


def test_an_endpoint_that_is_not_there_is_exit_1():
    outcome = bench("pc", "--scale", "0.001", endpoint="http://127.0.0.1:1", code=1)

    assert "connecting" in outcome.err


def test_files_are_written_even_if_nobody_reads_what_is_printed(endpoint, tmp_path):
    files = {f"--{form}": tmp_path / form for form in ("html", "csv", "json")}
    options = [f"{flag}={file}" for flag, file in files.items()]
    command = [str(binary()), "bench", "pc", "--scale", "0.001", "--endpoint", endpoint, *options]

    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        messages = run.stderr.read().decode()
        run.wait(20)

    assert run.returncode == 0, messages
    assert all(file.stat().st_size > 0 for file in files.values()), messages


def test_a_form_that_cannot_be_written_takes_nothing_from_the_others(endpoint, tmp_path):
    page = tmp_path / "page.html"
    files = ["--csv", "/dev/full", f"--hdr={tmp_path / 'nowhere' / 'log'}", "--html", str(page)]
    outcome = bench("pc", "--scale", "0.001", "--json", *files, endpoint=endpoint, code=1)

    assert "writing /dev/full: No space left" in outcome.err and "nowhere/log: No such file" in outcome.err
    assert outcome.report["metrics"] and page.stat().st_size > 0


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--server-pid", "0"], "no process of this machine has the number 0"),
        (["--nodes", "127.0.0.1:1", "--server-pid", str(os.getpid())], "--server-pid"),
        (["--nodes", "127.0.0.1:1,127.0.0.1:1"], "twice"),
        (["--procs", "0"], "0 is not in 1..=256"),
    ],
)
def test_a_process_and_nodes_that_nobody_could_measure_are_exit_2(flags, why):
    for scenario in ("pc", "sweep"):
        assert why in bench(scenario, *flags, endpoint="http://127.0.0.1:1", code=2).err


def test_nodes_run_one_scenario_together_and_are_there_for_the_next(endpoint):
    with contextlib.ExitStack() as ends:
        nodes = [ends.enter_context(contextlib.closing(Node())) for _ in range(2)]
        where = ",".join(node.address for node in nodes)
        for _ in range(2):
            outcome = bench(
                "pc", "--scale", "0.001", "--json", "--batch", "10", "--producers", "2", "--consumers", "2",
                "--nodes", where, endpoint=endpoint,
            )
            assert outcome.metric("messages") > 0
            assert outcome.metric("lost") == outcome.metric("duplicated") == 0


def test_a_node_that_is_not_there_is_exit_1_and_named(endpoint):
    outcome = bench("pc", "--scale", "0.001", "--nodes", "127.0.0.1:1", endpoint=endpoint, code=1)

    assert "node 127.0.0.1:1" in outcome.err


QUICK_PC = ["pc", "--scale", "0.001", "--json", "--batch", "10", "--producers", "2", "--consumers", "2"]
LONG_PC = ["pc", "--duration", "5m", "--batch", "10", "--producers", "2", "--consumers", "2"]


@pytest.fixture
def node():
    node = Node()
    yield node
    node.close()


def test_a_node_that_is_not_there_is_told_before_the_run(endpoint, node):
    began = time.monotonic()
    outcome = bench(*LONG_PC, "--nodes", f"{node.address},127.0.0.1:1", endpoint=endpoint, code=1)

    assert "node 127.0.0.1:1: connecting" in outcome.err
    assert time.monotonic() - began < 30
    # The other one was left, and is free.
    assert bench(*QUICK_PC, "--nodes", node.address, endpoint=endpoint).metric("messages") > 0


def test_a_node_whose_coordinator_is_gone_is_free_for_the_next(make_server, node):
    server = make_server()
    sqs = sdk_client(server)
    command = [str(binary()), "bench", *LONG_PC, "--nodes", node.address, "--endpoint", server.endpoint]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 20
            while not has_messages(sqs):
                assert time.monotonic() < deadline, "the run never began"
                time.sleep(0.05)
        finally:
            process.kill()

    outcome = bench(*QUICK_PC, "--nodes", node.address, endpoint=server.endpoint)
    assert outcome.metric("messages") > 0 and outcome.metric("lost") == 0


def test_what_was_measured_of_a_server_that_died_is_reported(make_server):
    server = make_server()
    sqs = sdk_client(server)
    few = ["--warm-up", "0s", "--duration", "2s", "--producers", "2", "--consumers", "0", "--batch", "10"]
    command = [str(binary()), "bench", "pc", *few, "--json", "--endpoint", server.endpoint]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 20
        while message_count(sqs) < 100:
            assert time.monotonic() < deadline, "the run never began"
            time.sleep(0.02)
        server.kill()
        out, err = run.communicate(timeout=100)

    assert run.returncode == 1, err
    metrics = {metric["name"]: metric["value"] for metric in json.loads(out)["metrics"]}
    assert metrics["pc.batch.failed"] > 0 and "pc.batch.rate" in metrics
    # Its account has gone with it.
    assert "pc.batch.server_cpu" not in metrics
    assert b"the queue" in err and b"is left" in err


def test_what_was_measured_before_a_part_that_could_not_begin_is_reported(make_server):
    server = make_server()
    sqs = sdk_client(server)
    few = ["--warm-up", "0s", "--duration", "2s", "--producers", "2", "--consumers", "0", "--batch", "1,10"]
    command = [str(binary()), "bench", "pc", *few, "--json", "--endpoint", server.endpoint]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 20
        while message_count(sqs) < 10:
            assert time.monotonic() < deadline, "the run never began"
            time.sleep(0.02)
        server.kill()
        out, err = run.communicate(timeout=100)

    assert run.returncode == 1
    report = json.loads(out)
    names = {metric["name"] for metric in report["metrics"]}
    assert "pc.single.lost" in names and "pc.batch.lost" not in names
    assert any("A later part failed" in warning for warning in report["warnings"])
    assert b"creating queue" in err and b"is left" in err


def test_what_a_drain_has_finished_is_reported_though_a_later_run_fails(endpoint):
    few = ["--backlog", "1000", "--workers", "1", "--pool", "on", "--scheme", "http,https"]
    nowhere = ["--https-endpoint", "https://127.0.0.1:1", "--insecure-tls"]
    outcome = bench("drain", *few, *nowhere, "--json", endpoint=endpoint, code=1)

    assert outcome.metric("drain.http.kept.1.rate") > 0
    assert any("A later part failed" in warning for warning in outcome.report["warnings"])


def test_a_queue_is_named_that_a_drain_had_to_leave(make_server):
    server = make_server()
    sqs = sdk_client(server)
    command = [
        str(binary()), "bench", "drain", "--scheme", "http", "--pool", "on", "--workers", "1",
        "--backlog", "100000", "--endpoint", server.endpoint,
    ]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 30
        while not has_messages(sqs):
            assert time.monotonic() < deadline, "the run never began"
            time.sleep(0.02)
        [name] = sqs.list_queues()["QueueUrls"]
        server.kill()
        _, err = run.communicate(timeout=100)

    assert run.returncode == 1
    assert f"the queue {name} is left".encode() in err


def test_an_interrupt_ends_a_run_that_has_no_answer_yet():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with running([str(binary()), "bench", "pc", "--endpoint", where], stderr=subprocess.PIPE) as run:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                run.send_signal(signal.SIGINT)
                _, err = run.communicate(timeout=10)

    assert run.returncode == 1
    assert b"waiting for the answer: the run was ended early" in err


def has_messages(sqs) -> bool:
    return message_count(sqs) > 0


def message_count(sqs) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = [
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        for url in sqs.list_queues().get("QueueUrls", [])
    ]
    return sum(int(count) for attributes in found for count in attributes.values())


class Node:
    def __init__(self):
        command = [str(binary()), "bench", "node", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip().removeprefix("node listens at ")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_load_that_gets_nothing_through_is_exit_1_with_the_reason(endpoint):
    outcome = bench("load", "send", "--size", "2000000", "--duration", "0.3", endpoint=endpoint, code=1)

    assert "no message got through: status 400" in outcome.err


@pytest.mark.parametrize(
    "scenario",
    [
        ["pc", "--batch", "1"], ["pc", "--batch", "10", "--no-verify"], ["pc", "--batch", "1", "--procs", "2"],
        ["rate", "--rate", "20"], ["sweep", "--clients", "1,2,4"],
    ],
)
def test_a_scenario_whose_requests_are_all_refused_is_exit_1_with_the_reason(endpoint, scenario):
    outcome = bench(*scenario, "--scale", "0.001", "--size", "2MiB", "--json", endpoint=endpoint, code=1)

    assert "no message got through: status 4" in outcome.err
    # The report is there all the same.
    assert outcome.report["metrics"]


@pytest.mark.parametrize(
    "scenario",
    [
        ["ab", "--versus", "http://127.0.0.1:1"], ["drain", "--size", "2000000", "--scheme", "http"],
        ["position", "--size", "2000000"],
    ],
)
def test_a_scenario_that_cannot_go_on_leaves_no_queue(make_server, scenario):
    server = make_server()

    bench(*scenario, "--scale", "0.001", endpoint=server.endpoint, code=1)

    assert not sdk_client(server).list_queues().get("QueueUrls")


class Cutter(Proxy):
    """Cuts the first answer with messages in the middle."""

    has_cut = False

    def answered(self, data):
        if self.has_cut or b'"Messages"' not in data:
            return data
        self.has_cut = True
        return data[: len(data) // 2]


def test_messages_in_an_answer_that_is_cut_are_not_lost(endpoint):
    with contextlib.closing(Cutter(urllib.parse.urlsplit(endpoint).port)) as cutter:
        outcome = bench(
            "pc", "--scale", "0.001", "--json", "--batch", "10", "--producers", "1", "--consumers", "1",
            endpoint=cutter.endpoint,
        )

    assert cutter.has_cut
    assert outcome.metric("lost") == 0 and outcome.metric("failed") == 1
    notes = " ".join(outcome.report["sections"][0]["notes"])
    assert "messages count as given out in answers that did not arrive: 1 receives had none" in notes
    assert "The first error: the server closed the connection instead of answering" in notes


class Refusing(Proxy):
    """Takes no message, as far as a client can tell."""

    def answered(self, data):
        return data.replace(b"HTTP/1.1 200", b"HTTP/1.1 503") if b"MessageId" in data else data


@pytest.mark.parametrize("scenario", [["drain", "--scheme", "http"], ["poll"]])
def test_a_queue_that_cannot_be_filled_is_exit_1_with_the_reason(make_server, scenario):
    with contextlib.closing(Refusing(urllib.parse.urlsplit(make_server().endpoint).port)) as refusing:
        outcome = bench(*scenario, "--scale", "0.001", endpoint=refusing.endpoint, code=1)

    assert "messages could be sent: status 503" in outcome.err


def test_ab_names_the_endpoint_that_refuses_and_why(endpoint):
    with contextlib.closing(Refusing(urllib.parse.urlsplit(endpoint).port)) as refusing:
        outcome = bench("ab", "--versus", refusing.endpoint, "--scale", "0.001", endpoint=endpoint, code=1)

    assert f"sending to {refusing.endpoint}: status 503: " in outcome.err


def test_a_write_that_is_refused_leaves_no_domain():
    class Refusing(FakeSimpleDb):
        def act(self, parameters, host):
            status = super().act(parameters, host)
            return 500 if parameters["Action"] == "PutAttributes" else status

    fake = Refusing()
    try:
        outcome = bench("sdb-csv", "--scale", "0.001", "--sign", "key:secret", endpoint=fake.endpoint, code=1)
    finally:
        fake.close()

    assert "500" in outcome.err
    assert fake.actions == ["CreateDomain", "PutAttributes", "DeleteDomain"]


def test_load_without_an_endpoint_takes_the_environments(endpoint, monkeypatch):
    monkeypatch.setenv("MILLRACE_ENDPOINT", endpoint)

    bench("load", "send", "--count", "10", "--json")
