"""The history of metrics on a disk that fills up: messages go on, alarms see the minutes that cannot be
written, and these are written once space returns, without a restart.

The disk is a tmpfs of this test's own, so this needs root and the right to mount.
"""

import os
from datetime import UTC, datetime, timedelta

import pytest

from cloudwatch.conftest import Clock, client
from cloudwatch.test_old_history import DAY, write_old
from faults.test_disk_full import disk  # noqa: F401
from support.server import Server
from support.waiting import eventually

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


def fill(disk, left_bytes=0):  # noqa: F811
    """Takes all other space; what the journal has already is its own."""
    space = os.statvfs(disk)
    with (disk / "filler").open("wb") as file:
        file.write(bytes(space.f_bavail * space.f_frsize - left_bytes))
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
        points.sort(key=lambda point: point["Timestamp"])
        return [point["Sum"] for point in points if point["Sum"]]

    def state():
        return cloudwatch.describe_alarms(AlarmNames=["backlog"])["MetricAlarms"][0]["StateValue"]

    def changes():
        history = cloudwatch.describe_alarm_history(AlarmName="backlog", ScanBy="TimestampAscending")
        items = [item for item in history["AlarmHistoryItems"] if item["HistoryItemType"] == "StateUpdate"]
        return [(item["Timestamp"], item["HistorySummary"]) for item in items]

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
    clock.next_minute()
    put()
    assert sums() == sent
    before = changes()
    assert [change for _, change in before[-2:]] == [
        "Alarm updated from OK to ALARM",
        "Alarm updated from ALARM to OK",
    ]
    # Minutes that were in memory only would be gone. The test's clock goes back: alarms may change again.
    server.restart("kill")
    assert sums() == sent
    assert set(before) <= set(changes())


def test_a_conversion_without_room_keeps_the_old_files_until_there_is(server, disk):  # noqa: F811
    server.stop()
    directory = server.data / "metrics"
    for path in directory.iterdir():
        path.unlink()
    begin = int(server.now()) // DAY * DAY - DAY
    write_old(directory, range(begin, begin + DAY, 60), 7, ["Oslo", *(f"city-{n}" for n in range(999))])
    old = {path.name: path.stat().st_size for path in directory.iterdir()}
    filler = fill(disk, left_bytes=sum(old.values()) // 2)

    server.start()

    assert {path.name: path.stat().st_size for path in directory.iterdir()} == old
    in_memory = "metrics of this run are kept in memory only"
    eventually(lambda: in_memory in server.log.read_text(), "the line in the log")
    sqs = client(server, "sqs")
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")

    filler.unlink()
    server.restart("kill")
    query = {
        "Namespace": "Shop",
        "MetricName": "Sales",
        "Dimensions": [{"Name": "City", "Value": "city-998"}],
        "StartTime": datetime.fromtimestamp(begin, UTC),
        "EndTime": datetime.fromtimestamp(begin + DAY, UTC),
        "Period": DAY,
        "Statistics": ["Sum"],
    }
    [point] = client(server, "cloudwatch").get_metric_statistics(**query)["Datapoints"]
    assert point["Sum"] == 1_440 * 7
    assert not any(path.name in old for path in directory.iterdir())
