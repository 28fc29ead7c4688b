"""One seed a test, printed with the command that repeats it."""

import os
import random

import pytest

from faults.rig import SCALE


@pytest.fixture
def rng(request, capsys):
    """What a test draws from; `FAULT_SEED` repeats it."""
    seed = int(os.environ.get("FAULT_SEED", random.randrange(2**32)))
    scale = f" FAULT_SCALE={SCALE}" if SCALE != 1 else ""
    with capsys.disabled():
        print(f"\nfault: FAULT_SEED={seed}{scale} ./test python tests/{request.node.nodeid}")
    return random.Random(seed)


@pytest.fixture
def say(capsys):
    """Prints what a test found, also when it passes."""

    def line(text):
        with capsys.disabled():
            print(f"fault:   {text}")

    return line
