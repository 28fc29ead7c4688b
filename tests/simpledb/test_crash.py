"""The server is killed under load, again and again; a ledger tells what must hold.

- What was acknowledged is there, and what was deleted never returns.
- A batch that was cut is there whole or not at all.
- Of writers that race with a condition, one wins: a counter has gone up by one for each put that
  was acknowledged, and by one more at most for each that was cut.
- Figures are those of what is there.

`CRASH_ROUNDS` (6) and `CRASH_SEED` (random, printed) choose how often and when.
"""

import http.client
import os
import random
import threading
import time

import pytest

from simpledb.ledger import Ledger
from support.simpledb import SimpleDb
from support.wire import ApiError

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "6"))
SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
DOMAIN = "crashed"
CUT = (OSError, http.client.HTTPException)


class Writers:
    """Threads that go on through crashes: a call that was cut waits until the server is back."""

    def __init__(self, db):
        self.db = db
        self.ledger = Ledger()
        self.is_up = threading.Event()
        self.is_up.set()
        self.ends = threading.Event()
        self.failures = []
        self.won = self.cut = 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(self.put, n)) for n in range(4)]
        self.threads += [threading.Thread(target=self.run, args=(self.count, n)) for n in range(3)]
        for thread in self.threads:
            thread.start()

    def run(self, write, number):
        turn = 0
        try:
            while not self.ends.is_set():
                self.is_up.wait()
                write(number, turn)
                turn += 1
        except BaseException as error:
            self.failures.append(error)
            raise

    def put(self, number, turn):
        batch = f"{number}-{turn}"
        items = [f"{batch}-{n}" for n in range(25 if turn % 3 else 1)]
        self.ledger.batch_begins(batch, items)
        try:
            self.db.batch_put(DOMAIN, [(item, {"batch": batch, "n": ["1", "2"]}) for item in items])
            self.ledger.batch_acknowledged(batch)
            if turn % 4 == 0:
                self.ledger.delete_begins(items[0])
                self.db.delete(DOMAIN, items[0])
                self.ledger.delete_acknowledged(items[0])
        except CUT:
            self.is_up.wait()
        except ApiError as error:
            self.expect(error, "ServiceUnavailable")

    def count(self, number, turn):
        try:
            [(_, seen)] = self.db.get(DOMAIN, "counter")
            new = {"value": f"{int(seen) + 1:09}"}
        except CUT:
            self.is_up.wait()
            return
        try:
            self.db.put(DOMAIN, "counter", new, replace=True, expected={"Name": "value", "Value": seen})
            with self.lock:
                self.won += 1
        except CUT:
            with self.lock:
                self.cut += 1
            self.is_up.wait()
        except ApiError as error:
            self.expect(error, "ConditionalCheckFailed", "ServiceUnavailable")

    def expect(self, error, *codes):
        """A server that stops may still refuse."""
        if error.code not in codes:
            raise error

    def end(self):
        self.ends.set()
        self.is_up.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures


def there(db):
    found = {}
    for name, pairs in db.select_all(f"select * from {DOMAIN} where batch is not null limit 2500"):
        assert [name for name, _ in pairs] == ["batch", "n", "n"], (name, pairs)
        found[name] = pairs[0][1]
    return found


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_killed_server_keeps_every_promise(make_server, capsys):
    with capsys.disabled():
        print(f"crash: CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS} repeats it")
    rng = random.Random(SEED)
    server = make_server(durability="fsync", test=False)
    db = SimpleDb(server.endpoint)
    db.create(DOMAIN)
    db.put(DOMAIN, "counter", {"value": "000000000"})
    writers = Writers(db)
    try:
        for number in range(ROUNDS):
            time.sleep(rng.uniform(0.05, 0.7))  # The moment of the crash is the test's own random.
            writers.is_up.clear()
            server.kill()
            if number % 3 == 2:
                server.spawn()
                time.sleep(rng.uniform(0, 0.05))  # In the middle of the start.
                server.kill()
            server.start()
            assert not writers.failures, writers.failures
            writers.is_up.set()
    finally:
        writers.end()

    for _ in range(2):
        found = there(db)
        assert writers.ledger.faults(found) == []
        [(_, value)] = db.get(DOMAIN, "counter")
        assert writers.won <= int(value) <= writers.won + writers.cut
        figures = db.metadata(DOMAIN)
        assert figures["ItemCount"] == db.count(DOMAIN) == len(found) + 1
        assert figures["AttributeValueCount"] == 3 * len(found) + 1
        assert figures["AttributeNameCount"] == 3
        server.restart("kill")
    assert len(writers.ledger.acknowledged) > ROUNDS
    assert writers.won > ROUNDS
