"""Clients of CloudWatch beside those of SQS."""

import datetime
import json
import urllib.request

import boto3
import pytest
from botocore.config import Config


def client(server, service, protocol=None, **options):
    """A client of the real SDK, which speaks another of the protocols in its model if told so."""
    options = {"retries": {"total_max_attempts": 1}, "read_timeout": 40} | options
    session = boto3.Session()
    if protocol:
        loader = session._session.get_component("data_loader")
        load = loader.load_service_model

        def load_with_protocol(name, kind, *args, **kwargs):
            model = load(name, kind, *args, **kwargs)
            if name == service and kind == "service-2":
                assert protocol in model["metadata"]["protocols"]
                model["metadata"] |= {"protocol": protocol, "protocols": [protocol]}
            return model

        loader.load_service_model = load_with_protocol
    made = session.client(
        service,
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(**options),
    )
    assert protocol in (None, made.meta.service_model.resolved_protocol)
    return made


class Clock:
    """The server's clock: tests move it, they do not wait."""

    def __init__(self, server):
        self.server = server

    def _call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.server.endpoint + path, data)) as answer:
            return json.load(answer)["now_ms"] / 1000

    def now(self) -> float:
        return self._call("/_millrace/clock")

    def advance(self, seconds: float) -> float:
        return self._call("/_millrace/clock/advance", {"seconds": seconds})

    def next_minute(self) -> float:
        """To just after the next full minute, which closes the one that was."""
        return self.advance(60 - self.now() % 60 + 0.5)

    def time(self, ago_s=0) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.now() - ago_s, datetime.timezone.utc)


@pytest.fixture
def alone(make_server):
    """A server of the test's own, whose clock it may move."""
    return make_server()


@pytest.fixture
def clock(alone):
    """Just after a full minute: what a test does until it moves the clock falls into one."""
    clock = Clock(alone)
    clock.next_minute()
    return clock


@pytest.fixture
def sqs_alone(alone):
    return client(alone, "sqs")


@pytest.fixture
def new_client(alone):
    return lambda service: client(alone, service)


@pytest.fixture(params=["json", "smithy-rpc-v2-cbor", "query"])
def cloudwatch(request, alone):
    return client(alone, "cloudwatch", request.param)


@pytest.fixture
def datapoints(cloudwatch, clock):
    """Of a metric in the name space Shop: sums of the last ten minutes, unless `asked` says otherwise."""

    def of(metric: str, **asked) -> list[dict]:
        span = {"StartTime": clock.time(600), "EndTime": clock.time(-60), "Period": 60, "Statistics": ["Sum"]}
        asked = {"Namespace": "Shop", "MetricName": metric} | span | asked
        return cloudwatch.get_metric_statistics(**asked)["Datapoints"]

    return of


@pytest.fixture
def queue_datapoints(datapoints):
    """The same of a queue's metric."""

    def of(queue: str, metric: str, **asked) -> list[dict]:
        dimensions = [{"Name": "QueueName", "Value": queue}]
        return datapoints(metric, Namespace="AWS/SQS", Dimensions=dimensions, **asked)

    return of


@pytest.fixture
def total(queue_datapoints, clock):
    """Sum over all minutes of the last hours of a queue's metric."""

    def of(queue: str, metric: str, statistic="Sum", period=60) -> float:
        span = {"StartTime": clock.time(6 * 3600), "EndTime": clock.time(-900), "Period": period}
        points = queue_datapoints(queue, metric, Statistics=[statistic], **span)
        return sum(point[statistic] for point in points)

    return of
