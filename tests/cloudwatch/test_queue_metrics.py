"""AWS/SQS: what CloudWatch says about queues agrees with what clients counted."""

import concurrent.futures
import random

import pytest

COUNTERS = [
    "NumberOfMessagesSent",
    "NumberOfMessagesReceived",
    "NumberOfMessagesDeleted",
    "NumberOfEmptyReceives",
]


@pytest.fixture
def cloudwatch(new_client):
    return new_client("cloudwatch")


def use(sqs, url, rounds=40):
    """Sends, receives and deletes at random; returns what this client counted."""
    counted = dict.fromkeys(COUNTERS, 0) | {"bytes": 0}
    for _ in range(rounds):
        bodies = ["x" * random.randint(1, 2000) for _ in range(random.randint(1, 10))]
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
        assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == len(bodies)
        counted["NumberOfMessagesSent"] += len(bodies)
        counted["bytes"] += sum(map(len, bodies))
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        counted["NumberOfMessagesReceived"] += len(messages)
        counted["NumberOfEmptyReceives"] += not messages
        entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
        if entries and random.random() < 0.7:
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)
            counted["NumberOfMessagesDeleted"] += len(entries)
    while random.random() < 0.9:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        counted["NumberOfMessagesReceived"] += len(messages)
        counted["NumberOfEmptyReceives"] += not messages
    return counted


def test_sums_over_minutes_equal_what_clients_counted_also_after_kills(alone, clock, sqs_alone, new_client, total):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    expected = dict.fromkeys(COUNTERS, 0) | {"bytes": 0}

    for how in ["kill", "stop", "kill", None]:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [new_client("sqs") for _ in range(4)]
            for counted in pool.map(lambda sqs: use(sqs, url, 10), clients):
                expected = {name: expected[name] + counted[name] for name in expected}
        now = {name: total("jobs", name) for name in COUNTERS} | {"bytes": total("jobs", "SentMessageSize")}
        assert now == expected, "the minute that has not ended counts, too"
        if how == "kill":
            # A minute that has ended is durable. A restart sets the clock back to the wall's.
            clock.next_minute()
        if how:
            alone.restart(how)

    assert total("jobs", "SentMessageSize", "SampleCount") == expected["NumberOfMessagesSent"]
    assert total("jobs", "NumberOfMessagesSent", period=3600) == expected["NumberOfMessagesSent"]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_an_empty_queue_has_metrics_after_a_restart_as_before(alone, clock, sqs_alone, queue_datapoints, how):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    (message,) = sqs_alone.receive_message(QueueUrl=url)["Messages"]
    sqs_alone.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    # Durable, and not long ago for the clock of a restart, which is the wall's.
    clock.next_minute()

    alone.restart(how)
    clock.advance(600)

    asked = {"StartTime": clock.time(480), "EndTime": clock.time(), "Statistics": ["SampleCount"]}
    points = queue_datapoints("jobs", "ApproximateNumberOfMessagesVisible", **asked)
    assert len(points) >= 8
    assert {point["SampleCount"] for point in points} == {1.0}


def test_gauges_show_what_a_queue_holds(clock, sqs_alone, queue_datapoints):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    for _ in range(5):
        sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    sqs_alone.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=900)
    sqs_alone.receive_message(QueueUrl=url, MaxNumberOfMessages=2, VisibilityTimeout=3600)
    clock.advance(180)

    def latest(metric):
        points = queue_datapoints("jobs", metric, Statistics=["Maximum"])
        return max(points, key=lambda point: point["Timestamp"])

    received = 6 - 1 - latest("ApproximateNumberOfMessagesVisible")["Maximum"]
    assert received in (1, 2)
    assert latest("ApproximateNumberOfMessagesNotVisible")["Maximum"] == received
    assert latest("ApproximateNumberOfMessagesDelayed")["Maximum"] == 1
    age = latest("ApproximateAgeOfOldestMessage")
    assert 180 <= age["Maximum"] <= 190 and age["Unit"] == "Seconds"


def test_fifo_and_fair_queues_have_metrics_of_their_own(clock, sqs_alone, cloudwatch, total):
    fifo = sqs_alone.create_queue(
        QueueName="jobs.fifo", Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    )["QueueUrl"]
    for group, body in [("a", "1"), ("a", "1"), ("a", "1"), ("b", "2"), ("c", "3")]:
        sqs_alone.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group)
    sqs_alone.receive_message(QueueUrl=fifo, MaxNumberOfMessages=2)
    fair = sqs_alone.create_queue(QueueName="fair")["QueueUrl"]
    for _ in range(5):
        entries = [{"Id": str(n), "MessageBody": "x", "MessageGroupId": "loud"} for n in range(10)]
        sqs_alone.send_message_batch(QueueUrl=fair, Entries=entries)
    for _ in range(4):
        sqs_alone.receive_message(QueueUrl=fair, MaxNumberOfMessages=10)
    sqs_alone.send_message(QueueUrl=fair, MessageBody="x", MessageGroupId="quiet")

    assert total("jobs.fifo", "NumberOfDeduplicatedSentMessages") == 2
    assert total("jobs.fifo", "NumberOfMessagesSent") == 3
    assert total("jobs.fifo", "ApproximateNumberOfGroupsWithInflightMessages", "Maximum") == 2
    assert total("fair", "ApproximateNumberOfNoisyGroups", "Maximum") == 1
    assert total("fair", "ApproximateNumberOfMessagesVisibleInQuietGroups", "Maximum") == 1
    assert total("fair", "ApproximateNumberOfMessagesVisible", "Maximum") == 11
    clock.next_minute()
    names = cloudwatch.list_metrics(Namespace="AWS/SQS", Dimensions=[{"Name": "QueueName", "Value": "fair"}])
    assert {metric["MetricName"] for metric in names["Metrics"]} == {
        "NumberOfMessagesSent",
        "NumberOfMessagesReceived",
        "SentMessageSize",
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesVisible",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
        "ApproximateNumberOfNoisyGroups",
        "ApproximateNumberOfMessagesVisibleInQuietGroups",
        "ApproximateNumberOfMessagesNotVisibleInQuietGroups",
        "ApproximateNumberOfMessagesDelayedInQuietGroups",
        "ApproximateAgeOfOldestMessageInQuietGroups",
    }


def test_a_deleted_queue_keeps_what_it_counted(clock, sqs_alone, total):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    sqs_alone.delete_queue(QueueUrl=url)
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")

    assert total("jobs", "NumberOfMessagesSent") == 2
    clock.next_minute()
    assert total("jobs", "NumberOfMessagesSent") == 2


def test_a_queue_has_metrics_until_six_hours_after_it_was_last_used(clock, sqs_alone, queue_datapoints):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    sqs_alone.purge_queue(QueueUrl=url)
    for _ in range(10):
        clock.advance(3600)

    span = {"StartTime": clock.time(11 * 3600), "EndTime": clock.time()}
    points = queue_datapoints("jobs", "NumberOfMessagesSent", **span)
    assert sum(point["Sum"] for point in points) == 1
    assert 5 * 60 <= len(points) <= 7 * 60 + 2


def test_a_queue_has_three_gauges_from_its_creation_on_and_no_zeros_before_a_first_event(
    alone, clock, sqs_alone, cloudwatch, queue_datapoints
):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    gauges = {f"ApproximateNumberOfMessages{state}" for state in ["Visible", "NotVisible", "Delayed"]}

    def listed():
        found = cloudwatch.list_metrics(Namespace="AWS/SQS", Dimensions=[{"Name": "QueueName", "Value": "jobs"}])
        return {metric["MetricName"] for metric in found["Metrics"]}

    def values(metric):
        points = queue_datapoints("jobs", metric, Statistics=["Sum"])
        return [point["Sum"] for point in sorted(points, key=lambda point: point["Timestamp"])]

    clock.advance(120)
    assert listed() == gauges
    assert all(values(gauge) == [0.0] * len(values(gauge)) != [] for gauge in gauges)
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    clock.advance(60)
    assert listed() == gauges | {"NumberOfMessagesSent", "SentMessageSize", "ApproximateAgeOfOldestMessage"}
    alone.restart("stop")
    clock.advance(60)
    (message,) = sqs_alone.receive_message(QueueUrl=url)["Messages"]
    clock.advance(60)
    sqs_alone.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    clock.advance(60)

    sent = values("NumberOfMessagesSent")
    assert sent[0] == sum(sent) == 1.0 and len(sent) > 2, "zeros follow, after a restart as well"
    assert values("NumberOfMessagesReceived")[0] == 1.0
    assert values("NumberOfMessagesDeleted")[0] == 1.0
    assert values("NumberOfEmptyReceives") == []
