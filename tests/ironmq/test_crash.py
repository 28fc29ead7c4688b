"""The server is killed under the load of three interfaces on one queue: IronMQ in version 3 and 1, and SQS. What
each of them posted, reserved and deleted is in one ledger, which says what must hold:

- What was acknowledged is there, by whomever it was sent, and what was deleted never returns.
- A post that was cut is there whole or not at all.

`CRASH_ROUNDS` (6) and `CRASH_SEED` (random, printed) choose how often and when.
"""

import itertools
import json
import os
import random
import time

import pytest

from crash.clients import Connection, Load, Outages, consume, drain, is_empty, produce
from crash.ledger import QueueLedger
from support.ironmq import Iron, Queue

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "6"))
SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
PROJECT = "000000000000"  # The account of SQS clients without credentials.
HEADERS = {"Authorization": "OAuth token", "Content-Type": "application/json"}


def send(connection, method, version, path, body=None):
    """Status and answer of a call on the queue, or None if nobody knows whether it happened."""
    path = f"/{version}/projects/{PROJECT}/queues/shared{path}"
    answer = connection.send(path, method, path, body and json.dumps(body), HEADERS)
    return answer and (answer[0], json.loads(answer[1]))


def post(connection, ledger, name, version):
    """One message and batches in turn, as `crash.clients.produce` for SQS."""
    for n in itertools.count():
        bodies = [f"{name}-{n}-{m}" for m in range(1 if n % 4 else 30)]
        ledger.send_begins(bodies)
        answer = send(connection, "POST", version, "/messages", {"messages": [{"body": body} for body in bodies]})
        if answer is not None:
            assert answer[0] == (201 if version == 3 else 200), answer
            ledger.send_acknowledged(bodies)
        yield answer


def reserve(connection, version):
    if version == 1:
        return send(connection, "GET", 1, "/messages?n=30&timeout=1&wait=1")
    return send(connection, "POST", 3, "/reservations", {"n": 30, "timeout": 1, "wait": 1})


def reserve_and_delete(connection, ledger, version):
    """Deletes what it reserved at once; every tenth batch is left to come again."""
    for n in itertools.count():
        asked_at = time.monotonic()
        answer = reserve(connection, version)
        if answer is None:
            yield None
            continue
        assert answer[0] == 200, answer
        messages = answer[1]["messages"]
        bodies = [message["body"] for message in messages]
        ledger.received(bodies, asked_at)
        if messages and n % 10:
            ids = [
                {"id": m["id"], "reservation_id": m["reservation_id"]} if version == 3 else m["id"] for m in messages
            ]
            ledger.delete_begins(bodies)
            answer = send(connection, "DELETE", version, "/messages", {"ids": ids})
            if answer is None:
                ledger.delete_cut(bodies)
            elif answer[0] == 200:
                ledger.delete_acknowledged(bodies)
            else:
                # Another client has one of them, or has deleted it: all are left.
                assert answer[0] in (403, 404), answer
                ledger.delete_refused(bodies)
        yield answer


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_killed_server_keeps_the_promises_of_all_interfaces(make_server, capsys):
    with capsys.disabled():
        print(f"crash: CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS} repeats it")
    rng = random.Random(SEED)
    server = make_server(durability="fsync", test=False)
    url = Connection(server.port).call("CreateQueue", QueueName="shared")["QueueUrl"]
    ledger = QueueLedger()
    load = Load(server.port, Outages())
    load.run(produce, url, ledger, "sqs")
    load.run(consume, url, ledger)
    for version in (3, 1):
        load.run(post, ledger, f"iron{version}", version)
        load.run(reserve_and_delete, ledger, version)
    try:
        for number in range(ROUNDS):
            time.sleep(rng.uniform(0.05, 0.7))  # The moment of the crash is the test's own random.
            load.outages.begins()
            server.kill()
            if number % 3 == 2:
                server.spawn()
                time.sleep(rng.uniform(0, 0.05))  # In the middle of the start.
                server.kill()
            ledger.server_restarts()
            server.start()
            load.outages.ends()
            assert not load.failures, load.failures
    finally:
        load.end()

    drained = drain(Connection(server.port), url, ledger)
    ledger.check_drained(drained)
    assert ledger.errors == []
    assert len(ledger.acknowledged) > ROUNDS and len(ledger.deleted_at) > ROUNDS
    server.restart("kill")
    assert is_empty(Connection(server.port), url)
    assert Queue(Iron(server.endpoint, PROJECT), "shared").size() == 0
