"""AWS/SNS: what CloudWatch says about topics agrees with what they did."""

import json

import pytest

from support.sdk import sdk_client

QUEUE = "arn:aws:sqs:us-east-1:000000000000:"


@pytest.fixture
def cloudwatch(new_client):
    return new_client("cloudwatch")


@pytest.fixture
def sns(new_client):
    return new_client("sns")


@pytest.fixture
def topic_points(datapoints):
    """Data points of a topic's metric."""

    def of(topic: str, metric: str, **asked) -> list[dict]:
        return datapoints(metric, Namespace="AWS/SNS", Dimensions=[{"Name": "TopicName", "Value": topic}], **asked)

    return of


@pytest.fixture
def topic_total(topic_points, clock):
    """Sum over all minutes of the last hours of a topic's metric."""

    def of(topic: str, metric: str, statistic="Sum") -> float:
        span = {"StartTime": clock.time(6 * 3600), "EndTime": clock.time(-900)}
        points = topic_points(topic, metric, Statistics=[statistic], **span)
        return sum(point[statistic] for point in points)

    return of


@pytest.fixture
def subscribe(sns, sqs_alone):
    """Subscribes a new queue of that name."""

    def to(topic: str, name: str, **attributes):
        sqs_alone.create_queue(QueueName=name)
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=QUEUE + name, Attributes=attributes)

    return to


@pytest.fixture
def listed(cloudwatch):
    def of(topic: str) -> set[str]:
        dimensions = [{"Name": "TopicName", "Value": topic}]
        found = cloudwatch.list_metrics(Namespace="AWS/SNS", Dimensions=dimensions)
        return {metric["MetricName"] for metric in found["Metrics"]}

    return of


def test_messages_and_notifications_are_counted_also_after_kills(
    alone, clock, sns, sqs_alone, subscribe, topic_total, topic_points, listed
):
    topic = sns.create_topic(Name="news")["TopicArn"]
    subscribe(topic, "a")
    subscribe(topic, "b")
    sqs_alone.create_queue(QueueName="lost")
    subscribe(topic, "gone", RedrivePolicy=json.dumps({"deadLetterTargetArn": QUEUE + "lost"}))
    subscribe(topic, "gone2", RedrivePolicy=json.dumps({"deadLetterTargetArn": QUEUE + "never"}))
    subscribe(topic, "gone3")
    for name in ["gone", "gone2", "gone3"]:
        sqs_alone.delete_queue(QueueUrl=sqs_alone.get_queue_url(QueueName=name)["QueueUrl"])
    assert listed("news") == set()

    for how in ["kill", "stop"]:
        sns.publish(TopicArn=topic, Message="x" * 10)
        batch = [{"Id": str(n), "Message": "x" * (20 + n)} for n in range(2)]
        sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=batch)
        assert topic_total("news", "NumberOfMessagesPublished") == (3 if how == "kill" else 6), "also before its end"
        if how == "kill":
            clock.next_minute()
        alone.restart(how)

    expected = {
        "NumberOfMessagesPublished": 6,
        "NumberOfNotificationsDelivered": 12,
        "NumberOfNotificationsFailed": 18,
        "NumberOfNotificationsRedrivenToDlq": 6,
        "NumberOfNotificationsFailedToRedriveToDlq": 6,
        "PublishSize": 102,
    }
    assert {metric: topic_total("news", metric) for metric in expected} == expected
    assert topic_total("news", "PublishSize", "SampleCount") == 6
    assert topic_total("news", "NumberOfNotificationsFilteredOut") == 0
    clock.next_minute()
    assert listed("news") == set(expected)
    span = {"StartTime": clock.time(3600), "EndTime": clock.time(-60)}
    points = topic_points("news", "PublishSize", Statistics=["Minimum", "Maximum"], **span)
    assert {(point["Minimum"], point["Maximum"], point["Unit"]) for point in points} == {(10, 21, "Bytes")}


def test_notifications_that_filters_prevent_are_counted_by_reason(clock, sns, subscribe, topic_total):
    topic = sns.create_topic(Name="news")["TopicArn"]
    subscribe(topic, "all")
    for number in range(2):
        subscribe(topic, f"attributes{number}", FilterPolicy='{"colour": ["red"]}')
    subscribe(topic, "body", FilterPolicy='{"colour": ["red"]}', FilterPolicyScope="MessageBody")
    text = lambda value, kind="String": {"colour": {"DataType": kind, "StringValue": value}}  # noqa: E731

    sns.publish(TopicArn=topic, Message="no JSON")
    sns.publish(TopicArn=topic, Message='{"colour": "red"}', MessageAttributes=text("blue"))
    sns.publish(TopicArn=topic, Message='{"colour": "blue"}', MessageAttributes=text("red"))
    by_protocol = {"default": '{"colour": "red"}', "sqs": "no JSON"}
    sns.publish(
        TopicArn=topic, Message=json.dumps(by_protocol), MessageStructure="json", MessageAttributes=text("red")
    )

    counted = {
        reason: topic_total("news", "NumberOfNotificationsFilteredOut" + reason)
        for reason in [
            "",
            "-MessageAttributes",
            "-NoMessageAttributes",
            "-InvalidAttributes",
            "-MessageBody",
            "-InvalidMessageBody",
        ]
    }
    assert counted == {
        "": 7,
        "-MessageAttributes": 4,
        "-NoMessageAttributes": 2,
        "-InvalidAttributes": 0,
        "-MessageBody": 3,
        "-InvalidMessageBody": 2,
    }
    assert topic_total("news", "NumberOfNotificationsDelivered") == 9


def test_a_topic_has_metrics_until_six_hours_after_its_last_event(alone, clock, sns, topic_points):
    topic = sns.create_topic(Name="news")["TopicArn"]
    sns.publish(TopicArn=topic, Message="x")
    clock.next_minute()
    # The clock of a restart is the wall's.
    alone.restart("kill")
    for _ in range(10):
        clock.advance(3600)

    span = {"StartTime": clock.time(11 * 3600), "EndTime": clock.time()}
    points = topic_points("news", "NumberOfMessagesPublished", **span)
    assert sum(point["Sum"] for point in points) == 1
    assert 5 * 60 <= len(points) <= 7 * 60 + 2, "zeros follow, after a restart as well"
    assert topic_points("news", "NumberOfNotificationsDelivered", **span) == []


def test_a_deleted_topic_keeps_what_it_counted_apart_from_others(clock, sns, topic_total):
    topic = sns.create_topic(Name="news")["TopicArn"]
    sns.publish(TopicArn=topic, Message="x")
    other = sns.create_topic(Name="other")["TopicArn"]
    sns.publish(TopicArn=other, Message="x")
    sns.delete_topic(TopicArn=topic)
    assert topic_total("news", "NumberOfMessagesPublished") == 1
    sns.publish(TopicArn=sns.create_topic(Name="news")["TopicArn"], Message="x")

    assert topic_total("news", "NumberOfMessagesPublished") == 2
    clock.next_minute()
    assert topic_total("news", "NumberOfMessagesPublished") == 2
    assert topic_total("other", "NumberOfMessagesPublished") == 1


def test_topics_of_other_regions_and_accounts_have_metrics_of_their_own(alone, clock):
    span = {"StartTime": clock.time(600), "EndTime": clock.time(-120), "Period": 60, "Statistics": ["Sum"]}
    dimensions = [{"Name": "TopicName", "Value": "news"}]
    places = [{"region": "us-east-1"}, {"region": "cn-north-1"}, {"access_key": "222222222222"}]
    for messages, place in enumerate(places, 1):
        sns = sdk_client(alone, service="sns", **place)
        topic = sns.create_topic(Name="news")["TopicArn"]
        for _ in range(messages):
            sns.publish(TopicArn=topic, Message="x")

    def published(place):
        asked = {"Namespace": "AWS/SNS", "MetricName": "NumberOfMessagesPublished", "Dimensions": dimensions} | span
        points = sdk_client(alone, service="cloudwatch", **place).get_metric_statistics(**asked)["Datapoints"]
        return sum(point["Sum"] for point in points)

    assert [published(place) for place in places] == [1, 2, 3]
    clock.next_minute()
    assert [published(place) for place in places] == [1, 2, 3]


def test_an_alarm_on_failed_notifications_begins_and_recovers(clock, sns, cloudwatch, subscribe, sqs_alone):
    topic = sns.create_topic(Name="news")["TopicArn"]
    subscribe(topic, "gone")
    sqs_alone.delete_queue(QueueUrl=sqs_alone.get_queue_url(QueueName="gone")["QueueUrl"])
    cloudwatch.put_metric_alarm(
        AlarmName="lost",
        Namespace="AWS/SNS",
        MetricName="NumberOfNotificationsFailed",
        Dimensions=[{"Name": "TopicName", "Value": "news"}],
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )
    state = lambda: cloudwatch.describe_alarms(AlarmNames=["lost"])["MetricAlarms"][0]["StateValue"]  # noqa: E731

    sns.publish(TopicArn=topic, Message="x")
    clock.next_minute()
    assert state() == "ALARM"
    clock.next_minute()
    clock.next_minute()
    assert state() == "OK"
