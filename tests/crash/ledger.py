"""What the clients of a crash test know: what was acknowledged, received, deleted.

A message is identified by the key of its body. The ledger is told before and after each call, so
that a call cut off by a crash counts as "may have happened". Clients are threads; every method
takes the lock.
"""

import threading
import time


class QueueLedger:
    def __init__(self):
        self.lock = threading.Lock()
        self.sending = set()  # Sent, answer not seen yet: may or may not be there.
        self.acknowledged = set()
        self.deleting = set()  # Delete sent, whatever became of it.
        self.deleted_at = {}  # Delete acknowledged, and when.
        self.receives = 0
        self.errors = []

    @staticmethod
    def key(body: str) -> str:
        return body

    def send_begins(self, bodies):
        with self.lock:
            self.sending.update(map(self.key, bodies))

    def send_acknowledged(self, bodies):
        with self.lock:
            self.acknowledged.update(map(self.key, bodies))

    def received(self, bodies, asked_at):
        """`asked_at`: `time.monotonic()` before the receive was sent."""
        with self.lock:
            self.receives += len(bodies)
            for body in bodies:
                key = self.key(body)
                if key not in self.sending:
                    self.errors.append(f"{body} was never sent")
                if self.deleted_at.get(key, asked_at) < asked_at:
                    self.errors.append(f"{body} came back after its delete was acknowledged")
            self.check_order(bodies)

    def check_order(self, bodies):
        pass

    def delete_begins(self, bodies):
        with self.lock:
            self.deleting.update(map(self.key, bodies))

    def delete_acknowledged(self, bodies):
        with self.lock:
            now = time.monotonic()
            for body in bodies:
                self.deleted_at.setdefault(self.key(body), now)

    def check_drained(self, drained: list):
        """`drained`: all that came out at the end. What was acknowledged and never sent a delete
        for has to be among it."""
        found = {self.key(body) for body in drained}
        lost = self.acknowledged - self.deleting - found
        self.errors += [f"{key} was acknowledged and is lost" for key in sorted(lost)]


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
            while f"{group}:{low}" in self.deleting and f"{group}:{low}" not in in_answer:
                low += 1
            self.lowest[group] = low
            for earlier in range(low, int(number)):
                earlier = f"{group}:{earlier}"
                if earlier not in in_answer and earlier not in self.deleting:
                    self.errors.append(f"{body} came before {earlier}")
            in_answer.add(key)
            later = [
                k for k in in_answer if k.startswith(f"{group}:") and int(k.rpartition(":")[2]) > int(number)
            ]
            self.errors += [f"{body} came behind {k} in one answer" for k in later]
