"""What the console costs with 10,000 queues, 200 of which are used:

    PYTHONPATH=tests tests/.venv-current/bin/python tests/console/many_queues.py

Prints times of pages, bytes and CPU of viewers, and memory. Not a test: the machine should be quiet."""

import argparse
import concurrent.futures
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from support.server import Server, free_port

SORTS = ["available", "in_flight", "delayed", "oldest", "sent", "deleted", "name", "created"]
WINDOW_S = 10
SENDS_PER_SECOND = 400


class Client:
    """One connection."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path: str) -> bytes:
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status)
        return body

    def call(self, action: str, **members) -> dict:
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
        self.connection.request("POST", "/", json.dumps(members), headers)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return json.loads(body or "{}")


class Process:
    """CPU and memory of the server."""

    def __init__(self, pid: int):
        self.path = Path("/proc") / str(pid)

    def cpu_ms(self) -> float:
        fields = (self.path / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        [line] = [line for line in (self.path / "status").read_text().splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024


class Viewer(threading.Thread):
    """Holds a stream of events and counts its bytes."""

    def __init__(self, port: int, query: str):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request("GET", f"/events?{query}")
        self.answer = self.connection.getresponse()
        self.bytes = 0
        self.events = 0
        self.is_closed = False
        self.start()

    def run(self):
        try:
            while not self.is_closed and (data := self.answer.read1(1 << 20)):
                self.bytes += len(data)
                self.events += data.count(b"\nid: ")
        except (OSError, ValueError, AttributeError):
            pass

    def close(self):
        self.is_closed = True
        # The thread sees the end with the next event.
        self.join(5)
        self.connection.close()


def load(port: int, used: int, stop: threading.Event):
    """Sends, and now and then receives and deletes, evenly over the used queues."""
    client, number, began = Client(port), 0, time.monotonic()
    while not stop.is_set():
        queue = f"queue-{number % used * 7:05}"
        client.call("SendMessage", QueueUrl=queue, MessageBody="x" * 100)
        if number % 10 == 0:
            for message in client.call("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", []):
                client.call("DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        number += 1
        ahead_s = number / SENDS_PER_SECOND - (time.monotonic() - began)
        if ahead_s > 0:
            time.sleep(ahead_s)


def times_ms(what, count=7, apart_s=0.0) -> float:
    times = []
    for _ in range(count):
        time.sleep(apart_s)
        began = time.perf_counter()
        what()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--used", type=int, default=200)
    options = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory), console=f"127.0.0.1:{port}", test=False).start()
        try:
            measure(server, port, options)
        finally:
            server.close()


def measure(server, port, options):
    process = Process(server.process.pid)
    print(f"memory without queues          {process.rss_mb():8.1f} MB")

    def create(numbers):
        client = Client(server.port)
        for number in numbers:
            client.call("CreateQueue", QueueName=f"queue-{number:05}")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(create, [range(first, options.queues, 8) for first in range(8)]))
    print(f"memory with {options.queues:6} queues      {process.rss_mb():8.1f} MB")
    stop = threading.Event()
    loading = threading.Thread(target=load, args=(server.port, options.used, stop))
    loading.start()
    time.sleep(2)

    console = Client(port)
    page = console.get("/queues")
    apart = {"apart_s": 1.0}  # So that each finds the last sample old.
    print(f"the queues page                {times_ms(lambda: console.get('/queues'), **apart):8.1f} ms, {len(page)} bytes")
    print(f"… again within the second      {times_ms(lambda: console.get('/queues')):8.1f} ms")
    for sort in SORTS:
        path = f"/api/snapshot?view=queues&sort={sort}"
        print(f"sorted by {sort:20} {times_ms(lambda path=path: console.get(path), count=5, **apart):8.1f} ms")
    path = "/api/snapshot?view=queues&filter=queue-099"
    print(f"filtered                       {times_ms(lambda: console.get(path), count=5, **apart):8.1f} ms")

    def cpu_with(name, queries):
        viewers = [Viewer(port, query) for query in queries]
        time.sleep(2)
        before, sent = process.cpu_ms(), [viewer.bytes for viewer in viewers]
        time.sleep(WINDOW_S)
        cpu = (process.cpu_ms() - before) / WINDOW_S
        rate = [(viewer.bytes - before) / WINDOW_S for viewer, before in zip(viewers, sent, strict=True)]
        each = f", {statistics.mean(rate) / 1024:6.1f} KiB/s each" if rate else ""
        memory = process.rss_mb()
        for viewer in viewers:
            viewer.close()
        print(f"{name:30} {cpu:8.1f} ms CPU/s{each}, {memory:.1f} MB")

    queues = "view=queues&sort=available"
    cpu_with("no viewer", [])
    cpu_with("1 viewer of the overview", ["view=overview"])
    cpu_with("1 viewer of the queues", [queues])
    cpu_with("10 viewers of the same page", [queues] * 10)
    cpu_with("10 viewers of different pages", [f"{queues}&page={page}" for page in range(1, 11)])
    cpu_with("10 viewers, by rate", [f"view=queues&sort=sent&page={page}" for page in range(1, 11)])
    cpu_with("100 viewers of the same page", [queues] * 100)
    cpu_with("no viewer again", [])
    stop.set()
    loading.join()


if __name__ == "__main__":
    main()
