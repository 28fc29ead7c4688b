"""Fixtures of all Python suites. A worker process has one shared server, with queue names of its
own per test; tests that need another configuration or a restart start their own."""

import concurrent.futures
import contextlib
import itertools
import os
import shutil

import pytest

from support.sdk import sdk_client
from support.server import Server
from support.wire import JsonApi, QueryApi

COUNTER = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def no_ambient_configuration(tmp_path_factory):
    """SDKs and commands see nothing of the user's own set-up."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "MILLRACE_")) or name.lower() == "http_proxy":
            del os.environ[name]
    empty = tmp_path_factory.mktemp("aws")
    os.environ["AWS_CONFIG_FILE"] = str(empty / "config")
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(empty / "credentials")
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("shared")).start()
    yield server
    server.close()
    shutil.rmtree(server.data)


@pytest.fixture
def make_server(tmp_path):
    """Starts servers that this test alone uses: `make_server(durability=…, config=…)`."""
    numbers = itertools.count()
    # All are closed, even if closing one of them finds something wrong.
    with contextlib.ExitStack() as servers:

        def make(**options) -> Server:
            server = Server(tmp_path / f"server{next(numbers)}", **options)
            servers.callback(server.close)
            return server.start()

        yield make


@pytest.fixture(scope="session")
def sqs(server):
    return sdk_client(server)


@pytest.fixture(params=["json", "query"])
def api(request, server):
    """Raw HTTP, once in each protocol."""
    return (JsonApi if request.param == "json" else QueryApi)(server.endpoint)


@pytest.fixture
def json_api(server):
    return JsonApi(server.endpoint)


@pytest.fixture
def query_api(server):
    return QueryApi(server.endpoint)


def unique_name(hint="q", suffix="") -> str:
    return f"{hint}-{os.getpid()}-{next(COUNTER)}{suffix}"


@pytest.fixture
def new_name():
    """Queue names that no other test uses."""
    return unique_name


@pytest.fixture
def url(api, new_name):
    """Of a standard queue, made in the protocol that the test is about."""
    return api.call("CreateQueue", QueueName=new_name())["QueueUrl"]


@pytest.fixture
def fifo_url(api, new_name):
    """Of a FIFO queue without content-based deduplication, likewise."""
    name = new_name(suffix=".fifo")
    return api.call("CreateQueue", QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]


@pytest.fixture
def queue(sqs):
    """Creates a standard queue on the shared server: `queue(VisibilityTimeout="5")` → URL."""

    def create(**attributes) -> str:
        return sqs.create_queue(QueueName=unique_name(), Attributes=attributes)["QueueUrl"]

    return create


@pytest.fixture
def fifo(sqs):
    """Creates a FIFO queue with content-based deduplication unless told otherwise."""

    def create(**attributes) -> str:
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} | attributes
        name = unique_name(suffix=".fifo")
        return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    return create


@pytest.fixture
def arn(sqs):
    def of(url: str) -> str:
        names = {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
        return sqs.get_queue_attributes(**names)["Attributes"]["QueueArn"]

    return of


@pytest.fixture
def attributes(sqs):
    def of(url: str, *names: str) -> dict:
        asked = list(names) or ["All"]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=asked)
        return answer.get("Attributes", {})

    return of


@pytest.fixture
def receive(sqs):
    """Receives at once, up to ten messages, with all that can be asked for."""

    def from_queue(url: str, **parameters) -> list[dict]:
        asked = {
            "MaxNumberOfMessages": 10,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        return sqs.receive_message(QueueUrl=url, **(asked | parameters)).get("Messages", [])

    return from_queue


@pytest.fixture
def bodies(receive):
    def from_queue(url: str, **parameters) -> list[str]:
        return [message["Body"] for message in receive(url, **parameters)]

    return from_queue


@pytest.fixture
def counts(attributes):
    """(ready, in flight, delayed), as GetQueueAttributes tells them."""

    def of(url: str) -> tuple[int, int, int]:
        asked = ["", "NotVisible", "Delayed"]
        names = [f"ApproximateNumberOfMessages{suffix}" for suffix in asked]
        values = attributes(url, *names)
        return tuple(int(values[name]) for name in names)

    return of


@pytest.fixture
def background():
    """Runs calls in threads that end with the test: `background(receive, url, …)` → future."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=32) as pool:
        yield pool.submit
