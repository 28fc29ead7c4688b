"""A disk that does not answer: requests are told that their outcome is unknown, in time. Once it answers again, what
they asked for is there, and the server has gone on.

The disk is a file system of this test's own that is frozen, so this needs root and loop devices.
"""

import os
import subprocess
import time

import pytest

from faults.rig import Journal
from support.server import Server
from support.skips import lacks
from support.waiting import eventually
from support.wire import ApiError, JsonApi

DISK_MB = 320
COMMIT_WAIT_S = 1
# More than a worker writes itself, so that the thread for commits is what hangs.
LARGE = "a" * 100_000


def needed(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lacks(f"needs a disk that can be frozen: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0:
        lacks("needs root to mount a disk")
    image, directory = tmp_path / "image", tmp_path / "disk"
    directory.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_MB << 20)
    needed("mkfs.ext4", "-q", image)
    needed("mount", "-o", "loop", image, directory)
    yield directory
    subprocess.run(["umount", directory], check=True)


class Frozen:
    """While it is frozen, no write to the disk returns."""

    def __init__(self, disk):
        self.disk = disk

    def __enter__(self):
        needed("fsfreeze", "-f", self.disk)

    def __exit__(self, *_):
        subprocess.run(["fsfreeze", "-u", self.disk], check=True)


@pytest.fixture
def server(disk, tmp_path):
    config = f"[limits]\ncommit_wait_seconds = {COMMIT_WAIT_S}\n"
    server = Server(tmp_path / "server", durability="fsync", config=config)
    server.data = disk / "data"
    server.start()
    yield server
    server.close()


@pytest.mark.timeout(60)
def test_requests_that_wait_for_a_hanging_disk_are_answered_and_nothing_is_lost(server, disk):
    api = JsonApi(server.endpoint)
    url = api.call("CreateQueue", QueueName="q")["QueueUrl"]
    api.call("SendMessage", QueueUrl=url, MessageBody="before")

    with Frozen(disk):
        for body in (LARGE, "behind it"):
            began = time.monotonic()
            with pytest.raises(ApiError) as told:
                api.call("SendMessage", QueueUrl=url, MessageBody=body)
            took_s = time.monotonic() - began
            assert (told.value.status, told.value.code) == (503, "ServiceUnavailable"), body
            assert "outcome is unknown" in str(told.value), body
            assert COMMIT_WAIT_S <= took_s < COMMIT_WAIT_S + 3, body
        assert server.get("/ready")[0] == 503
        assert server.get("/health")[0] == 200

    eventually(lambda: server.get("/ready")[0] == 200, "ready again", 10)
    api.call("SendMessage", QueueUrl=url, MessageBody="after")
    received = []
    for _ in range(4):
        answer = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
        received += [message["Body"] for message in answer.get("Messages", [])]
    assert sorted(received) == sorted(["before", LARGE, "behind it", "after"])
    assert server.stop() == 0, "nothing had failed"
    assert Journal(server).report()["is_sound"]
