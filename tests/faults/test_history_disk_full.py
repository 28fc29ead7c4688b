"""The history of metrics on a disk that fills up: messages go on, alarms see the minutes that cannot be
written, and these are written once space returns, without a restart.

The disk is a tmpfs of this test's own, so this needs root and the right to mount.
"""

import os
from datetime import timedelta

import pytest

from cloudwatch.conftest import Clock, client
from faults.test_disk_full import disk  # noqa: F401
from support.server import Server

MINUTES = 5
ALARM = {
    "AlarmName": "backlog",
    "Namespace": "AWS/SQS",
    "MetricName": "ApproximateNumberOfMessagesVisible",
    "Dimensions": [{"Name": "QueueName", "Value": "jobs"}],
    "Statistic": "Maximum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 2.0,
    "ComparisonOperator": "GreaterThanThreshold",
}


@pytest.fixture
def server(disk, tmp_path):  # noqa: F811
    server = Server(tmp_path / "server", durability="fsync")
    server.data = disk / "data"
    server.start()
    yield server
    server.close()


def fill(disk):  # noqa: F811
    """Takes all space that is left, but for what the journal has already."""
    space = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        file.write(bytes(space.f_bavail * space.f_frsize))
    return disk / "filler"


def test_minutes_wait_in_memory_until_there_is_room(server, disk):  # noqa: F811
    sqs, cloudwatch, clock = client(server, "sqs"), client(server, "cloudwatch"), Clock(server)
    jobs = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    cloudwatch.put_metric_alarm(**ALARM)
    clock.next_minute()
    begin = clock.time(60)

    def sums():
        query = {
            "Namespace": "AWS/SQS",
            "MetricName": "NumberOfMessagesSent",
            "Dimensions": ALARM["Dimensions"],
            "StartTime": begin,
            "EndTime": begin + timedelta(hours=2),
            "Period": 60,
            "Statistics": ["Sum"],
        }
        points = cloudwatch.get_metric_statistics(**query)["Datapoints"]
        return [point["Sum"] for point in sorted(points, key=lambda point: point["Timestamp"]) if point["Sum"]]

    def state():
        return cloudwatch.describe_alarms(AlarmNames=["backlog"])["MetricAlarms"][0]["StateValue"]

    def unwritten():
        return server.log.read_text().count("metrics of a minute are not stored yet")

    def put():
        data = {"MetricName": "Sales", "Value": 1}
        cloudwatch.put_metric_data(Namespace="Shop", MetricData=[data])

    filler = fill(disk)
    sent = []
    # Some pages may still fit: until the file has to grow.
    while unwritten() < MINUTES:
        assert len(sent) < 60, "the disk never fills"
        sent.append(len(sent) % 3 + 1)
        for _ in range(sent[-1]):
            sqs.send_message(QueueUrl=jobs, MessageBody="x")
        clock.next_minute()
    assert sums() == sent, "minutes that wait are read"
    assert state() == "ALARM"
    with pytest.raises(cloudwatch.exceptions.ClientError) as refused:
        put()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    sqs.purge_queue(QueueUrl=jobs)
    clock.next_minute()
    assert state() == "OK", "alarms go on"

    filler.unlink()
    before = unwritten()
    clock.next_minute()
    assert unwritten() == before, "room again"
    put()
    assert sums() == sent
    # A kill leaves what is in memory only.
    server.restart("kill")
    assert sums() == sent
    assert state() == "OK"
