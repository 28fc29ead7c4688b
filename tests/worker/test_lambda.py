"""`--lambda`: events, failures of items and of all, batches and their window."""

import base64
import hashlib
import json
import threading

import pytest

from worker.rig import TRACEPARENT, XRAY, send_traced

ALWAYS = ["--until-empty", "--backoff", "1h"]
PATH = "/2015-03-31/functions/function/invocations"


@pytest.fixture
def emulator(http_server):
    """Serves a function as the runtime interface emulator does; the events that it got."""

    def start(function, status=200, headers=None):
        events, traces = [], []
        lock = threading.Lock()

        def answer(path, request_headers, body):
            assert path == PATH
            event = json.loads(body)
            with lock:
                events.append(event)
                traces.append((request_headers["traceparent"], request_headers["X-Amzn-Trace-Id"]))
            result = function(event)
            content = result if isinstance(result, bytes) else json.dumps(result).encode()
            return status, headers or {}, content

        server = http_server(answer)
        server.events, server.traces = events, traces
        return server

    return start


def ids(event):
    return [record["messageId"] for record in event["Records"]]


def failing(event, bodies):
    """The answer of a function that reports these as failed."""
    failed = [r["messageId"] for r in event["Records"] if r["body"] in bodies]
    return {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}


def test_event_is_that_of_lambda(sqs, queue, work, emulator, counts):
    url = queue()
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    attributes = {
        "color": {"DataType": "String", "StringValue": "red"},
        "weight": {"DataType": "Number.kg", "StringValue": "12.5"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    body = 'line 1\n"quoted" \u20ac'
    sent = sqs.send_message(
        QueueUrl=url, MessageBody=body, MessageAttributes=attributes, MessageSystemAttributes=trace
    )
    server = emulator(lambda event: None)

    assert work(url, "--lambda", server.url, *ALWAYS).wait() == 0

    [event] = server.events
    assert list(event) == ["Records"]
    [record] = event["Records"]
    assert set(record) == {
        "messageId", "receiptHandle", "body", "attributes", "messageAttributes", "md5OfBody",
        "md5OfMessageAttributes", "eventSource", "eventSourceARN", "awsRegion",
    }
    assert record["messageId"] == sent["MessageId"]
    assert record["receiptHandle"]
    assert record["body"] == body
    assert record["md5OfBody"] == hashlib.md5(body.encode()).hexdigest() == sent["MD5OfMessageBody"]
    assert record["md5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert (record["eventSource"], record["eventSourceARN"]) == ("aws:sqs", arn)
    assert record["awsRegion"] == arn.split(":")[3]
    system = record["attributes"]
    assert system["ApproximateReceiveCount"] == "1"
    assert system["SentTimestamp"].isdigit() and system["ApproximateFirstReceiveTimestamp"].isdigit()
    assert system["SenderId"] and system["AWSTraceHeader"].startswith("Root=")
    empty = {"stringListValues": [], "binaryListValues": []}
    assert record["messageAttributes"] == {
        "color": {"stringValue": "red", "dataType": "String"} | empty,
        "weight": {"stringValue": "12.5", "dataType": "Number.kg"} | empty,
        "raw": {"binaryValue": base64.b64encode(b"\x00\x01").decode(), "dataType": "Binary"} | empty,
    }
    assert counts(url) == (0, 0, 0)


def test_event_has_a_trace_if_all_its_messages_have_the_same(sqs, queue, work, send, emulator):
    same, mixed = queue(), queue()
    for url in (same, same, mixed):
        send_traced(sqs, url)
    send(mixed, ["b"])
    server = emulator(lambda event: None)

    for url in (same, mixed):
        assert work(url, "--lambda", server.url, *ALWAYS).wait() == 0

    assert [len(event["Records"]) for event in server.events] == [2, 2]
    assert server.traces == [(TRACEPARENT, XRAY), (None, None)]


def test_items_that_fail_stay_and_the_others_go(queue, work, send, emulator, counts):
    url = queue()
    send(url, [f"m{n}" for n in range(10)])
    server = emulator(lambda event: failing(event, {"m3", "m7"}))

    assert work(url, "--lambda", server.url, *ALWAYS).wait() == 0

    assert counts(url) == (0, 2, 0)
    handled = [one for event in server.events for one in ids(event)]
    assert len(handled) == len(set(handled)) == 10


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"errorMessage": "no", "errorType": "ValueError"}},
        {"result": "no", "headers": {"X-Amz-Function-Error": "Unhandled"}},
        {"result": {"batchItemFailures": [{"itemIdentifier": "unknown"}]}},
        {"result": {"batchItemFailures": [{"itemIdentifier": ""}]}},
        {"result": {"batchItemFailures": [{"wrong": "a"}]}},
        {"result": b"Task timed out after 3.00 seconds"},
        {"result": b""},
        {"result": {}, "status": 500},
    ],
    ids=["error", "error header", "unknown id", "empty id", "bad key", "timeout", "no answer", "status"],
)
def test_failure_of_the_function_is_a_failure_of_all(queue, work, send, emulator, counts, answer):
    url = queue()
    send(url, ["a", "b", "c"])
    server = emulator(lambda event: answer["result"], answer.get("status", 200), answer.get("headers"))

    assert work(url, "--lambda", server.url, *ALWAYS).wait() == 0

    assert sum(len(event["Records"]) for event in server.events) == 3
    assert counts(url) == (0, 3, 0)


def test_batch_waits_to_be_full(queue, work, send, emulator, counts):
    url = queue()
    send(url, [f"m{n}" for n in range(60)])
    server = emulator(lambda event: {"batchItemFailures": []})
    batches = ["--batch-size", "40", "--batch-window", "5m", "--concurrency", "2"]

    # The rest cannot wait: no more messages will be received.
    assert work(url, "--lambda", server.url, *batches, "--max-messages", "60").wait() == 0

    assert sorted(len(event["Records"]) for event in server.events) == [20, 40]
    assert counts(url) == (0, 0, 0)


def test_event_is_never_larger_than_lambda_takes(queue, work, send, emulator, counts):
    url = queue()
    for _ in range(9):
        send(url, ["x" * 1_000_000])
    server = emulator(lambda event: None)
    batches = ["--batch-size", "100", "--batch-window", "5m", "--max-messages", "9"]

    assert work(url, "--lambda", server.url, *batches, "--concurrency", "1").wait() == 0

    assert [len(event["Records"]) for event in server.events] == [6, 3]
    assert counts(url) == (0, 0, 0)


def test_never_more_invocations_than_the_concurrency(queue, work, send, http_server, counts):
    url = queue()
    send(url, [f"m{n}" for n in range(40)])
    running, most, lock = 0, 0, threading.Lock()
    three = threading.Event()

    def answer(path, headers, body):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 3:
                three.set()
        three.wait(30)
        with lock:
            running -= 1
        return 200, {}, b"null"

    flags = ["--batch-size", "4", "--concurrency", "3", *ALWAYS]
    assert work(url, "--lambda", http_server(answer).url, *flags).wait() == 0

    assert most == 3
    assert counts(url) == (0, 0, 0)


def test_group_of_a_fifo_queue_stops_at_its_failure(sqs, fifo, work, emulator, counts):
    url = fifo()
    for body in ["a1", "b1", "a2", "b2", "a3"]:
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=body[0])
    server = emulator(lambda event: failing(event, {"a1", "a2", "a3"}))

    assert work(url, "--lambda", server.url, "--batch-size", "1", *ALWAYS).wait() == 0

    bodies = [record["body"] for event in server.events for record in event["Records"]]
    assert sorted(bodies) == ["a1", "b1", "b2"]
    # A group's other messages cannot be received while one is hidden.
    assert sum(counts(url)) == 3
