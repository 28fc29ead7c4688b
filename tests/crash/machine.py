"""A file system on a disk that may lose its power at any moment: the kernel's own, on `disk.py`."""

import os
import subprocess
import sys
import time
from pathlib import Path

DISK_BYTES = 1 << 30
START_TIMEOUT_S = 20


class Missing(Exception):
    """The machine that the test runs on cannot do this."""


class Machine:
    """As a context, it is on; in the end nothing is left of it."""

    def __init__(self, directory: Path, file_system: str):
        self.file_system = file_system
        self.image = directory / "image"
        self.exported = directory / "exported"
        self.mounted = directory / "mounted"
        self.disk = self.device = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise Missing("needs root for loop devices and mounts")
        for directory in (self.exported, self.mounted):
            directory.mkdir()
        with self.image.open("wb") as image:
            image.truncate(DISK_BYTES)
        needed(f"mkfs.{self.file_system}", "-q", self.image)
        try:
            self.power_on()
        except BaseException:
            self.clear_away()
            raise
        return self

    def __exit__(self, *_):
        self.clear_away()

    def power_on(self):
        command = [sys.executable, Path(__file__).with_name("disk.py"), self.image, self.exported]
        self.disk = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self.exported / "disk").exists():
            if self.disk.poll() is not None:
                raise Missing("FUSE does not work")
            assert time.monotonic() < deadline, "the disk does not come up"
            time.sleep(0.005)
        self.device = needed("losetup", "--find", "--show", "--direct-io=on", self.exported / "disk")
        needed("mount", "-t", self.file_system, self.device, self.mounted)

    def lose_power(self, seed: int) -> str:
        """Within the next few writes. Says what was lost."""
        print(seed, file=self.disk.stdin, flush=True)
        return self.disk.stdout.readline().strip()

    def restore_power(self):
        """Nobody may use the file system any more; to be mounted, it has to recover."""
        run("umount", self.mounted)
        run("losetup", "--detach", self.device)
        run("umount", self.exported)
        self.disk.communicate(timeout=START_TIMEOUT_S)
        self.power_on()

    def clear_away(self):
        """Whatever state it is in."""
        if self.disk is not None:
            self.disk.kill()
            self.disk.communicate()
        for directory in (self.mounted, self.exported):
            subprocess.run(["umount", "--lazy", directory], capture_output=True)
        if self.device is not None:
            subprocess.run(["losetup", "--detach", self.device], capture_output=True)
        self.image.unlink()


def run(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def needed(*command) -> str:
    """What not every machine can do."""
    try:
        return run(*command)
    except FileNotFoundError as absent:
        raise Missing(f"{command[0]} is not installed") from absent
    except subprocess.CalledProcessError as failed:
        raise Missing(f"{command[0]}: {failed.stderr.strip()}") from failed
