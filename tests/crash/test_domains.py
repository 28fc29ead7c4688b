"""Domains of SimpleDB and `kill -9`, lost and foreign files, and backups under load.

- A batch that was acknowledged is there, whole; one that was cut is there whole or not at all.
- Of two writers whose conditions exclude each other, one succeeds.
- The figures of a domain are those of what Select finds.

`CRASH_ROUNDS` (8 here) and `CRASH_SEED` (random, printed) choose how often and when.
"""

import os
import random
import shutil
import subprocess
import threading
import time

import pytest

from support.server import Server, binary
from support.simpledb import SimpleDb
from support.waiting import eventually
from support.wire import ApiError

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "8"))
SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
BATCH = 10
WRITERS = 3


class Writers:
    """Put batches of new items, and count up by conditional puts, through all crashes."""

    def __init__(self, server):
        self.db = SimpleDb(server.endpoint)
        self.db.create("load")
        self.db.put("load", "counter", {"n": "0"})
        self.acknowledged = set()
        self.begun = set()
        self.counted = []
        self.failures = []
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(self.batches, n)) for n in range(WRITERS)]
        self.threads += [threading.Thread(target=self.run, args=(self.count, n)) for n in range(2)]
        for thread in self.threads:
            thread.start()

    def run(self, work, number):
        step = 0
        while not self.ended.is_set():
            try:
                work(number, step)
            except OSError:
                self.ended.wait(0.01)  # The server is down.
            except ApiError as refused:
                # While it starts or ends.
                if refused.status != 503:
                    self.failures.append(refused)
                    return
            except Exception as failure:  # Shown by the test; a thread cannot raise.
                self.failures.append(failure)
                return
            step += 1

    def batches(self, number, step):
        name = f"{number}-{step}"
        self.begun.add(name)
        items = [(f"{name}-{n}", {"batch": name, "n": str(n), "text": "x" * 200}) for n in range(BATCH)]
        self.db.batch_put("load", items)
        self.acknowledged.add(name)

    def count(self, number, step):
        ((_, value),) = self.db.get("load", "counter", "n")
        try:
            expected = {"Name": "n", "Value": value}
            self.db.put("load", "counter", {"n": str(int(value) + 1)}, replace=True, expected=expected)
        except ApiError as refused:
            if refused.code != "ConditionalCheckFailed":
                raise
            return
        self.counted.append(int(value))

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures

    def check(self, db, acknowledged, begun=None):
        """Returns how many batches are there."""
        found = {}
        items = db.select_all("select batch from load limit 2500")
        for name, attributes in items:
            found.setdefault(dict(attributes)["batch"], []).append(name)
        assert acknowledged <= found.keys(), "acknowledged, and lost"
        assert found.keys() <= (begun or self.begun), "never put"
        halves = {batch: names for batch, names in found.items() if len(names) != BATCH}
        assert not halves, halves
        figures = db.metadata("load")
        # And the counter, which is in no batch.
        assert figures["ItemCount"] == len(items) + 1 == BATCH * len(found) + 1
        assert figures["AttributeValueCount"] == 3 * BATCH * len(found) + 1
        assert figures["AttributeNameCount"] == (3 if found else 1)
        return len(found)


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_killed_server_keeps_all_puts_that_it_acknowledged(make_server, capsys):
    rng = random.Random(SEED)
    server = make_server(durability="fsync", test=False)
    writers = Writers(server)
    try:
        for n in range(ROUNDS):
            time.sleep(rng.uniform(0.05, 0.7))  # The moment of the crash is the test's own random.
            server.kill()
            if n % 4 == 3:
                # The database goes with the crash: the journal has all of it.
                shutil.rmtree(server.data / "tables")
            server.start()
    finally:
        writers.end()

    batches = writers.check(writers.db, writers.acknowledged)
    assert len(writers.counted) == len(set(writers.counted)), "two puts with the same condition"
    ((_, value),) = writers.db.get("load", "counter", "n")
    assert int(value) > max(writers.counted)
    server.restart("kill")
    assert writers.check(writers.db, writers.acknowledged) == batches > ROUNDS
    with capsys.disabled():
        print(f"domains: seed {SEED}, {batches} batches, counted to {value}")


@pytest.mark.timeout(180)
def test_backups_under_load_hold_domains_and_journal_of_one_time(make_server, tmp_path):
    server = make_server(durability="fsync", test=False)
    writers = Writers(server)
    copies = []
    try:
        for n in range(3):
            goal = len(writers.acknowledged) + 30
            eventually(lambda: len(writers.acknowledged) >= goal, "batches", timeout_s=30)
            before = set(writers.acknowledged)
            directory = tmp_path / f"copy{n}"
            command = [binary(), "backup", directory, "--endpoint", server.endpoint]
            subprocess.run(command, check=True, timeout=60, capture_output=True)
            copies.append((directory, before))
    finally:
        writers.end()

    assert not list((server.data / "tables").glob("copy-*"))
    for directory, before in copies:
        copy = Server(tmp_path / f"{directory.name}-server", durability="fsync", test=False)
        copy.data = directory
        copy.start()
        try:
            db = SimpleDb(copy.endpoint)
            assert writers.check(db, before) < len(writers.begun)
            db.put("load", "new", {"batch": "new"})
            copy.restart("kill")
            assert db.get("load", "new") == [("batch", "new")]
        finally:
            copy.close()


class Stopped:
    """A server that was stopped after these puts."""

    def __init__(self, make_server, *items):
        self.server = make_server(durability="fsync", test=False)
        self.db = SimpleDb(self.server.endpoint)
        self.db.create("domain")
        self.put(*items)
        self.server.stop()
        self.tables = self.server.data / "tables"

    def put(self, *items):
        for item in items:
            self.db.put("domain", item, {"a": "1"})

    def refusal(self) -> str:
        self.server.spawn()
        assert self.server.process.wait(20) == 1
        text = self.server.log_tail()
        assert "docs/troubleshooting.md" in text
        return text

    def items(self) -> list[str]:
        self.server.start()
        names = self.db.select("select itemName() from domain").names
        self.server.stop()
        return names

    def accept(self):
        command = [binary(), "journal", "accept-domains", "--data", self.server.data]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("damage", [b"no database", b"\xff" * 30_000])
def test_damaged_database_is_made_again_from_the_journal(make_server, damage):
    stopped = Stopped(make_server, "i", "j")
    with (stopped.tables / "tables.db").open("r+b") as file:
        file.write(damage)

    assert stopped.items() == ["i", "j"]
    assert "made again from the journal" in stopped.server.log.read_text()
    assert (stopped.tables / "tables.db.replaced-1").read_bytes().startswith(damage)


def test_journal_and_database_of_different_backups_are_refused_with_a_way_out(make_server, tmp_path):
    stopped = Stopped(make_server, "i")
    older = tmp_path / "older"
    shutil.copytree(stopped.server.data, older)
    stopped.server.start()
    stopped.put("j")
    stopped.server.stop()

    # The journal of an older backup: by one put.
    shutil.rmtree(stopped.server.data / "journal")
    shutil.copytree(older / "journal", stopped.server.data / "journal")
    assert "ahead of the journal" in stopped.refusal()
    assert "as they are" in stopped.accept()
    assert stopped.items() == ["i", "j"]

    # No journal at all.
    shutil.rmtree(stopped.server.data / "journal")
    assert "belongs to another journal" in stopped.refusal()
    stopped.accept()
    assert stopped.items() == ["i", "j"]

    # The database is lost, and was not made by this journal alone.
    shutil.rmtree(stopped.tables)
    assert "does not hold all that made it" in stopped.refusal()
    assert "without domains" in stopped.accept()
    stopped.server.start()
    assert stopped.db.domains() == ([], None)
    stopped.db.create("domain")
    stopped.put("new")
    stopped.server.restart("kill")
    assert stopped.db.select("select * from domain").names == ["new"]
