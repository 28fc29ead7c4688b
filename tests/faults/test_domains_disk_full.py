"""Domains of SimpleDB on a disk that fills up: changes are refused, reads go on, and it heals without
a restart when space returns.

The disk is a tmpfs of this test's own, so this needs root and the right to mount.
"""

import os

import pytest

from faults.test_disk_full import DISK_MB, REFUSAL, disk  # noqa: F401
from support.server import Server
from support.simpledb import SimpleDb
from support.waiting import eventually
from support.wire import ApiError, JsonApi

VALUE = "x" * 1000


@pytest.fixture
def server(disk, tmp_path):  # noqa: F811
    server = Server(tmp_path / "server", durability="fsync")
    server.data = disk / "data"
    server.start()
    yield server
    server.close()


def put(db, n) -> bool:
    """Whether the batch was stored; any refusal but the one expected is an error."""
    try:
        db.batch_put("domain", [(f"{n}-{m}", {f"a{k}": f"{n} {VALUE}" for k in range(8)}) for m in range(25)])
    except ApiError as refused:
        assert (refused.status, refused.code) == REFUSAL, refused
        return False
    return True


def test_a_disk_without_room_for_the_database_refuses_changes_until_there_is_room(server, disk):  # noqa: F811
    db = SimpleDb(server.endpoint)
    db.create("domain")
    filler = disk / "filler"
    with filler.open("wb") as file:
        # What the journal has is its own; 8 MiB are left for the database.
        space = os.statvfs(disk)
        file.write(bytes(space.f_bavail * space.f_frsize - (8 << 20)))

    stored = []
    refused = 0
    for n in range(400):
        if put(db, n):
            stored.append(n)
        else:
            refused += 1
            if refused == 5:
                break
    assert refused == 5, "the disk never fills"
    assert db.count("domain") == 25 * len(stored) > 0
    assert db.metadata("domain")["ItemCount"] == 25 * len(stored)

    filler.unlink()
    eventually(lambda: put(db, 1000), "room again", timeout_s=20)
    stored.append(1000)
    for n in range(1001, 1010):
        assert put(db, n)
        stored.append(n)
    assert db.count("domain") == 25 * len(stored)
    server.restart("kill")
    assert db.count("domain") == 25 * len(stored) == db.metadata("domain")["ItemCount"]


def test_a_full_journal_refuses_changes_until_there_is_room(server, disk):  # noqa: F811
    db, api = SimpleDb(server.endpoint), JsonApi(server.endpoint)
    db.create("domain")
    url = api.call("CreateQueue", QueueName="full")["QueueUrl"]
    refused = 0
    body = "x" * (256 << 10)
    for _ in range(8 * DISK_MB):
        try:
            api.call("SendMessage", QueueUrl=url, MessageBody=body)
        except ApiError:
            refused += 1
            if refused == 5:
                break
    assert refused == 5, "the disk never fills"

    stored = [n for n in range(100) if put(db, n)]
    assert len(stored) < 100, "changes are taken from a full journal"
    api.call("PurgeQueue", QueueUrl=url)
    eventually(lambda: put(db, 5000), "room again", timeout_s=30)
    stored.append(5000)
    assert db.count("domain") == 25 * len(stored)


def test_a_start_on_a_disk_without_any_room_serves_queues_and_keeps_domains(server, disk):  # noqa: F811
    db, api = SimpleDb(server.endpoint), JsonApi(server.endpoint)
    db.create("domain")
    assert put(db, 1)
    url = api.call("CreateQueue", QueueName="kept")["QueueUrl"]
    api.call("SendMessage", QueueUrl=url, MessageBody="m")
    filler = disk / "filler"
    # A clean end removes what the database needs to be opened.
    server.stop()
    with filler.open("wb") as file:
        space = os.statvfs(disk)
        file.write(bytes(space.f_bavail * space.f_frsize))

    server.start()
    assert api.call("ReceiveMessage", QueueUrl=url)["Messages"][0]["Body"] == "m"
    with pytest.raises(ApiError):
        db.count("domain")

    server.kill()
    filler.unlink()
    server.start()
    assert db.count("domain") == 25
    assert put(db, 2)
