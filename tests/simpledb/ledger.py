"""What the writers of the crash test know. The ledger is told before and after each write, so that
one cut off by a crash counts as "may have been made". Every method takes the lock."""

import threading


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.open_batches = {}  # Batches without an answer, and their items.
        self.acknowledged = {}
        self.deleting = set()
        self.deleted = set()

    def batch_begins(self, batch: str, items: list[str]):
        with self.lock:
            self.open_batches[batch] = items

    def batch_acknowledged(self, batch: str):
        with self.lock:
            self.acknowledged[batch] = self.open_batches.pop(batch)

    def delete_begins(self, item: str):
        with self.lock:
            self.deleting.add(item)

    def delete_acknowledged(self, item: str):
        with self.lock:
            self.deleting.discard(item)
            self.deleted.add(item)

    def faults(self, there: dict) -> list[str]:
        """What is wrong with the items that are there: `there` has the batch that each names."""
        known = self.acknowledged | self.open_batches
        faults = [f"{item} was never put" for item in there if item not in known.get(there[item], [])]
        faults += [f"{item} was deleted" for item in self.deleted if item in there]
        gone = self.deleting | self.deleted
        for batch, items in known.items():
            missing = [item for item in items if item not in there and item not in gone]
            is_whole_or_absent = not missing or (batch in self.open_batches and len(missing) == len(items))
            if not is_whole_or_absent:
                faults.append(f"of batch {batch}, {missing} are missing of {items}")
        return faults
