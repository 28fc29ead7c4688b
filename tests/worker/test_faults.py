"""Workers that are killed, cut off from the server, or throttled: no message is acknowledged without
success, and none is lost. The ledger is a file to which a command writes the body when it succeeds."""

import contextlib
import json
import os
import random
import time

import pytest

from support.fake import FakeService
from support.server import Server
from support.waiting import eventually
from worker.rig import Partition, Work, lines, throttling

SCALE = int(os.environ.get("WORKER_SCALE", "1"))
SEED = int(os.environ.get("WORKER_SEED", random.randrange(2**32)))

# Bodies that end in 7 fail at first. The success is noted last.
COMMAND = """
id=$(cat)
case "$id" in *7) [ "$MILLRACE_RECEIVE_COUNT" -gt 1 ] || exit 1;; esac
sleep 0.0$((MILLRACE_RECEIVE_COUNT % 5))
echo "$id" >> ledger
"""


@pytest.fixture
def rng(capsys):
    with capsys.disabled():
        print(f"\nworker: WORKER_SEED={SEED}")
    return random.Random(SEED)


def bodies(count):
    return [f"id-{number:05}" for number in range(count)]


def work_off_the_rest(work, url, counts):
    """What was hidden by workers that are gone comes back after its visibility timeout."""

    def is_empty():
        assert work(url, "--exec", COMMAND, "--until-empty", "--backoff", "0").wait() == 0
        return counts(url) == (0, 0, 0)

    eventually(is_empty, timeout_s=40)


def check_ledger(tmp_path, sent):
    done = set(lines(tmp_path / "ledger"))
    lost = set(sent) - done
    assert not lost, f"deleted without success: {sorted(lost)[:10]} and {len(lost)} in all"
    assert done <= set(sent)


@pytest.mark.timeout(60 + 60 * SCALE)
def test_killed_workers_lose_nothing(queue, work, send, counts, tmp_path, rng):
    url = queue()
    sent = bodies(800 * SCALE)
    send(url, sent)
    flags = ["--exec", COMMAND, "--visibility-timeout", "2s", "--backoff", "0", "--concurrency", "8"]

    for _ in range(8 * SCALE):
        before = len(lines(tmp_path / "ledger"))
        workers = [work(url, *flags) for _ in range(2)]
        eventually(lambda: len(lines(tmp_path / "ledger")) > before)
        time.sleep(rng.uniform(0, 0.1))  # The moment of the kill is the test's own random.
        for worker in workers:
            worker.kill()
        if counts(url)[0] < 100:
            break
    # In flight are at least those whose commands were killed.
    assert counts(url) != (0, 0, 0), "the kills hit nothing"
    work_off_the_rest(work, url, counts)

    check_ledger(tmp_path, sent)


def test_worker_cut_off_from_the_server_loses_nothing(
    server, queue, work, send, counts, tmp_path, rng
):
    url = queue()
    sent = bodies(200)
    send(url, sent)
    network = Partition(server.port)
    slow = "sleep 1;" + COMMAND
    flags = ["--visibility-timeout", "2s", "--backoff", "0", "--concurrency", "40", "--wait", "1s"]
    worker = work(url, "--exec", slow, *flags, endpoint=network.endpoint)
    eventually(lambda: lines(tmp_path / "ledger"))

    network.cut()
    eventually(lambda: "lease lost" in worker.text())
    # Another worker, on the right side of the network, takes over what was in hand.
    other = work(url, "--exec", COMMAND, "--until-empty", "--backoff", "0")
    other.wait()
    network.heal()
    eventually(lambda: counts(url) == (0, 0, 0), timeout_s=30)
    worker.signal()
    assert worker.wait() == 0
    network.close()

    check_ledger(tmp_path, sent)


def test_throttled_worker_loses_nothing(server, queue, work, send, counts, tmp_path, rng):
    url = queue()
    sent = bodies(100)
    send(url, sent)
    proxy = throttling(server.port, rng, 0.3)
    flags = ["--visibility-timeout", "2s", "--backoff", "0", "--wait", "1s"]
    worker = work(url, "--exec", COMMAND, *flags, endpoint=proxy.url)

    eventually(lambda: counts(url) == (0, 0, 0), timeout_s=40)
    worker.signal()
    assert worker.wait() == 0
    proxy.close()

    check_ledger(tmp_path, sent)


def test_restarted_server_loses_nothing(make_server, work, tmp_path, rng):
    import boto3
    from botocore.config import Config

    own: Server = make_server(durability="fsync", test=False)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    patient = Config(retries={"total_max_attempts": 8})
    sqs = boto3.client(
        "sqs", endpoint_url=own.endpoint, region_name="us-east-1", config=patient, **keys
    )
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sent = bodies(210)
    flags = ["--visibility-timeout", "2s", "--backoff", "0", "--wait", "1s"]
    worker = work(url, "--exec", COMMAND, *flags, endpoint=own.endpoint)

    for part in (sent[:70], sent[70:140], sent[140:]):
        count = len(lines(tmp_path / "ledger"))
        for body in part:
            sqs.send_message(QueueUrl=url, MessageBody=body)
        eventually(lambda: len(lines(tmp_path / "ledger")) > count)
        own.kill()
        own.start()

    names = [f"ApproximateNumberOfMessages{suffix}" for suffix in ("", "NotVisible", "Delayed")]

    def is_empty():
        got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return all(value == "0" for value in got.values())

    eventually(is_empty, timeout_s=40)
    worker.signal()
    assert worker.wait() == 0

    check_ledger(tmp_path, sent)


def test_a_servers_refusal_forges_no_line_of_the_log(tmp_path):
    class Hostile(FakeService):
        def take(self, method, target, headers, body):
            error = {"__type": "AccessDeniedException", "message": "no\nERROR forged \x1b[2J"}
            return 403, "application/x-amz-json-1.0", json.dumps(error).encode()

    with contextlib.closing(Hostile()) as hostile:
        url = f"{hostile.endpoint}/000000000000/q"
        worker = Work(tmp_path, hostile.endpoint, url, "--exec", "true", "--until-empty")
        assert worker.wait() == 1

    said = worker.text()
    assert r"no\nERROR forged \u{1b}[2J" in said
    assert not any(line.startswith("ERROR forged") for line in said.splitlines())
    assert "\x1b" not in said
