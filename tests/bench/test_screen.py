"""`--live` in a real (pseudo) terminal: the screen shows numbers, and the terminal is as it was afterwards."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from support.server import binary

from .run import bench

ENTER, LEAVE, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
ROWS, COLUMNS = 30, 100


class Screen:
    """A run in a terminal of its own."""

    def __init__(self, *arguments):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        self.process = subprocess.Popen(
            [str(binary()), "bench", *arguments, "--live"],
            stdin=self.slave, stdout=subprocess.PIPE, stderr=self.slave, text=True, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def read(self, timeout_s=0.1):
        while select.select([self.master], [], [], timeout_s)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")

    def wait_for(self, done, what):
        deadline = time.monotonic() + 20
        while not done(self.cells()):
            assert time.monotonic() < deadline, f"no {what} in {self.cells()}"
            assert self.process.poll() is None, self.text
            self.read()

    def cells(self) -> str:
        """The screen as it is now: text is put where the cursor was sent."""
        rows = [[" "] * COLUMNS for _ in range(ROWS)]
        row = column = 0
        for sent, final, other in re.findall(r"\x1b\[([0-9;?]*)([A-Za-z])|([^\x1b])", self.text):
            if final == "H":
                row, column = (int(part) - 1 for part in (sent or "1;1").split(";"))
            elif final == "J":
                rows = [[" "] * COLUMNS for _ in range(ROWS)]
            elif other and other >= " " and row < ROWS and column < COLUMNS:
                rows[row][column] = other
                column += 1
        return "\n".join("".join(row).rstrip() for row in rows)

    def type(self, keys: bytes):
        os.write(self.master, keys)

    def end(self) -> str:
        """Standard output, once the process is over."""
        out, _ = self.process.communicate(timeout=20)
        self.read()
        return out

    def is_restored(self) -> bool:
        back = self.text.count(ENTER) == self.text.count(LEAVE) == 1
        return back and self.text.rfind(SHOW_CURSOR) > 0 and termios.tcgetattr(self.slave) == self.before

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def screen(server):
    opened = []

    def start(*arguments) -> Screen:
        opened.append(Screen(*arguments, "--endpoint", server.endpoint))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


PC = ["pc", "--warm-up", "0s", "--batch", "1", "--producers", "2", "--consumers", "2"]


def test_the_screen_shows_a_run_and_q_ends_it(screen):
    run = screen(*PC, "--duration", "1m")
    run.wait_for(lambda cells: re.search(r"deleted/s: [1-9]", cells), "rate")

    cells = run.cells()
    assert "millrace bench: pc 1" in cells and "4 opened" in cells and "0 failed" in cells
    for operation in ("send", "receive", "delete", "end to end"):
        assert re.search(rf"{operation} +[1-9][\d,]* +[\d.]+ (µs|ms|s) +[\d.]+ (µs|ms|s)", cells), cells
    assert "q or Ctrl-C ends the run early" in cells
    assert termios.tcgetattr(run.slave) != run.before

    run.type(b"q")
    out = run.end()
    assert run.is_restored()
    assert run.process.returncode == 1
    assert "The run was ended early" in out and "messages/s" in out
    assert "the run was ended early" in run.text.split(LEAVE)[1]


def test_ctrl_c_is_q_and_twice_leaves_at_once(screen):
    run = screen("poll", "--delay", "0s", "--model", "serial")
    run.wait_for(lambda cells: "receive" in cells, "latency")
    run.type(b"\x03")
    run.end()
    assert run.process.returncode == 1 and run.is_restored()

    run = screen(*PC, "--duration", "1m")
    run.wait_for(lambda cells: "deleted/s" in cells, "rate")
    run.type(b"\x03\x03")
    run.end()
    assert run.process.returncode in (1, 130) and run.is_restored()


def test_the_terminal_is_restored_after_the_end_an_error_and_a_signal(screen):
    whole = screen(*PC, "--duration", "1s")
    assert "messages/s" in whole.end()
    assert whole.process.returncode == 0 and whole.is_restored()

    wrong = screen("drain", "--scale", "0.001", "--size", "2000000", "--scheme", "http")
    wrong.end()
    assert wrong.process.returncode == 1 and wrong.is_restored()
    assert "messages could be sent" in wrong.text.split(LEAVE)[1]

    killed = screen(*PC, "--duration", "1m")
    killed.wait_for(lambda cells: "deleted/s" in cells, "rate")
    killed.process.send_signal(signal.SIGTERM)
    killed.end()
    assert killed.process.returncode == 1 and killed.is_restored()


def test_notes_wait_for_the_screen_to_go(screen):
    run = screen(*PC, "--duration", "2s", "--push", "http://127.0.0.1:1")
    run.end()
    assert run.process.returncode == 0 and run.is_restored()
    assert run.text.split(LEAVE)[1].count("warning: --push fails") == 1


def test_without_a_terminal_it_is_refused(server):
    outcome = bench("pc", "--scale", "0.001", "--live", endpoint=server.endpoint, code=2)
    assert "--live needs a terminal" in outcome.err
