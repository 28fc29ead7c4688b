"""Runs that end by a count, and those that measured nothing, or not what was asked for."""

import json
import re
import subprocess

import pytest

from support.process import running
from support.sdk import sdk_client
from support.server import binary

from .run import bench, wait_for_messages


@pytest.mark.parametrize("mode", ["send", "latency", "pc", "drain"])
@pytest.mark.parametrize("warm_up", ["0", "1"])
def test_a_load_with_a_count_ends_with_it(endpoint, mode, warm_up):
    few = ["--count", "300", "--conns", "4", "--warm-up", warm_up, "--duration", "600", "--json"]
    report = bench("load", mode, *few, endpoint=endpoint).report

    counted = report["counts"]["sent" if mode in ("send", "latency") else "deleted"]
    assert counted == report["check"]["acknowledged"] == 300
    assert 0 < report["elapsed_s"] < 30
    verb = "sent" if mode in ("send", "latency") else "deleted"
    assert report["per_s"][verb] == pytest.approx(300 / report["elapsed_s"])


def test_a_load_with_a_count_and_a_rate_takes_the_time_of_both(endpoint):
    few = ["--count", "40", "--conns", "2", "--rate", "20", "--json"]
    report = bench("load", "pc", *few, endpoint=endpoint).report

    assert report["counts"]["deleted"] == 40
    assert 1.5 < report["elapsed_s"] < 10


@pytest.mark.parametrize(
    "scenario",
    [
        ["load", "send", "--rate", "0.01", "--duration", "1", "--warm-up", "0.5"],
        ["load", "pc", "--rate", "0.01", "--duration", "1", "--warm-up", "0.5"],
        ["rate", "--rate", "0.01", "--step-duration", "1s", "--scale", "0.01"],
        ["http", "--rate", "0.01", "--step-duration", "1s", "--scale", "0.01"],
    ],
)
def test_a_measurement_of_nothing_is_no_success(endpoint, scenario):
    where = endpoint + ("/health" if scenario[0] == "http" else "")

    assert "nothing was measured" in bench(*scenario, endpoint=where, code=1).err


def test_a_rate_that_is_mostly_unsent_is_no_success(slow, endpoint):
    few = ["--rate", "100", "--conns", "1", "--step-duration", "1s", "--scale", "0.01"]
    for scenario, where in (["rate", slow(endpoint)], ["http", slow(endpoint) + "/health"]):
        refused = bench(scenario, *few, endpoint=where, code=1)
        assert re.search(scenario + r"\.100\.unsent is \d+", refused.err), refused.err
        bench(scenario, *few, "--fail-if", "unsent>1000000", endpoint=where)


def test_what_a_server_still_holds_that_died_at_the_end_of_a_run_is_not_lost(make_server):
    server = make_server()
    # Consumers have so much to do that a backlog is left whenever the server ends.
    few = ["--warm-up", "0s", "--duration", "4s", "--producers", "8", "--consumers", "1", "--backlog", "0"]
    command = [str(binary()), "bench", "pc", *few, "--batch", "1", "--json", "--endpoint", server.endpoint]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        wait_for_messages(sdk_client(server), 1000)
        server.kill()
        out, err = run.communicate(timeout=100)

    assert run.returncode == 1
    assert b"the server is gone" in err and b"lost" not in err, err.decode()
    metrics = {metric["name"]: metric["value"] for metric in json.loads(out)["metrics"]}
    assert metrics["pc.single.lost"] == 0
