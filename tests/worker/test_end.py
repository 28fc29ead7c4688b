"""The end: drained with exit code 0, work given back with 4, faster when asked twice."""

import signal
import socket
import time

from support.waiting import eventually
from worker.rig import lines

QUICK = ["--wait", "1s", "--backoff", "1h"]


def started(tmp_path, count=1):
    eventually(lambda: len(lines(tmp_path / "runs")) >= count)


def test_sigterm_lets_commands_finish(queue, work, send, tmp_path, counts):
    url = queue()
    send(url, ["a"])
    worker = work(url, "--exec", "echo run >> runs; sleep 1; echo done >> runs", *QUICK)
    started(tmp_path)

    worker.signal()

    assert worker.wait() == 0
    assert lines(tmp_path / "runs") == ["run", "done"]
    assert counts(url) == (0, 0, 0)


def test_terminal_that_is_closed_drains_too(queue, work, send, tmp_path, counts):
    url = queue()
    send(url, ["a"])
    worker = work(url, "--exec", "echo run >> runs; sleep 1; echo done >> runs", *QUICK)
    started(tmp_path)

    worker.signal(signal.SIGHUP)

    assert worker.wait() == 0
    assert lines(tmp_path / "runs") == ["run", "done"]
    assert counts(url) == (0, 0, 0)


def test_signal_before_the_queue_is_found_ends(work):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        worker = work("any", "--exec", "true", endpoint=endpoint)
        connection, _ = silent.accept()

        worker.signal()

        assert worker.wait(10) == 0
        connection.close()


def test_idle_worker_ends_when_its_receive_does(queue, work, counts):
    url = queue()
    worker = work(url, "--exec", "true", *QUICK)
    eventually(lambda: "working" in worker.text())

    worker.signal()

    assert worker.wait(15) == 0


def test_drain_is_bounded_and_the_work_is_given_back(queue, work, send, tmp_path, counts):
    url = queue()
    send(url, ["a", "b"])
    limits = ["--drain-timeout", "500ms", "--kill-after", "200ms"]
    worker = work(url, "--exec", "echo run >> runs; sleep 600", *limits, *QUICK)
    started(tmp_path, 2)

    asked = time.monotonic()
    worker.signal()

    # The commands heed the SIGTERM that they get after the drain timeout: their work was cut off.
    assert worker.wait() == 4
    # By default it would be 20 s.
    assert time.monotonic() - asked < 15
    assert counts(url) == (2, 0, 0)
    assert "2 messages unfinished" in worker.text()


def test_command_that_has_to_be_killed_was_cut_off(queue, work, send, tmp_path, counts):
    url = queue()
    send(url, ["a"])
    limits = ["--drain-timeout", "500ms", "--kill-after", "500ms", "--concurrency", "1"]
    worker = work(url, "--exec", "trap '' TERM; echo run >> runs; sleep 600; true", *limits, *QUICK)
    started(tmp_path)

    worker.signal()

    assert worker.wait() == 4
    assert counts(url) == (1, 0, 0)


def test_second_signal_gives_everything_back_at_once(queue, work, send, tmp_path, counts):
    url = queue()
    send(url, ["a", "b", "c"])
    command = "trap '' TERM; echo $$ >> runs; sleep 600; true"
    worker = work(url, "--exec", command, *QUICK)
    started(tmp_path, 3)

    worker.signal()
    eventually(lambda: "draining" in worker.text())
    asked = time.monotonic()
    worker.signal()

    assert worker.wait() == 4
    # The first signal alone gives them 20 s.
    assert time.monotonic() - asked < 15
    assert counts(url) == (3, 0, 0)
    assert "unfinished" in worker.text()
