"""`millrace backup`: what it refuses, and what ends it in the middle."""

import contextlib
import os
import signal
import socket
import stat
import subprocess

import pytest

from support.process import running
from support.server import Server, binary
from support.waiting import eventually
from support.wire import JsonApi

BODY = "~" * (256 * 1024)
# Fill more than a segment, and more than is on its way between a server and a client.
MESSAGES = 300


@pytest.fixture
def full(make_server):
    """A server with a queue that takes more than one segment."""
    server = make_server(durability="os")
    api = JsonApi(server.endpoint)
    url = api.call("CreateQueue", QueueName="full")["QueueUrl"]
    for _ in range(MESSAGES):
        api.call("SendMessage", QueueUrl=url, MessageBody=BODY)
    return server


@contextlib.contextmanager
def stalled(server):
    """A client that asks for a backup and takes its beginning only."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"POST /_millrace/backup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        yield client


def stopped(server, directory):
    """A backup that is stopped while it writes the first segment."""
    backup = running([binary(), "backup", directory, "--endpoint", server.endpoint], stderr=subprocess.PIPE)

    @contextlib.contextmanager
    def begun():
        with backup as process:
            first = directory / "journal" / "00000001.seg"
            eventually(first.exists, "the first segment", pause_s=0.0005)
            process.send_signal(signal.SIGSTOP)
            assert (directory / "unfinished-backup").exists()
            yield process

    return begun()


def held(server):
    """Files that the server has open, and that have lost their names."""
    links = []
    for descriptor in os.scandir(f"/proc/{server.process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(descriptor))
    return [link for link in links if link.endswith(".seg (deleted)")]


def test_copy_is_for_its_owner_alone_and_a_server_opens_it(make_server, millrace, tmp_path):
    server, copy = make_server(durability="fsync", test=False), tmp_path / "copy"
    millrace("queue", "create", "jobs", endpoint=server.endpoint)
    millrace("send", "jobs", "first", endpoint=server.endpoint)
    copy.mkdir(mode=0o700)

    told = millrace("backup", str(copy), endpoint=server.endpoint).stderr
    millrace("send", "jobs", "second", endpoint=server.endpoint)

    assert "checked" in told
    assert sorted(path.name for path in copy.iterdir()) == ["journal", "metrics", "tables"]
    for path in copy.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert millrace("journal", "check", "--data", str(copy)).stdout.endswith("sound\n")
    with contextlib.closing(Server(tmp_path / "other")) as other:
        other.data = copy
        other.start()
        assert millrace("peek", "jobs", endpoint=other.endpoint).stdout == "first\n"
    assert millrace("peek", "jobs", endpoint=server.endpoint).stdout == "first\nsecond\n"


def test_directory_that_holds_anything_is_left_as_it_is(millrace, tmp_path):
    (tmp_path / "mine").write_text("mine")

    refused = millrace("backup", str(tmp_path), expect=2)

    assert "is not empty" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_server_without_files_or_none_at_all_leaves_no_directory(make_server, millrace, tmp_path):
    memory = make_server(durability="memory")
    for endpoint, reason in [
        (memory.endpoint, "keeps its data in memory"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
    ]:
        refused = millrace("backup", str(tmp_path / "copy"), endpoint=endpoint, expect=1)

        assert reason in refused.stderr
        assert not (tmp_path / "copy").exists()


def test_keys_of_other_accounts_take_no_backup(make_server, millrace, tmp_path):
    own = {"AWS_ACCESS_KEY_ID": "OWN", "AWS_SECRET_ACCESS_KEY": "own secret"}
    other = {"AWS_ACCESS_KEY_ID": "OTHER", "AWS_SECRET_ACCESS_KEY": "other secret"}
    config = """
        [[credentials]]
        access_key = "OWN"
        secret_key = "own secret"
        [[credentials]]
        access_key = "OTHER"
        secret_key = "other secret"
        account = "111111111111"
    """
    server, copy = make_server(config=config), str(tmp_path / "copy")

    unsigned = millrace("backup", copy, endpoint=server.endpoint, expect=1)
    denied = millrace("backup", copy, endpoint=server.endpoint, environment=other, expect=1)
    millrace("backup", copy, endpoint=server.endpoint, environment=own)

    assert "not authorised" in unsigned.stderr
    assert "AccessDenied" in denied.stderr and "own account" in denied.stderr


def test_two_backups_are_taken_at_once_and_a_third_is_refused(full, millrace, tmp_path):
    commands = [[binary(), "backup", tmp_path / f"copy{n}", "--endpoint", full.endpoint] for n in range(2)]
    with running(commands[0]) as first, running(commands[1]) as second:
        assert (first.wait(30), second.wait(30)) == (0, 0)
    for n in range(2):
        assert millrace("journal", "check", "--data", str(tmp_path / f"copy{n}")).stdout.endswith("sound\n")

    with stalled(full), stalled(full):
        refused = millrace("backup", str(tmp_path / "third"), endpoint=full.endpoint, expect=1)
    assert "2 backups are being taken already" in refused.stderr
    assert not (tmp_path / "third").exists()

    def succeeds():
        command = [binary(), "backup", tmp_path / "third", "--endpoint", full.endpoint]
        return subprocess.run(command, capture_output=True).returncode == 0

    eventually(succeeds, "a turn, once the two clients have left")


def test_client_that_leaves_gives_back_what_was_removed_meanwhile(full, millrace):
    first = full.data / "journal" / "00000001.seg"
    with stalled(full):
        millrace("queue", "purge", "full", "--yes", endpoint=full.endpoint)
        eventually(lambda: not first.exists(), "the removal of the first segment", timeout_s=60)
        assert held(full) != []

    eventually(lambda: held(full) == [], "files that are let go")
    eventually(lambda: "the client has left" in full.log.read_text(), "the server's word of it")


def test_server_that_is_killed_leaves_no_half_of_a_copy(full, tmp_path):
    copy = tmp_path / "copy"
    with stopped(full, copy) as backup:
        full.kill()
        backup.send_signal(signal.SIGCONT)
        told = backup.stderr.read().decode()
        assert backup.wait(30) == 1

    assert "receiving the backup" in told
    assert not copy.exists()
    full.start()


def test_backup_that_is_killed_is_known_as_unfinished(full, millrace, tmp_path):
    copy = tmp_path / "copy"
    with stopped(full, copy) as backup:
        backup.kill()
        backup.wait()

    for command in (["serve", "--listen", "127.0.0.1:0", "--console-listen", "off", "--data"], ["backup"]):
        refused = millrace(*command, str(copy), endpoint=full.endpoint, expect=1)
        assert "a backup that was not finished" in refused.stderr
    assert (copy / "unfinished-backup").exists()
    eventually(lambda: "backup ended early" in full.log.read_text(), "the server's word of it")


def test_backup_that_is_interrupted_removes_what_it_has_written(full, tmp_path):
    copy = tmp_path / "copy"
    with stopped(full, copy) as backup:
        backup.send_signal(signal.SIGINT)
        backup.send_signal(signal.SIGCONT)
        told = backup.stderr.read().decode()
        assert backup.wait(30) == 1

    assert "SIGINT: ended" in told
    assert not copy.exists()


def test_disk_that_is_full_ends_a_backup_and_nothing_else(full, millrace, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()

    failed = millrace("backup", str(copy), endpoint=full.endpoint, file_bytes=1 << 20, expect=1)

    assert "00000001.seg: File too large" in failed.stderr
    assert list(copy.iterdir()) == []
    millrace("backup", str(copy), endpoint=full.endpoint)
