"""Power cuts under load, on the file systems that people have, judged as kills are (`test_crash.py`).

The disk below them keeps what was flushed, and of the rest any sectors. `POWER_ROUNDS` (5) and
`POWER_SEED` (random, printed) choose how often and when.
"""

import contextlib
import os
import random

import pytest

from crash.machine import Machine, Missing
from crash.rig import CrashedLoad
from support.server import Server
from support.skips import lacks

ROUNDS = int(os.environ.get("POWER_ROUNDS", "5"))
SEED = int(os.environ.get("POWER_SEED", random.randrange(2**32)))


@pytest.fixture(params=["ext4", "xfs", "btrfs"])
def machine(request, tmp_path):
    with contextlib.ExitStack() as stack:
        try:
            machine = stack.enter_context(Machine(tmp_path, request.param))
        except Missing as missing:
            lacks(str(missing))
        yield machine


@pytest.fixture
def server(machine, tmp_path):
    server = Server(tmp_path / "server", durability="fsync", test=False)
    server.data = machine.mounted / "data"
    server.start()
    yield server
    server.close()


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_power_cuts_take_nothing_that_was_acknowledged(machine, server, capsys):
    rng = random.Random(SEED)

    def say(text):
        with capsys.disabled():
            print(f"power: {machine.file_system}: {text}")

    def cut_power():
        say(machine.lose_power(rng.randrange(2**32)))
        server.kill()
        machine.restore_power()

    say(f"seed {SEED}, {ROUNDS} rounds; POWER_SEED={SEED} POWER_ROUNDS={ROUNDS} repeats it")
    load = CrashedLoad(server)
    try:
        load.crash_again_and_again(ROUNDS, cut_power, rng)
    finally:
        load.end()

    load.check(say, least=10 * ROUNDS)
    cut_power()
    server.start()
    load.check_empty()
