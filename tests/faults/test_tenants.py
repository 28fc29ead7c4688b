"""One account with a good key keeps another from nothing, whatever it sends."""

import json
import threading
import time

import pytest

from faults.rig import connect, read_response, rss_mb
from faults.test_strangers import KEYS, MIB, ONE, TWO, call
from support.sigv4 import Signer
from support.wire import JSON_TYPE, request

MEMORY = 256 * MIB
CONFIG = KEYS + f"[limits]\nmemory_bytes = {MEMORY}\n"
CLOUDWATCH = "GraniteServiceVersion20100801"


ONE_CLOUDWATCH = Signer("AKIDONE", "secret-one", service="monitoring")


def signed(server, target, body, signer) -> bytes:
    """A whole request, signed."""
    body = json.dumps(body)
    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": target}
    names = signer.headers("POST", f"{server.endpoint}/", headers, body)
    lines = "".join(f"{name}: {value}\r\n" for name, value in names.items() if name.lower() != "host")
    host = server.endpoint.removeprefix("http://")
    return f"POST / HTTP/1.1\r\nHost: {host}\r\n{lines}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class Beside:
    """Threads that do something again and again until the block ends."""

    def __init__(self, count, action):
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(action,)) for _ in range(count)]

    def run(self, action):
        while not self.is_over.is_set():
            try:
                action(self.is_over)
            except OSError:
                pass  # Cut off, for others.

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def test_an_account_whose_bodies_come_slowly_makes_room_for_others(make_server):
    server = make_server(config=CONFIG, test=False)
    for signer in (ONE, TWO):
        assert call(server, "CreateQueue", {"QueueName": "q"}, signer) == 200
    big = {"QueueUrl": "q", "MessageBody": "x" * 900_000}
    whole = signed(server, "AmazonSQS.SendMessage", big, ONE)
    first = signed(server, "AmazonSQS.ListQueues", {}, ONE)

    def dribble(is_over):
        with connect(server) as connection:
            connection.sendall(first)
            with connection.makefile("rb") as stream:
                read_response(stream)
            for at in range(0, len(whole) - 1000, 20_000):
                connection.sendall(whole[at : min(at + 20_000, len(whole) - 1000)])
                if is_over.wait(0.02):
                    return
            while not is_over.wait(0.1):
                connection.sendall(b"x")

    with Beside(30, dribble):
        time.sleep(1)  # They have filled what there is.
        statuses = [call(server, "SendMessage", big, TWO) for _ in range(50)]

    assert statuses == [200] * 50


def test_expressions_of_one_account_hold_little_memory_and_delay_no_other(make_server, say):
    server = make_server(config=CONFIG, test=False)

    def cloudwatch(action, body) -> int:
        target = f"{CLOUDWATCH}.{action}"
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": target}
        text = json.dumps(body)
        headers = ONE_CLOUDWATCH.headers("POST", f"{server.endpoint}/", headers, text)
        return request(server.endpoint, "POST", "/", text, headers).status

    for name in range(20):
        data = [
            {"MetricName": f"m{name}", "Value": 1, "Dimensions": [{"Name": f"D{k}", "Value": f"{n}-{k}"} for k in range(5)]}
            for n in range(200)
        ]
        assert cloudwatch("PutMetricData", {"Namespace": "N", "MetricData": data}) == 200
    now = int(time.time())
    span = {"StartTime": now - 10_800, "EndTime": now + 60}
    searches = [{"Id": f"s{n}", "Expression": "SEARCH('N', 'Sum', 60)"} for n in range(450)]
    sums = [{"Id": f"e{n}", "Expression": "+".join(["1"] * 1020)} for n in range(500)]
    kinds = [
        signed(server, f"{CLOUDWATCH}.GetMetricData", span | {"MetricDataQueries": queries}, ONE_CLOUDWATCH)
        for queries in (searches, sums)
    ]

    def leave(is_over):
        for whole in kinds:
            with connect(server) as connection:
                connection.sendall(whole)
            is_over.wait(0.05)

    def wait(_):
        with connect(server, timeout=30) as connection, connection.makefile("rb") as stream:
            connection.sendall(kinds[0])
            read_response(stream)

    highest_mb, slowest_s, statuses = rss_mb(server), 0.0, []
    with Beside(2, leave), Beside(20, wait):
        for _ in range(40):
            began = time.monotonic()
            statuses.append(call(server, "ListQueues", {}, TWO))
            slowest_s = max(slowest_s, time.monotonic() - began)
            highest_mb = max(highest_mb, rss_mb(server))
            time.sleep(0.05)

    say(f"{highest_mb:.0f} MB at most, the slowest call of the other account took {slowest_s:.2f} s")
    assert statuses == [200] * 40
    assert highest_mb < (MEMORY + 64 * MIB) / 1e6
    assert slowest_s < 2


@pytest.mark.parametrize("who", ["strangers", "polls of another account"])
def test_all_connections_are_taken_and_an_account_gets_one(make_server, who):
    server = make_server(args=["--max-connections", "100"], config=KEYS, test=False)
    for signer in (ONE, TWO):
        assert call(server, "CreateQueue", {"QueueName": "q"}, signer) == 200
    poll = signed(server, "AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 20}, ONE)

    held = [connect(server) for _ in range(150)]
    if who != "strangers":
        for connection in held:
            try:
                connection.sendall(poll)
            except OSError:
                pass  # Refused, or cut off for another.
        time.sleep(0.5)  # They are let in, or not.
    statuses = [call(server, "ListQueues", {}, TWO) for _ in range(5)]

    assert statuses == [200] * 5
    for connection in held:
        connection.close()
