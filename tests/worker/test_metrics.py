"""`--metrics-listen`: counters, health, readiness."""

import socket
import time

from faults.rig import rss_mb
from faults.test_strangers import hold, open_streams
from support.waiting import eventually



def test_metrics_are_served(queue, work, send, free_http):
    url = queue()
    send(url, ["a", "b"])
    worker = work(url, "--exec", "true", "--wait", "1s", *free_http.flags)

    labels = f'queue="{url.rpartition("/")[2]}"'
    wanted = f'millrace_worker_messages_total{{{labels},result="succeeded"}} 2'
    eventually(lambda: wanted in free_http.get("/metrics")[1])
    status, text = free_http.get("/metrics")
    assert status == 200
    assert f"millrace_worker_received_messages_total{{{labels}}} 2" in text
    assert f"millrace_worker_handler_seconds_count{{{labels}}} 2" in text
    assert text.endswith("# EOF\n")
    assert (free_http.get("/health")[0], free_http.get("/ready")[0]) == (200, 200)
    worker.signal()
    assert worker.wait() == 0


def test_half_a_request_does_not_hold_up_the_end(queue, work, free_http):
    worker = work(queue(), "--exec", "true", "--wait", "1s", *free_http.flags)
    eventually(lambda: free_http.get("/health")[0] == 200)

    with socket.create_connection(("127.0.0.1", free_http.port)) as half:
        half.sendall(b"GET /metr")
        # An answer on another connection: the worker has read what came before.
        assert free_http.get("/health")[0] == 200
        asked = time.monotonic()
        worker.signal()
        assert worker.wait() == 0

    # A server's own drain is 20 s.
    assert time.monotonic() - asked < 15


def test_strangers_hold_little_memory(queue, work, free_http):
    worker = work(queue(), "--exec", "true", "--wait", "1s", *free_http.flags)
    eventually(lambda: free_http.get("/health")[0] == 200)
    before_mb, statuses, highest_mb = rss_mb(worker), [], []

    def look():
        statuses.append(free_http.get("/metrics")[0])
        highest_mb.append(rss_mb(worker))

    held = hold(free_http.port, 300, open_streams(256), look)
    held += hold(free_http.port, 300, b"POST / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 60_000, look)
    look()

    assert set(statuses) == {200}
    assert max(highest_mb) - before_mb < 80
    for connection in held:
        connection.close()
