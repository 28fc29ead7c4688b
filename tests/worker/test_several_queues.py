"""Several queues on shared slots."""

from worker.rig import eventually, lines

ALWAYS = ["--until-empty", "--backoff", "1h"]


def test_all_queues_are_worked_off(queue, work, send, tmp_path, counts):
    first, second = queue(), queue()
    send(first, [f"a{n}" for n in range(20)])
    send(second, [f"b{n}" for n in range(20)])
    command = 'echo "$(cat) $MILLRACE_QUEUE_URL" >> runs'

    assert work(first, "--queue", f"{second}=3", "--exec", command, *ALWAYS).wait() == 0

    expected = [f"a{n} {first}" for n in range(20)] + [f"b{n} {second}" for n in range(20)]
    assert sorted(lines(tmp_path / "runs")) == sorted(expected)
    assert counts(first) == counts(second) == (0, 0, 0)


def test_strict_priority_follows_the_order_of_the_queues(queue, work, send, tmp_path, counts):
    low, high = queue(), queue()
    send(low, ["gate"] + ["low"] * 8)
    # The first command waits until the higher queue has something to do.
    command = 'body=$(cat); while [ $body = gate ] && [ ! -e open ]; do sleep 0.02; done; echo $body >> runs'
    flags = ["--strict-priority", "--concurrency", "1", "--exec", command, "--max-messages", "9"]
    worker = work(high, "--queue", low, *flags, "--wait", "1s")
    eventually(lambda: counts(low)[1] == 1)

    send(high, ["high"] * 9)
    eventually(lambda: counts(high)[1] == 1)
    (tmp_path / "open").touch()

    assert worker.wait() == 0
    runs = lines(tmp_path / "runs")
    assert sorted(runs) == sorted(["gate"] + ["high"] * 9 + ["low"] * 8)
    last_high = len(runs) - 1 - runs[::-1].index("high")
    assert runs[:2] == ["gate", "high"]
    # A receive that takes several times as long as those before lets a lower one through; in turns,
    # all eight would be through.
    assert runs[:last_high].count("low") <= 4, runs


def test_series_tell_the_queues_apart(queue, work, send, free_http):
    first, second = queue(), queue()
    send(first, ["a"])
    send(second, ["b", "b"])
    worker = work(first, "--queue", second, "--exec", "true", "--wait", "1s", *free_http.flags)

    for url, count in [(first, 1), (second, 2)]:
        name = url.rpartition("/")[2]
        wanted = f'millrace_worker_messages_total{{queue="{name}",result="succeeded"}} {count}'
        eventually(lambda wanted=wanted: wanted in free_http.get("/metrics")[1])
    assert free_http.get("/metrics")[1].count("# TYPE millrace_worker_messages counter") == 1
    worker.signal()
    assert worker.wait() == 0


def test_weights_and_strict_priority_exclude_each_other(queue, work):
    first, second = queue(), queue()

    worker = work(first, "--queue", f"{second}=3", "--strict-priority", "--exec", "true")

    assert worker.wait() == 2
    assert "order" in worker.text()
