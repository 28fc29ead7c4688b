"""The real binary is killed under load, again and again; a ledger of ids tells what must hold.

- What was acknowledged is there: nothing is lost.
- What was deleted, with an acknowledged delete, never returns.
- A batch that was cut is there whole or not at all.
- FIFO: within a group messages come in order, and a deduplication id is accepted once, crash or
  not.
- Calls are cut when the server is killed, and never else.

One of three producers sends bodies large enough to fill segments, and one of five starts is killed,
too. `CRASH_ROUNDS` (20) and `CRASH_SEED` (random, printed) choose how often and when.
"""

import os
import random
import time

import pytest

from crash.clients import Connection, Load, Outages, consume, drain, is_empty, produce, produce_fifo
from crash.ledger import FifoLedger, QueueLedger

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "20"))
LARGE_BYTES = 200_000
SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))


def kill(server, ledgers):
    server.kill()
    for ledger in ledgers:
        ledger.server_restarts()


def kill_again_and_again(server, load, ledgers, rng):
    for n in range(ROUNDS):
        time.sleep(rng.uniform(0.05, 0.9))  # The moment of the crash is the test's own random.
        load.outages.begins()
        kill(server, ledgers)
        if n % 5 == 4:
            server.spawn()
            time.sleep(rng.uniform(0, 0.05))  # In the middle of the start.
            kill(server, ledgers)
        server.start()
        load.outages.ends()
        assert not load.failures, load.failures


def last_segment(server) -> int:
    return max(int(file.stem, 16) for file in (server.data / "journal").glob("*.seg"))


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_killed_server_keeps_every_promise(make_server, capsys):
    rng = random.Random(SEED)
    with capsys.disabled():
        print(f"\ncrash: seed {SEED}, {ROUNDS} rounds; CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS} repeats it")
    server = make_server(durability="fsync", test=False)
    admin = Connection(server.port)
    plain_url = admin.call("CreateQueue", QueueName="plain")["QueueUrl"]
    fifo_attributes = {"FifoQueue": "true"}
    fifo_url = admin.call("CreateQueue", QueueName="f.fifo", Attributes=fifo_attributes)["QueueUrl"]
    plain, fifo = QueueLedger(), FifoLedger()

    load = Load(server.port, Outages())
    for n in range(3):
        load.run(produce, plain_url, plain, f"p{n}", 0 if n else LARGE_BYTES)
    for n in range(2):
        load.run(produce_fifo, fifo_url, fifo, f"p{n}")
        load.run(consume, plain_url, plain)
        load.run(consume, fifo_url, fifo)
    try:
        kill_again_and_again(server, load, (plain, fifo), rng)
    finally:
        load.end()

    admin = Connection(server.port)
    for url, ledger in ((plain_url, plain), (fifo_url, fifo)):
        drained = drain(admin, url, ledger)
        ledger.check_drained(drained)
        with capsys.disabled():
            print(
                f"crash: {url.rpartition('/')[2]}: {len(ledger.acknowledged)} acknowledged, "
                f"{ledger.receives} received, {len(ledger.deleted_at)} deleted, "
                f"{len(drained)} left at the end, {len(ledger.errors)} errors"
            )
        assert ledger.errors == []
        assert len(ledger.acknowledged) > ROUNDS

    with capsys.disabled():
        print(f"crash: the journal has come to segment {last_segment(server)}")
    # The last deletes, too, are there to stay.
    server.kill()
    server.start()
    admin = Connection(server.port)
    assert is_empty(admin, plain_url)
    assert is_empty(admin, fifo_url)
