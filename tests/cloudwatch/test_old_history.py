"""The files in which version 0.2.0 kept the history of metrics become a database at the first start."""

import struct
import time
from datetime import UTC, datetime, timedelta

import pytest

from support.waiting import eventually

MINUTE = 60
DAY = 86_400


def crc_step(low):
    for _ in range(8):
        low = low >> 1 ^ (0x82F63B78 if low & 1 else 0)
    return low


CRC_STEPS = [crc_step(low) for low in range(256)]


def crc32c(data):
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = CRC_STEPS[(checksum ^ byte) & 0xFF] ^ checksum >> 8
    return checksum ^ 0xFFFFFFFF


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def text(value):
    return varint(len(value)) + value.encode()


def file(*payloads):
    frames = [struct.pack("<II", len(payload), crc32c(payload)) + payload for payload in payloads]
    return b"MRMETRC1" + b"".join(frames)


def write_old(directory, minutes, value, cities=("Oslo",)):
    """A series for each city, with the same whole number in each of those minutes, which begin a day
    or are of few."""
    names = ["us-east-1", "000000000000", "Shop"]
    numbers = range(len(cities))
    days = sorted({minute // DAY for minute in minutes})
    frames = []
    for number, city in enumerate(cities):
        dimension = varint(1) + text("City") + text(city)
        frames.append(b"\x01" + varint(number) + b"".join(map(text, names)) + dimension)
        frames.append(b"\x02" + varint(number) + varint(0) + b"\x0f" + text("Sales"))
    for day in days:
        frames.append(b"\x03" + varint(day) + b"".join(varint(number) + varint(0) for number in numbers))
    (directory / "catalog.log").write_bytes(file(*frames))
    cell = varint(0 << 3 | 1) + varint(value)
    rows = b"".join(varint(number) + varint(len(cell)) + cell for number in numbers)
    files = {}
    for day in days:
        # Most days are the same: one of them is enough to be made.
        of_day = tuple(minute % DAY // MINUTE for minute in minutes if minute // DAY == day)
        if of_day not in files:
            files[of_day] = file(*[varint(minute) + rows for minute in of_day])
        (directory / f"{day}-1m.log").write_bytes(files[of_day])


@pytest.fixture
def directory(alone):
    """That of the metrics, empty, of a server that is stopped."""
    alone.stop()
    directory = alone.data / "metrics"
    for path in directory.iterdir():
        path.unlink()
    return directory


@pytest.fixture
def sales(new_client):
    """How many values a city has since then, and their sum."""
    cloudwatch = new_client("cloudwatch")

    def of(begin, city="Oslo"):
        query = {
            "Namespace": "Shop",
            "MetricName": "Sales",
            "Dimensions": [{"Name": "City", "Value": city}],
            "StartTime": datetime.fromtimestamp(begin, UTC),
            "EndTime": datetime.now(UTC) + timedelta(minutes=2),
            "Period": 20 * DAY,
            "Statistics": ["Sum", "SampleCount"],
        }
        points = cloudwatch.get_metric_statistics(**query)["Datapoints"]
        return sum(p["SampleCount"] for p in points), sum(p["Sum"] for p in points)

    return of


def names(directory):
    return {path.name.removesuffix("-wal").removesuffix("-shm") for path in directory.iterdir()}


def test_history_of_an_earlier_version_is_converted_and_goes_on(alone, new_client, directory, sales):
    begin = int(time.time()) // MINUTE * MINUTE - 2 * DAY
    write_old(directory, [begin + n * MINUTE for n in range(1_500)], 7)

    alone.start()

    assert sales(begin) == (1_500, 10_500)
    assert names(directory) == {"history.db"}
    dimensions = [{"Name": "City", "Value": "Oslo"}]
    data = {"MetricName": "Sales", "Dimensions": dimensions, "Value": 5, "Unit": "Count"}
    new_client("cloudwatch").put_metric_data(Namespace="Shop", MetricData=[data])
    for how in ["kill", "stop"]:
        alone.restart(how)
        assert sales(begin) == (1_501, 10_505)


def test_a_kill_in_the_middle_of_the_conversion_costs_nothing(alone, directory, sales):
    """Twelve days of a thousand series, some 90 MB."""
    cities = ["Oslo", *(f"city-{number}" for number in range(999))]
    begin = int(time.time()) // DAY * DAY - 12 * DAY
    write_old(directory, range(begin, begin + 12 * DAY, MINUTE), 7, cities)
    old = {path.name: path.stat().st_size for path in directory.iterdir()}
    new, done = directory / "history.new", directory / "history.db"

    for size in [1, 4 << 20, 40 << 20]:
        alone.spawn()
        grown = lambda size=size: new.exists() and new.stat().st_size >= size  # noqa: E731
        eventually(grown, "half a database", pause_s=0.001)
        alone.kill()
        assert new.exists() and not done.exists(), "it was over before"
        left = {path.name: path.stat().st_size for path in directory.iterdir() if path != new}
        assert left == old
    # Between the new database and the end of the old files.
    alone.spawn()
    eventually(done.exists, "the database", timeout_s=60, pause_s=0.0005)
    alone.kill()
    alone.start()

    assert names(directory) == {"history.db"}
    for city in ["Oslo", "city-0", "city-998"]:
        assert sales(begin, city) == (12 * 1_440, 12 * 1_440 * 7)
