"""`millrace backup` of a server under load; a ledger of ids tells what each copy must hold.

- What was acknowledged before the command began, and not deleted, is there, each message once.
- What was deleted before, with an acknowledged delete, is not.
- A batch is there whole or not at all; FIFO groups are in order.
- A second server opens the copy while the first goes on, whose clients notice nothing.
"""

import collections
import subprocess

import pytest

from crash.clients import Connection, produce
from crash.ledger import QueueLedger
from crash.rig import CrashedLoad, last_segment
from support.server import Server, binary
from support.waiting import eventually

BACKUPS = 3


class Copy:
    """A backup, what was known before and after it was taken, and what a server finds in it."""

    def __init__(self, server, directory, ledgers):
        self.directory = directory
        self.before = {url: known(ledger) for url, ledger in ledgers.items()}
        command = [binary(), "backup", directory, "--endpoint", server.endpoint]
        subprocess.run(command, check=True, timeout=60, capture_output=True)
        self.after = {url: known(ledger) for url, ledger in ledgers.items()}
        self.found = {}

    def open(self):
        server = Server(self.directory.parent / f"{self.directory.name}-server", durability="fsync", test=False)
        server.data = self.directory
        server.start()
        try:
            for url in self.before:
                self.found[url] = drain(Connection(server.port), url.rpartition("/")[2])
        finally:
            server.close()

    def check(self, url, ledger):
        keys = [ledger.key(body) for body in self.found[url]]
        found = set(keys)
        before, after = self.before[url], self.after[url]
        assert len(keys) == len(found), [key for key, n in collections.Counter(keys).items() if n > 1]
        assert before.acknowledged - after.deleting - found == set(), "acknowledged before, and lost"
        assert found <= after.sending, "never sent"
        assert found.isdisjoint(before.deleted), "deleted before, and there again"
        for batch in after.batches:
            if not found.isdisjoint(batch):
                assert batch <= found | after.deleting, "half of a batch"
        return len(found)


Known = collections.namedtuple("Known", "acknowledged sending deleting deleted batches")


def known(ledger):
    with ledger.lock:
        batches = collections.defaultdict(set)
        for key in ledger.sending:
            if key.count("-") == 2:
                batches[key.rpartition("-")[0]].add(key)
        return Known(
            set(ledger.acknowledged),
            set(ledger.sending),
            set(ledger.deleting),
            set(ledger.deleted_at),
            list(batches.values()),
        )


def drain(connection, name):
    """All bodies of a queue, once its messages can be received, in the order in which they come."""
    url = connection.call("GetQueueUrl", QueueName=name)["QueueUrl"]
    bodies = []
    while True:
        # Longer than the time for which the load has hidden messages from others.
        answer = connection.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2)
        messages = answer.get("Messages", [])
        if not messages:
            return bodies
        bodies += [message["Body"] for message in messages]
        entries = [{"Id": f"id{m}", "ReceiptHandle": x["ReceiptHandle"]} for m, x in enumerate(messages)]
        deleted = connection.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)
        assert "Failed" not in deleted, deleted


def check_order(bodies):
    numbers = collections.defaultdict(list)
    for body in bodies:
        group, number, _ = body.split(":")
        numbers[group].append(int(number))
    for group, found in numbers.items():
        assert found == sorted(found), group


@pytest.mark.timeout(180)
def test_backups_under_load_hold_what_was_acknowledged_before_each_message_once(make_server, tmp_path, capsys):
    server = make_server(durability="fsync", test=False)
    load = CrashedLoad(server)
    # Of which nothing is taken.
    kept = Connection(server.port).call("CreateQueue", QueueName="kept")["QueueUrl"]
    load.ledgers[kept] = QueueLedger()
    for n in range(2):
        load.load.run(produce, kept, load.ledgers[kept], f"kept{n}")
    copies = []
    try:
        for n in range(BACKUPS):
            # Segments come and, as consumers delete, go.
            begun = last_segment(server)
            eventually(lambda: last_segment(server) >= begun + 2, "two segments", timeout_s=40)
            assert not load.load.failures, load.load.failures
            copies.append(Copy(server, tmp_path / f"copy{n}", load.ledgers))
    finally:
        load.end()

    for copy in copies:
        copy.open()
        counts = {url.rpartition("/")[2]: copy.check(url, ledger) for url, ledger in load.ledgers.items()}
        assert counts["kept"] >= len(copy.before[kept].acknowledged) > 100
        check_order(next(bodies for url, bodies in copy.found.items() if url.endswith(".fifo")))
        with capsys.disabled():
            print(f"backup: {counts} messages")
