"""What the clients of a crash test know: what was acknowledged, received, deleted.

A message is identified by the key of its body. The ledger is told before and after each call, so
that a call cut off by a crash counts as "may have happened". Clients are threads; every method
takes the lock.
"""

import collections
import threading
import time
import zlib

FILLER = "~"  # What follows it in a body tells nothing, but has to come back as it was sent.


class QueueLedger:
    def __init__(self):
        self.lock = threading.Lock()
        self.sending = set()  # Sent, answer not seen yet: may or may not be there.
        self.acknowledged = set()
        self.open_batches = {}  # Their bodies' keys, of those without an answer, by the first.
        self.seen = set()  # Received, at whatever time.
        self.survivors = set()  # Received after a restart that came behind the beginning of their send.
        self.begun_at = {}  # Sends without an answer, and when they began.
        self.last_accepted_at = 0.0  # When the latest began that was acknowledged.
        self.checksums = {}  # Of bodies with a filler.
        self.deletes = collections.Counter()  # Sent, and neither acknowledged nor refused.
        self.cut_at = {}  # Of those, the ones whose connection was cut, and when.
        self.deleted_at = {}  # Delete acknowledged, and when.
        self.restarted_at = 0.0
        self.receives = 0
        self.errors = []

    @staticmethod
    def key(body: str) -> str:
        return name(body)

    @property
    def deleting(self) -> set:
        """Keys that are gone, or may be."""
        return self.deletes.keys() | self.deleted_at.keys()

    def is_deleting(self, key) -> bool:
        return key in self.deletes or key in self.deleted_at

    def send_begins(self, bodies):
        """`bodies`: those of one request. What it holds is accepted together or not at all."""
        with self.lock:
            if len(bodies) > 1:
                self.open_batches[self.key(bodies[0])] = list(map(self.key, bodies))
            self.sending.update(map(self.key, bodies))
            self.begun_at.update(dict.fromkeys(map(name, bodies), time.monotonic()))
            self.checksums.update((self.key(body), checksum(body)) for body in bodies if FILLER in body)

    def send_acknowledged(self, bodies):
        with self.lock:
            self.open_batches.pop(self.key(bodies[0]), None)
            self.acknowledged.update(map(self.key, bodies))
            begun_at = [self.begun_at.pop(name(body)) for body in bodies]
            self.last_accepted_at = max([self.last_accepted_at, *begun_at])

    def received(self, bodies, asked_at):
        """`asked_at`: `time.monotonic()` before the receive was sent."""
        with self.lock:
            self.receives += len(bodies)
            for body in bodies:
                key = self.key(body)
                self.seen.add(key)
                if self.begun_at.get(name(body), asked_at) < self.restarted_at < asked_at:
                    self.survivors.add(key)
                if key not in self.sending:
                    self.errors.append(f"{key} was never sent")
                if key in self.checksums and self.checksums[key] != checksum(body):
                    self.errors.append(f"{key} came with another body")
                if self.deleted_at.get(key, asked_at) < asked_at:
                    self.errors.append(f"{key} came back after its delete was acknowledged")
                if asked_at > self.restarted_at:
                    self.forget_cut_deletes(key)
            self.check_order(bodies)

    def forget_cut_deletes(self, key):
        """What came again after a restart was not deleted by a call that was cut before it, and no
        longer can be."""
        cut_at = self.cut_at.pop(key, [])
        for _ in [at for at in cut_at if at < self.restarted_at]:
            self.delete_ends(key)
        if later := [at for at in cut_at if at >= self.restarted_at]:
            self.cut_at[key] = later

    def check_order(self, bodies):
        pass

    def delete_begins(self, bodies):
        with self.lock:
            self.deletes.update(map(self.key, bodies))

    def delete_refused(self, bodies):
        """None of these was deleted by this call."""
        with self.lock:
            for body in bodies:
                self.delete_ends(self.key(body))

    def delete_cut(self, bodies):
        """The connection is gone, and nobody knows."""
        with self.lock:
            now = time.monotonic()
            for body in bodies:
                self.cut_at.setdefault(self.key(body), []).append(now)

    def delete_ends(self, key):
        self.deletes[key] -= 1
        if self.deletes[key] <= 0:
            del self.deletes[key]

    def server_restarts(self):
        """To be called while no server runs."""
        with self.lock:
            self.restarted_at = time.monotonic()

    def delete_acknowledged(self, bodies):
        with self.lock:
            now = time.monotonic()
            for body in bodies:
                self.deleted_at.setdefault(self.key(body), now)
                self.delete_ends(self.key(body))

    def check_drained(self, drained: list):
        """`drained`: all that came out at the end. What was acknowledged and not deleted,
        and by no delete whose fate is unknown, has to be among it. Of a batch that was cut, all has
        been seen if any of it is durable. What was only received before the crash need not be: others
        receive a message from a standard queue before its send is on disk."""
        found = {self.key(body) for body in drained}
        lost = self.acknowledged - self.deleting - found
        self.errors += [f"{key} was acknowledged and is lost" for key in sorted(lost)]
        seen = self.seen | found
        durable = found | self.survivors | self.deleted_at.keys()
        for batch in self.open_batches.values():
            if durable.intersection(batch) and not seen.issuperset(batch):
                torn = ", ".join(sorted(seen.intersection(batch)))
                self.errors.append(f"only {torn} of the batch {batch[0]} to {batch[-1]} was accepted")


def name(body: str) -> str:
    return body.partition(FILLER)[0]


def checksum(body: str) -> int:
    return zlib.crc32(body.encode())


class FifoLedger(QueueLedger):
    """Adds order within groups, and one acceptance per deduplication id.

    A body is `group:number:attempt`; its key, which is its deduplication id, is `group:number`:
    a send that is tried again after a crash has the same id and, on purpose, another body. A
    producer sends a number only when the number before was acknowledged.
    """

    def __init__(self):
        super().__init__()
        self.body_of = {}  # key → the body that was seen for it
        self.lowest = {}  # group → a number below which a delete was sent for every message

    @staticmethod
    def key(body: str) -> str:
        return body.rpartition(":")[0]

    def check_order(self, bodies):
        """A message may come only behind all earlier ones of its group: each of them is either
        before it in the same answer, or a delete was sent for it."""
        in_answer = set()
        for body in bodies:
            key = self.key(body)
            group, _, number = key.rpartition(":")
            if self.body_of.setdefault(key, body) != body:
                self.errors.append(f"{body} and {self.body_of[key]} share a deduplication id")
            low = self.lowest.get(group, 0)
            while self.is_deleting(f"{group}:{low}") and f"{group}:{low}" not in in_answer:
                low += 1
            self.lowest[group] = low
            for earlier in range(low, int(number)):
                earlier = f"{group}:{earlier}"
                if earlier not in in_answer and not self.is_deleting(earlier):
                    self.errors.append(f"{body} came before {earlier}")
            in_answer.add(key)
            later = [
                k for k in in_answer if k.startswith(f"{group}:") and int(k.rpartition(":")[2]) > int(number)
            ]
            self.errors += [f"{body} came behind {k} in one answer" for k in later]
