"""What a minute costs the thread `metrics` with many alarms beside many series:

    PYTHONPATH=tests tests/.venv-current/bin/python tests/cloudwatch/many_alarms.py --alarms 1000

Prints how long the end of a minute takes, of which alarms are the most. Not a test: the machine should be quiet."""

import argparse
import datetime
import http.client
import json
import statistics
import tempfile
import time

from support.server import Server

ENTRIES = 1_000


class Client:
    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def post(self, path: str, members: dict, headers=()) -> dict:
        self.connection.request("POST", path, json.dumps(members), dict(headers))
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return json.loads(body or "{}")

    def call(self, action: str, **members) -> dict:
        headers = {
            "X-Amz-Target": f"GraniteServiceVersion20100801.{action}",
            "Content-Type": "application/x-amz-json-1.0",
        }
        return self.post("/", members, headers)


def dimensions(number: int) -> list[dict]:
    return [{"Name": "Host", "Value": f"host-{number}"}]


def put_minute(client: Client, now_s: float, series: int):
    for first in range(0, series, ENTRIES):
        entries = [
            {"MetricName": "Load", "Dimensions": dimensions(number), "Timestamp": now_s, "Value": number % 7}
            for number in range(first, min(first + ENTRIES, series))
        ]
        client.call("PutMetricData", Namespace="Many", MetricData=entries)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--series", type=int, default=100_000)
    arguments.add_argument("--alarms", type=int, default=1_000)
    arguments.add_argument("--period", type=int, default=60)
    arguments.add_argument("--periods", type=int, default=3)
    arguments.add_argument("--minutes", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        server = Server(directory).start()
        try:
            client = Client(server.port)
            for number in range(options.alarms):
                client.call(
                    "PutMetricAlarm",
                    AlarmName=f"alarm-{number}",
                    Namespace="Many",
                    MetricName="Load",
                    Dimensions=dimensions(number * options.series // max(options.alarms, 1)),
                    Statistic="Maximum",
                    Period=options.period,
                    EvaluationPeriods=options.periods,
                    Threshold=100,
                    ComparisonOperator="GreaterThanThreshold",
                )
            times_ms = []
            for _ in range(options.minutes):
                now_s = client.post("/_millrace/clock/advance", {"seconds": 0})["now_ms"] / 1000
                put_minute(client, now_s, options.series)
                began = time.monotonic()
                client.post("/_millrace/clock/advance", {"seconds": 60})
                times_ms.append((time.monotonic() - began) * 1000)
            of = f"{options.alarms} alarms over {options.periods} × {options.period} s, {options.series} series"
            shown = ", ".join(f"{time_ms:.0f}" for time_ms in times_ms)
            print(f"{of}: {statistics.median(times_ms):.0f} ms a minute ({shown})")
        finally:
            server.close()


if __name__ == "__main__":
    main()
