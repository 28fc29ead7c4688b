"""Several queues on shared slots."""

import boto3

from support.waiting import eventually
from worker.rig import lines

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


def test_strict_priority_follows_the_order_of_the_queues(queue, work, send, tmp_path, counts, free_http):
    low, high = queue(), queue()
    begun = tmp_path / "begun"
    # Each command tells that it has begun, and ends when it is told to.
    command = "body=$(cat); echo $body >> begun; while [ ! -e end-$body ]; do sleep 0.02; done"
    flags = ["--strict-priority", "--concurrency", "9", "--exec", command, "--wait", "1s"]
    worker = work(high, "--queue", low, *flags, *free_http.flags)
    send(low, ["gate"] * 9)
    eventually(lambda: lines(begun) == ["gate"] * 9)

    send(low, ["low"] * 9)
    send(high, ["high"] * 9)
    # They are in hand before there is a slot for them.
    waiting = f'millrace_worker_messages_waiting{{queue="{high.rpartition("/")[2]}"}} 9'
    eventually(lambda: waiting in free_http.get("/metrics")[1])
    (tmp_path / "end-gate").touch()
    eventually(lambda: len(lines(begun)) == 18)
    of_high = lines(begun)[9:]
    (tmp_path / "end-high").touch()
    (tmp_path / "end-low").touch()
    eventually(lambda: len(lines(begun)) == 27)

    assert of_high == ["high"] * 9
    worker.signal()
    assert worker.wait() == 0
    assert counts(low) == counts(high) == (0, 0, 0)


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


def test_queues_of_one_name_are_counted_apart(server, queue, work, send):
    url = queue()
    keys = {"aws_access_key_id": "111111111111", "aws_secret_access_key": "any"}
    foreign = boto3.client("sqs", endpoint_url=server.endpoint, region_name="us-east-1", **keys)
    other = foreign.create_queue(QueueName=url.rpartition("/")[2])["QueueUrl"]
    assert other != url
    for each in (url, other):
        send(each, ["a", "b"])

    worker = work(url, "--queue", other, "--exec", "true", *ALWAYS)

    assert worker.wait() == 0
    assert "received=4 succeeded=4" in worker.text()


def test_a_queue_cannot_be_named_twice(queue, work):
    url = queue()

    worker = work(url, "--queue", url, "--exec", "true", *ALWAYS)

    assert worker.wait() == 2
    assert "named twice" in worker.text()


def test_weights_and_strict_priority_exclude_each_other(queue, work):
    first, second = queue(), queue()

    worker = work(first, "--queue", f"{second}=3", "--strict-priority", "--exec", "true")

    assert worker.wait() == 2
    assert "order" in worker.text()
