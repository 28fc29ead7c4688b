"""A disk with a write cache that is lost when the power goes: `disk.py IMAGE DIRECTORY`.

Serves `DIRECTORY/disk` through FUSE, for a loop device to make a disk of it. A number on standard
input is the seed of a power cut within the next few writes: of what was written since the last
flush any sectors may be missing, and from then on all calls fail. The image holds what is left.
"""

import errno
import os
import random
import stat
import sys
import threading

import mfusepy

NAME = "/disk"
SECTOR_BYTES = 512
MOST_WRITES_BEFORE_CUT = 8
# If nobody writes any more.
CUT_AFTER_S = 0.05


class Disk(mfusepy.Operations):
    use_ns = True

    def __init__(self, image):
        self.file = os.open(image, os.O_RDWR)
        self.mutex = threading.Lock()
        self.unflushed = []  # What was written, where, and what was there before; in order.
        self.writes_left = None  # Until the power goes.
        self.has_power = True
        self.lost = threading.Event()

    def lose_power(self, seed):
        """Returns when it is gone, and says what that did."""
        rng = random.Random(seed)
        with self.mutex:
            self.writes_left = rng.randint(0, MOST_WRITES_BEFORE_CUT)
        self.lost.wait(CUT_AFTER_S)
        with self.mutex:
            self.has_power = False
            chance = rng.choice([0, 1, rng.random(), rng.random()])
            for offset, _, before in reversed(self.unflushed):
                os.pwrite(self.file, before, offset)
            sectors = [
                (offset + at, written[at : at + SECTOR_BYTES])
                for offset, written, _ in self.unflushed
                for at in range(0, len(written), SECTOR_BYTES)
            ]
            kept = [sector for sector in sectors if rng.random() < chance]
            for offset, data in kept:
                os.pwrite(self.file, data, offset)
            return f"{len(self.unflushed)} writes in the cache, {len(kept)} of their {len(sectors)} sectors kept"

    def check_power(self):
        if not self.has_power:
            raise mfusepy.FuseOSError(errno.EIO)

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
        if path != NAME:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": os.fstat(self.file).st_size}

    def read(self, path, size, offset, fh):
        with self.mutex:
            self.check_power()
            return os.pread(self.file, size, offset)

    def write(self, path, data, offset, fh):
        with self.mutex:
            self.check_power()
            self.unflushed.append((offset, data, os.pread(self.file, len(data), offset)))
            os.pwrite(self.file, data, offset)
            if self.writes_left is not None:
                self.writes_left -= 1
                if self.writes_left < 0:
                    self.has_power = False
                    self.lost.set()
            return len(data)

    def fsync(self, path, datasync, fh):
        with self.mutex:
            self.check_power()
            self.unflushed.clear()


def main(image, directory):
    disk = Disk(image)

    def obey():
        for line in sys.stdin:
            print(disk.lose_power(int(line)), flush=True)

    threading.Thread(target=obey, daemon=True).start()
    mfusepy.FUSE(disk, directory, foreground=True, nothreads=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
