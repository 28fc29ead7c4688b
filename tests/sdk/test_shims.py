"""What tools written for other servers look for: health, a look into queues, a reset."""

import json
import urllib.parse

import pytest

from support.wire import JsonApi, QueryApi, request

MESSAGES = "/_aws/sqs/messages"
RESET = "/_localstack/state/reset"


def test_health_and_readiness(server):
    assert server.get("/health")[0] == 200
    assert server.get("/ready")[0] == 200


def test_localstack_health(server):
    status, body = server.get("/_localstack/health")

    assert status == 200
    assert json.loads(body)["services"] == dict.fromkeys(("sqs", "cloudwatch", "sts", "sns", "simpledb"), "running")


class TestMessages:
    @pytest.fixture
    def peek(self, server):
        def look(url, accept="application/json", **flags):
            query = urllib.parse.urlencode({"QueueUrl": url} | flags)
            return request(server.endpoint, "GET", f"{MESSAGES}?{query}", headers={"Accept": accept})

        return look

    @pytest.fixture
    def seen(self, peek):
        """{body: attributes} of what a look shows."""

        def look(url, **flags):
            answer = peek(url, **flags)
            assert answer.status == 200, answer.text
            result = answer.json()["ReceiveMessageResponse"]["ReceiveMessageResult"] or {}
            messages = result.get("Message", [])
            messages = messages if isinstance(messages, list) else [messages]
            return {
                message["Body"]: {a["Name"]: a["Value"] for a in message["Attribute"]} for message in messages
            }

        return look

    def test_limit_is_how_many_of_the_oldest_are_shown(self, sqs, queue, seen, peek):
        url = queue()
        for body in ("one", "two", "three"):
            sqs.send_message(QueueUrl=url, MessageBody=body)

        assert list(seen(url, Limit="2")) == ["one", "two"]
        assert list(seen(url, Limit="9")) == ["one", "two", "three"]
        assert list(seen(url, Limit="0")) == []
        assert peek(url, Limit="-1").status == 400

    def test_look_changes_nothing(self, sqs, queue, seen, receive, counts):
        url = queue()
        for body in ("one", "two"):
            sqs.send_message(QueueUrl=url, MessageBody=body)

        for _ in range(2):
            assert {b: a["ApproximateReceiveCount"] for b, a in seen(url).items()} == {"one": "0", "two": "0"}
        assert counts(url) == (2, 0, 0)
        (message,) = receive(url, MaxNumberOfMessages=1, VisibilityTimeout=0)
        assert seen(url)[message["Body"]]["ApproximateReceiveCount"] == "1"

    def test_more_than_ten_are_shown(self, sqs, queue, seen):
        url = queue()
        for n in range(25):
            sqs.send_message(QueueUrl=url, MessageBody=f"m{n}")

        assert set(seen(url)) == {f"m{n}" for n in range(25)}

    def test_in_flight_and_delayed_on_demand(self, sqs, queue, seen, receive):
        url = queue()
        sqs.send_message(QueueUrl=url, MessageBody="in flight")
        assert len(receive(url)) == 1
        sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=600)
        sqs.send_message(QueueUrl=url, MessageBody="ready")

        assert set(seen(url)) == {"ready"}
        assert set(seen(url, ShowInvisible="false", ShowDelayed="false")) == {"ready"}
        invisible = seen(url, ShowInvisible="true")
        assert set(invisible) == {"ready", "in flight"}
        assert invisible["in flight"]["IsVisible"] == "false"
        assert invisible["ready"]["IsVisible"] == "true"
        delayed = seen(url, ShowDelayed="true")
        assert set(delayed) == {"ready", "delayed"}
        assert delayed["delayed"]["IsDelayed"] == "true"
        assert set(seen(url, ShowInvisible="true", ShowDelayed="true")) == {"ready", "in flight", "delayed"}

    def test_xml_is_the_default(self, sqs, queue, peek):
        url = queue()
        sqs.send_message(QueueUrl=url, MessageBody="x")

        answer = peek(url, accept="*/*")

        assert answer.xml().findtext("{*}ReceiveMessageResult/{*}Message/{*}Body") == "x"

    def test_fifo_shows_its_attributes(self, sqs, fifo, seen):
        url = fifo()
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g")

        assert seen(url)["x"]["MessageGroupId"] == "g"

    @pytest.mark.parametrize("protocol", [JsonApi, QueryApi])
    def test_endpoint_for_sdks(self, server, sqs, queue, protocol):
        url = queue()
        for n in range(12):
            sqs.send_message(QueueUrl=url, MessageBody=str(n))
        api = protocol(server.endpoint, path=MESSAGES)

        for _ in range(2):
            assert len(api.call("ReceiveMessage", QueueUrl=url)["Messages"]) == 12

    def test_queue_in_the_path(self, server, sqs, queue):
        url = queue()
        sqs.send_message(QueueUrl=url, MessageBody="x")
        account, name = url.split("/")[-2:]

        answer = request(server.endpoint, "GET", f"{MESSAGES}/us-east-1/{account}/{name}")

        assert answer.xml().findtext("{*}ReceiveMessageResult/{*}Message/{*}Body") == "x"

    def test_other_paths_that_begin_so(self, server, sqs, queue):
        query = urllib.parse.urlencode({"QueueUrl": queue()})

        assert request(server.endpoint, "GET", f"{MESSAGES}X?{query}").status == 404

    def test_missing_queue(self, peek):
        answer = peek("http://localhost/000000000000/none")

        assert answer.status == 400
        assert "AWS.SimpleQueueService.NonExistentQueue" in answer.text


class TestReset:
    def test_reset_empties_a_test_server(self, make_server):
        server = make_server(test=True)
        api = JsonApi(server.endpoint)
        url = api.call("CreateQueue", QueueName="q")["QueueUrl"]
        api.call("SendMessage", QueueUrl=url, MessageBody="x")

        assert server.http("POST", RESET)[0] == 200

        assert api.call("ListQueues") == {}
        api.call("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "1"})
        assert api.call("ReceiveMessage", QueueUrl=url) == {}

    def test_names_of_deleted_queues_do_not_rest_after_a_reset(self, make_server):
        server = make_server(test=True, config="[limits]\nrecreate_cool_down = true\n")
        api = JsonApi(server.endpoint)
        api.call("DeleteQueue", QueueUrl=api.call("CreateQueue", QueueName="q")["QueueUrl"])

        assert server.http("POST", RESET)[0] == 200

        api.call("CreateQueue", QueueName="q")

    @pytest.mark.parametrize("path", [RESET, "/_millrace/clock/advance"])
    def test_nothing_of_this_outside_test_mode(self, make_server, path):
        server = make_server(test=False)
        api = JsonApi(server.endpoint)
        url = api.call("CreateQueue", QueueName="q")["QueueUrl"]

        status, _ = server.http("POST", path, '{"seconds": 1}', {"Content-Type": "application/json"})

        assert 400 <= status < 500
        assert api.call("ListQueues") == {"QueueUrls": [url]}
