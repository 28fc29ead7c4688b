"""`--metrics-listen`: counters, health, readiness."""

from worker.rig import eventually


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
