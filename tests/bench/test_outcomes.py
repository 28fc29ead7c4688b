"""Limits, baselines, and the forms of a report."""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from support.process import running
from support.server import ROOT, binary

from .run import bench

SWEEP = ["sweep", "--scale", "0.001", "--clients", "1,2,4", "--json"]
SCHEMA = json.loads((Path(ROOT) / "docs" / "bench-report.schema.json").read_text())


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
    ("command", "code"), [(["http", "--rate", "1e-30", "--scale", "0.001"], 1), (["pc", "--scale", "1e30"], 2)]
)
def test_numbers_beyond_all_measure_are_no_panic(endpoint, command, code):
    assert "panic" not in bench(*command, endpoint=endpoint + "/health", code=code).err


def test_a_baseline_that_is_none_stops_before_the_run(endpoint, tmp_path):
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")

    assert "schema" in bench(*SWEEP, "--baseline", str(nothing), endpoint=endpoint, code=1).err


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


def test_load_without_an_endpoint_takes_the_environments(endpoint, monkeypatch):
    monkeypatch.setenv("MILLRACE_ENDPOINT", endpoint)

    bench("load", "send", "--count", "10", "--json")
