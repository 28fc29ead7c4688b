"""What is reported, and what is left, when a run cannot begin, go on or end as it should."""

import contextlib
import json
import signal
import socket
import subprocess
import urllib.parse

import pytest

from support.fake import FakeService
from support.process import running
from support.proxy import Proxy
from support.sdk import sdk_client
from support.server import binary

from .run import bench, wait_for_messages
from .simpledb import FakeSimpleDb


def test_an_endpoint_that_is_not_there_is_exit_1():
    outcome = bench("pc", "--scale", "0.001", endpoint="http://127.0.0.1:1", code=1)

    assert "connecting" in outcome.err


def bench_until_server_dies(server, batch, after):
    """Kills the server once so many messages are there. Returns the exit code, the report and the complaints."""
    few = ["--warm-up", "0s", "--duration", "2s", "--producers", "2", "--consumers", "0", "--batch", batch]
    command = [str(binary()), "bench", "pc", *few, "--json", "--endpoint", server.endpoint]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        wait_for_messages(sdk_client(server), after)
        server.kill()
        out, err = run.communicate(timeout=100)
    return run.returncode, json.loads(out), err


def test_what_was_measured_of_a_server_that_died_is_reported(make_server):
    code, report, err = bench_until_server_dies(make_server(), "10", after=100)

    assert code == 1, err
    metrics = {metric["name"]: metric["value"] for metric in report["metrics"]}
    assert metrics["pc.batch.failed"] > 0 and "pc.batch.rate" in metrics
    # Its account has gone with it.
    assert "pc.batch.server_cpu" not in metrics
    assert b"the queue" in err and b"is left" in err


def test_what_was_measured_before_a_part_that_could_not_begin_is_reported(make_server):
    code, report, err = bench_until_server_dies(make_server(), "1,10", after=10)

    assert code == 1, err
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
        wait_for_messages(sqs)
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


class WithoutSimpleDb(FakeService):
    """A server of something else, which answers in XML."""

    def take(self, *_):
        return 400, "text/xml", b"<Response><Errors><Error><Code>InvalidAction</Code></Error></Errors></Response>"


def test_a_server_without_simpledb_is_told_in_words_and_not_in_xml():
    with contextlib.closing(WithoutSimpleDb()) as other:
        outcome = bench("sdb-csv", "--scale", "0.001", endpoint=other.endpoint, code=1)

    assert "CreateDomain: status 400: " in outcome.err
    assert "<" not in outcome.err
