"""The scenarios against IronMQ's interfaces: every message through, in the requests that they allow."""

import subprocess

import pytest

from support.ironmq import Iron
from support.server import binary

from .ironmq import ACCESS, PROJECT, TOKEN, FakeIronMq
from .run import bench

QUICK = ["--scale", "0.001", "--json"]


@pytest.fixture
def iron():
    fake = FakeIronMq()
    yield fake
    fake.close()


@pytest.fixture(params=["ironmq", "ironmq-v1"])
def peer(request):
    return ["--peer", request.param, *ACCESS]


def test_pc_counts_every_message_and_request(iron, peer):
    outcome = bench("pc", *QUICK, *peer, "--batch", "1,30", "--producers", "2", "--consumers", "2", endpoint=iron.endpoint)

    for mode in ("single", "batch30"):
        assert outcome.metric(f"pc.{mode}.messages") > 0
        for fault in ("lost", "duplicated", "failed"):
            assert outcome.metric(f"pc.{mode}.{fault}") == 0
    assert 2.5 < outcome.metric("pc.single.requests_per_message") < 4
    assert outcome.metric("pc.batch30.requests_per_message") < 1
    assert len(iron.removed) == 2 and not iron.queues
    assert all(queue == {} for queue in iron.removed), "messages were left"


def test_each_version_has_its_own_requests(iron):
    small = [*QUICK, *ACCESS, "--batch", "1", "--producers", "1", "--consumers", "1"]
    bench("pc", *small, "--peer", "ironmq", endpoint=iron.endpoint)
    third, iron.calls = set(iron.calls), []
    bench("pc", *small, "--peer", "ironmq-v1", endpoint=iron.endpoint)

    assert third == {
        (3, "PUT"), (3, "DELETE"), (3, "POST", "messages"), (3, "POST", "reservations"), (3, "DELETE", "messages", "ID"),
    }
    assert set(iron.calls) == {
        (1, "POST"), (1, "DELETE"), (1, "POST", "messages"), (1, "GET", "messages"), (1, "DELETE", "messages", "ID"),
    }


def test_drain_and_position_keep_their_connections(iron, peer):
    drain = bench("drain", *QUICK, *peer, "--workers", "2", "--batch", "30", endpoint=iron.endpoint)
    position = bench("position", *QUICK, *peer, "--sends", "10", "--at-once", "4", endpoint=iron.endpoint)

    assert drain.metric("drain.http.kept.2.connections") == 2
    assert drain.metric("drain.http.new.2.connections") >= 1000 / 30
    assert any("HTTPS was left out" in note for note in drain.report["sections"][0]["notes"])
    assert position.metric("position.endpoint.connections") == 20
    assert all(queue == {} for queue in iron.removed[:2]), "messages were left"


def test_poll_handles_every_message_in_every_model(iron, peer):
    outcome = bench(
        "poll", *QUICK, *peer, "--handler", "50ms", "--interval", "10ms", "--delay", "0s", endpoint=iron.endpoint
    )

    assert outcome.metric("poll.serial.30.time") > 0 and outcome.metric("poll.timer.30.time") > 0
    assert outcome.metric("poll.worker.time") > 0
    assert all(queue == {} for queue in iron.removed), "messages were left"


def test_sweep_rate_and_ab_send_there_too(iron, peer):
    sweep = bench("sweep", *QUICK, *peer, "--clients", "1,2", "--operation", "pc", endpoint=iron.endpoint)
    rate = bench("rate", *QUICK, *peer, "--rate", "50", "--conns", "4", endpoint=iron.endpoint)
    bench("ab", *QUICK, *peer, "--sends", "10", "--versus", iron.endpoint, endpoint=iron.endpoint)

    assert sweep.metric("sweep.2.rate") > 0
    assert rate.metric("rate.50.failed") == 0 and rate.metric("rate.50.achieved") > 0


def test_processes_get_the_token_by_their_environment(iron, peer):
    outcome = bench(
        "pc", *QUICK, *peer, "--procs", "2", "--batch", "10", "--producers", "2", "--consumers", "2", endpoint=iron.endpoint
    )

    assert outcome.metric("messages") > 0
    assert outcome.metric("lost") == outcome.metric("duplicated") == outcome.metric("failed") == 0
    assert TOKEN not in outcome.report["command"].split()


def test_the_environment_names_project_and_token(iron):
    command = [str(binary()), "bench", "rate", *QUICK, "--peer", "ironmq", "--rate", "50", "--endpoint", iron.endpoint]
    named = {"IRON_PROJECT_ID": PROJECT, "IRON_TOKEN": TOKEN}
    subprocess.run(command, env=named, check=True, capture_output=True, timeout=60)

    unnamed = subprocess.run(command, env={}, capture_output=True, text=True, timeout=60)
    assert unnamed.returncode == 1
    assert "neither --iron-project is given nor IRON_PROJECT_ID set" in unnamed.stderr


def test_what_ironmq_cannot_do_is_refused(iron):
    peer = [*QUICK, "--peer", "ironmq", *ACCESS]

    fifo = bench("pc", *peer, "--fifo", endpoint=iron.endpoint, code=2)
    assert "message groups: IronMQ cannot do that, SQS can" in fifo.err
    rows = bench("sdb-csv", *peer, endpoint=iron.endpoint, code=2)
    assert "IronMQ cannot do that" in rows.err
    wrong = bench("pc", *QUICK, "--peer", "ironmq", *ACCESS[:3], "wrong", endpoint=iron.endpoint, code=1)
    assert "401" in wrong.err


def test_what_ironmq_cannot_do_is_refused_before_a_project_is_missed():
    fifo = bench("pc", "--peer", "ironmq", "--fifo", code=2)
    assert "message groups: IronMQ cannot do that, SQS can" in fifo.err
    # Also of a later run, before the first.
    batch = bench("pc", "--peer", "ironmq", "--batch", "100,1", "--groups", "2", code=2)
    assert "message groups" in batch.err
    assert "11 messages a request" in bench("pc", "--batch", "1,11", endpoint="http://127.0.0.1:1", code=2).err


class TestMillraceItself:
    """The same against the interface that Millrace serves."""

    @pytest.fixture
    def left(self, server):
        """Queues that a run has not deleted."""
        project = Iron(server.endpoint, PROJECT)
        yield lambda: project.call("GET")["queues"]
        project.close()

    def test_every_message_goes_through(self, server, peer, left):
        outcome = bench(
            "pc", *QUICK, *peer, "--batch", "1,100", "--producers", "2", "--consumers", "2", endpoint=server.endpoint
        )

        for mode in ("single", "batch100"):
            assert outcome.metric(f"pc.{mode}.messages") > 0
            for fault in ("lost", "duplicated", "failed"):
                assert outcome.metric(f"pc.{mode}.{fault}") == 0
        assert 2.5 < outcome.metric("pc.single.requests_per_message") < 4
        assert outcome.metric("pc.batch100.requests_per_message") < 1
        assert left() == []

    def test_the_experiment(self, server, peer, left):
        """Its two runs, and the worker beside them."""
        quick = ["--handler", "50ms", "--interval", "10ms", "--delay", "0s"]
        outcome = bench("poll", *QUICK, *peer, *quick, endpoint=server.endpoint)

        for name in ("poll.timer.1.time", "poll.timer.30.time", "poll.worker.time"):
            assert outcome.metric(name) > 0
        assert left() == []

    def test_connections_are_kept(self, server, peer, left):
        drain = bench("drain", *QUICK, *peer, "--workers", "2", "--batch", "30", endpoint=server.endpoint)

        assert drain.metric("drain.http.kept.2.connections") == 2
        assert left() == []


def test_batches_above_the_interface_s_limit_are_refused(server):
    outcome = bench("pc", *QUICK, "--batch", "30", endpoint=server.endpoint, code=2)

    assert "30 messages a request are too many: this interface takes 10" in outcome.err
