"""The files in which version 0.2.0 kept the history of metrics become a database at the first start."""

import struct
import time
from datetime import UTC, datetime, timedelta

MINUTE = 60
DAY = 86_400


def crc32c(data):
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def text(value):
    return varint(len(value)) + value.encode()


def file(*payloads):
    frames = [struct.pack("<II", len(payload), crc32c(payload)) + payload for payload in payloads]
    return b"MRMETRC1" + b"".join(frames)


def write_old(directory, minutes, value):
    """One series of one entity, with the same whole number in each of those minutes."""
    names = ["us-east-1", "000000000000", "Shop"]
    entity = b"\x01" + varint(0) + b"".join(map(text, names)) + varint(1) + text("City") + text("Oslo")
    column = b"\x02" + varint(0) + varint(0) + b"\x0f" + text("Sales")
    days = {minute // DAY for minute in minutes}
    seen = [b"\x03" + varint(day) + varint(0) + varint(0) for day in sorted(days)]
    (directory / "catalog.log").write_bytes(file(entity, column, *seen))
    cell = varint(0 << 3 | 1) + varint(value)
    for day in days:
        of_day = [minute % DAY // MINUTE for minute in minutes if minute // DAY == day]
        rows = [varint(minute) + varint(0) + varint(len(cell)) + cell for minute in of_day]
        (directory / f"{day}-1m.log").write_bytes(file(*rows))


def test_history_of_an_earlier_version_is_converted_and_goes_on(alone, new_client):
    cloudwatch = new_client("cloudwatch")
    alone.stop()
    directory = alone.data / "metrics"
    for path in directory.iterdir():
        path.unlink()
    begin = int(time.time()) // MINUTE * MINUTE - 2 * DAY
    write_old(directory, [begin + n * MINUTE for n in range(1_500)], 7)

    def sales():
        query = {
            "Namespace": "Shop",
            "MetricName": "Sales",
            "Dimensions": [{"Name": "City", "Value": "Oslo"}],
            "StartTime": datetime.fromtimestamp(begin, UTC),
            "EndTime": datetime.now(UTC) + timedelta(minutes=2),
            "Period": 10 * DAY,
            "Statistics": ["Sum", "SampleCount"],
        }
        points = cloudwatch.get_metric_statistics(**query)["Datapoints"]
        return sum(p["SampleCount"] for p in points), sum(p["Sum"] for p in points)

    alone.start()

    assert sales() == (1_500, 10_500)
    assert {path.name.split("-")[0] for path in directory.iterdir()} == {"history.db"}
    dimensions = [{"Name": "City", "Value": "Oslo"}]
    data = {"MetricName": "Sales", "Dimensions": dimensions, "Value": 5, "Unit": "Count"}
    cloudwatch.put_metric_data(Namespace="Shop", MetricData=[data])
    for how in ["kill", "stop"]:
        alone.restart(how)
        assert sales() == (1_501, 10_505)
