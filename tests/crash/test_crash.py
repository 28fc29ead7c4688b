"""The real binary is killed under load, again and again; a ledger of ids tells what must hold.

- What was acknowledged is there: nothing is lost.
- What was deleted, with an acknowledged delete, never returns.
- A batch that was cut is there whole or not at all.
- FIFO: within a group messages come in order, and a deduplication id is accepted once, crash or
  not.
- Calls are cut when the server is killed, and never else.

`CRASH_ROUNDS` (20) and `CRASH_SEED` (random, printed) choose how often and when.
"""

import os
import random

import pytest

from crash.rig import CrashedLoad

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "20"))
SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_killed_server_keeps_every_promise(make_server, capsys):
    def say(text):
        with capsys.disabled():
            print(f"crash: {text}")

    say(f"seed {SEED}, {ROUNDS} rounds; CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS} repeats it")
    server = make_server(durability="fsync", test=False)
    load = CrashedLoad(server)
    try:
        load.crash_again_and_again(ROUNDS, server.kill, random.Random(SEED))
    finally:
        load.end()

    load.check(say, least=ROUNDS)
    server.kill()
    server.start()
    load.check_empty()
