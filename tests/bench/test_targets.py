"""`millrace bench targets --quick`: that every target can be measured, and what is said when not."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.process import running
from support.server import binary

TIMEOUT_S = 170
ALL = {str(number) for number in range(1, 12)}


def targets(*arguments, directory=None, environment=None, code=0):
    where = ["--dir", str(directory)] if directory else []
    command = [str(binary()), "bench", "targets", "--quick", *arguments, *where]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=os.environ | (environment or {})
    )
    assert process.returncode == code, f"{command}: exit {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process


def test_every_target_is_measured_without_a_fault_and_none_is_judged(tmp_path):
    process = targets("--json", directory=tmp_path)

    rows = json.loads(process.stdout)
    assert {row["target"] for row in rows} == ALL
    assert not any(row["faults"] for row in rows)
    assert {row["is_met"] for row in rows} == {None}
    assert all(row["unjudged"] for row in rows if row["goal"])
    assert "0 met, 0 missed" in process.stderr
    # Servers and their data are gone.
    assert not list(tmp_path.iterdir())


def test_a_target_that_cannot_be_measured_is_a_row_and_exit_1(tmp_path):
    process = targets("--json", "--only", "8,9", "--binary", "/bin/false", directory=tmp_path, code=1)

    rows = json.loads(process.stdout)
    assert [row["target"] for row in rows] == ["8", "9"]
    assert all("not measured: the server ended before it served" in row["faults"][0] for row in rows)
    assert {row["is_met"] for row in rows} == {False}


def test_servers_are_started_with_the_flags_that_are_named(tmp_path):
    process = targets("--json", "--only", "9", "--serve=--workers=many", directory=tmp_path, code=1)
    assert "\"many\" is not a number" in process.stderr

    targets("--only", "9", "--serve=--idle-poll", directory=tmp_path)


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no file system in memory here")
def test_a_file_system_in_memory_is_measured_only_if_it_is_named():
    process = targets("--only", "9", environment={"TMPDIR": "/dev/shm"}, code=1)
    assert "is in memory" in process.stderr and "--dir" in process.stderr

    if shutil.disk_usage("/dev/shm").free > 2e9:
        assert " tmpfs, " in targets("--only", "9", directory="/dev/shm").stdout


def test_an_interrupt_prints_what_was_measured_and_leaves_nothing_behind(tmp_path):
    command = [str(binary()), "bench", "targets", "--quick", "--only", "4,9", "--dir", str(tmp_path)]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first_row = process.stderr.readline()
        while not first_row.startswith("   4"):
            first_row = process.stderr.readline()
            assert first_row, "no row was measured"
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "the run was ended early" in err
    assert "drain 2,000, standard" in out and "restart" not in out
    assert time.monotonic() - began < 15
    assert not list(tmp_path.iterdir())


def started(tmp_path, *before):
    command = [*before, str(binary()), "bench", "targets", "--quick", "--only", "4,9", "--dir", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # The tests themselves may have been started with nohup.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    while not (line := process.stderr.readline()).startswith("   4"):
        assert line, "no row was measured"
    return process


def is_running(process_id) -> bool:
    """What has ended and nobody has waited for does not run."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_second_signal_leaves_nothing_behind_either(tmp_path):
    process = started(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children, "no server runs"

    # Two of one kind could count as one.
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == 130
    assert not [child for child in children if is_running(child)]
    assert not list(tmp_path.iterdir())


def test_a_terminal_that_goes_away_ends_a_run_unless_nohup_says_otherwise(tmp_path):
    process = started(tmp_path)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and "the run was ended early" in err
    assert not list(tmp_path.iterdir())

    process = started(tmp_path, "nohup")
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "ended early" not in err
    assert "restart" in out
