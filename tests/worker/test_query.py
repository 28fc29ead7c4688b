"""`--protocol query`: the same work in forms and XML."""

import json
from urllib.parse import parse_qs

import pytest

from worker.rig import TRACEPARENT, XRAY, forward, lines, send_traced

QUERY = ["--protocol", "query", "--until-empty", "--backoff", "1h"]
THROTTLED = b"""<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">
<Error><Type>Sender</Type><Code>RequestThrottled</Code><Message>slow down</Message></Error>
<RequestId>0</RequestId></ErrorResponse>"""


@pytest.fixture
def recorder(server, http_server):
    """A server that speaks nothing but Query; the parameters of each request. The first receive is
    refused."""
    requests = []

    def answer(path, headers, body):
        assert headers["Content-Type"] == "application/x-www-form-urlencoded"
        assert "X-Amz-Target" not in headers
        parameters = {name: value for name, [value] in parse_qs(body.decode(), strict_parsing=True).items()}
        requests.append(parameters)
        receives = [one for one in requests if one["Action"] == "ReceiveMessage"]
        if parameters["Action"] == "ReceiveMessage" and len(receives) == 1:
            return 403, {"Content-Type": "text/xml"}, THROTTLED
        status, headers, answer = forward(int(server.endpoint.rsplit(":", 1)[1]), path, headers, body)
        assert headers["Content-Type"].startswith("text/xml")
        return status, headers, answer

    proxy = http_server(answer)
    proxy.requests = requests
    return proxy


def test_messages_are_handled_retried_and_rejected(sqs, new_name, queue, work, recorder, tmp_path, counts, receive):
    name = new_name()
    url, dead = sqs.create_queue(QueueName=name)["QueueUrl"], queue()
    send_traced(sqs, url, color="a & <b> \u20ac")
    raw = {"raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    for body in ["exit 65", "exit 75", *["true"] * 20]:
        sqs.send_message(QueueUrl=url, MessageBody=body + " # \r\n\t<&amp;> \u20ac  ", MessageAttributes=raw)
    command = "cat > $MILLRACE_MESSAGE_ID; env > env-$MILLRACE_MESSAGE_ID; head -n 1 $MILLRACE_MESSAGE_ID | sh"

    worker = work(name, "--exec", command, "--dead-letter-queue", dead, *QUERY, endpoint=recorder.url)
    assert worker.wait() == 0

    # The body "a" is no command: it is retried, as is the one that asked for it.
    assert counts(url) == (0, 2, 0)
    [letter] = receive(dead)
    assert letter["Body"] == "exit 65 # \r\n\t<&amp;> \u20ac  "
    assert letter["MessageAttributes"]["raw"]["BinaryValue"] == b"\x00\xff"
    assert letter["MessageAttributes"]["MillraceSourceQueue"]["StringValue"] == name
    environments = [dict(l.split("=", 1) for l in lines(path) if "=" in l) for path in tmp_path.glob("env-*")]
    assert len(environments) == 23
    assert sum(one.get("MILLRACE_ATTRIBUTE_raw") == "AP8=" for one in environments) == 22
    [traced] = [one for one in environments if "TRACEPARENT" in one]
    assert (traced["TRACEPARENT"], traced["_X_AMZN_TRACE_ID"]) == (TRACEPARENT, XRAY)
    assert traced["MILLRACE_ATTRIBUTE_color"] == "a & <b> \u20ac"
    actions = {one["Action"] for one in recorder.requests}
    assert {"GetQueueUrl", "ReceiveMessage", "SendMessage"} <= actions
    assert actions & {"DeleteMessage", "DeleteMessageBatch"}
    assert actions & {"ChangeMessageVisibility", "ChangeMessageVisibilityBatch"}
    assert "throttled" in worker.text()


def test_groups_keep_their_order_and_functions_get_their_arn(fifo, arn, sqs, work, recorder, http_server):
    url = fifo()
    for number in range(20):
        sqs.send_message(QueueUrl=url, MessageBody=f"{number:02}", MessageGroupId=f"g{number % 2}")
    seen, arns = {"g0": [], "g1": []}, set()

    def function(path, headers, body):
        for record in json.loads(body)["Records"]:
            seen[record["attributes"]["MessageGroupId"]].append(record["body"])
            arns.add(record["eventSourceARN"])
        return 200, {}, b"null"

    worker = work(url, "--lambda", http_server(function).url, *QUERY, endpoint=recorder.url)
    assert worker.wait() == 0

    assert seen == {"g0": [f"{n:02}" for n in range(0, 20, 2)], "g1": [f"{n:02}" for n in range(1, 20, 2)]}
    assert arns == {arn(url)}


def test_queue_that_is_not_there_and_a_protocol_that_is_none_are_told(work, recorder):
    absent = work("absent", "--exec", "true", *QUERY, endpoint=recorder.url)
    assert absent.wait() == 1
    assert "no such queue" in absent.text()

    for flags in (["--protocol", "soap"], ["--protocol", "query", "--peer", "ironmq"]):
        wrong = work("q", "--exec", "true", *flags, env={"IRON_PROJECT_ID": "p", "IRON_TOKEN": "t"})
        assert wrong.wait() == 2, wrong.text()
