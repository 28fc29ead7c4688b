"""What the crash tests share: the load that goes on through all crashes, and how it is judged."""

import time

from crash.clients import Connection, Load, Outages, consume, drain, is_empty, produce, produce_fifo
from crash.ledger import FifoLedger, QueueLedger

LARGE_BYTES = 200_000


class CrashedLoad:
    """Clients of a standard and a FIFO queue. Calls are cut by crashes, and by nothing else. One of
    three producers sends bodies large enough to fill segments."""

    def __init__(self, server):
        self.server = server
        admin = Connection(server.port)
        fifo_attributes = {"FifoQueue": "true"}
        plain_url = admin.call("CreateQueue", QueueName="plain")["QueueUrl"]
        fifo_url = admin.call("CreateQueue", QueueName="f.fifo", Attributes=fifo_attributes)["QueueUrl"]
        plain, fifo = QueueLedger(), FifoLedger()
        self.ledgers = {plain_url: plain, fifo_url: fifo}

        self.load = Load(server.port, Outages())
        for n in range(3):
            self.load.run(produce, plain_url, plain, f"p{n}", 0 if n else LARGE_BYTES)
        for n in range(2):
            self.load.run(produce_fifo, fifo_url, fifo, f"p{n}")
            self.load.run(consume, plain_url, plain)
            self.load.run(consume, fifo_url, fifo)

    def crash_again_and_again(self, rounds, crash, rng):
        """`crash` ends the server; `rng` says when. One of five starts is cut short, too."""
        for n in range(rounds):
            time.sleep(rng.uniform(0.05, 0.9))  # The moment of the crash is the test's own random.
            self.load.outages.begins()
            self.crash(crash)
            if n % 5 == 4:
                self.server.spawn()
                time.sleep(rng.uniform(0, 0.05))  # In the middle of the start.
                self.crash(crash)
            self.server.start()
            self.load.outages.ends()
            assert not self.load.failures, self.load.failures

    def crash(self, crash):
        crash()
        for ledger in self.ledgers.values():
            ledger.server_restarts()

    def end(self):
        self.load.end()

    def check(self, say, least):
        """Drains both queues and lets the ledgers judge. At least so many were acknowledged."""
        for url, ledger in self.ledgers.items():
            drained = drain(Connection(self.server.port), url, ledger)
            ledger.check_drained(drained)
            say(
                f"{url.rpartition('/')[2]}: {len(ledger.acknowledged)} acknowledged, "
                f"{ledger.receives} received, {len(ledger.deleted_at)} deleted, "
                f"{len(drained)} left at the end, {len(ledger.errors)} errors"
            )
            assert ledger.errors == []
            assert len(ledger.acknowledged) > least
        say(f"the journal has come to segment {last_segment(self.server)}")

    def check_empty(self):
        """After one more crash: the last deletes, too, are there to stay."""
        for url in self.ledgers:
            assert is_empty(Connection(self.server.port), url)


def last_segment(server) -> int:
    return max(int(file.stem, 16) for file in (server.data / "journal").glob("*.seg"))
