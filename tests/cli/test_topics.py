"""`millrace topic` and `millrace publish`: SNS's topics, subscriptions and messages."""

import json

import pytest


@pytest.fixture
def topic(millrace, new_name):
    name = new_name("cli")
    arn = millrace("topic", "create", name).stdout.strip()
    assert arn.startswith("arn:aws:sns:") and arn.endswith(f":{name}")
    yield name
    millrace("topic", "delete", arn, "--yes")


@pytest.fixture
def queue(millrace, new_name):
    name = new_name("cli")
    millrace("queue", "create", name)
    yield name
    millrace("queue", "delete", name, "--yes")


def received(lines, queue):
    return [json.loads(line)["Body"] for line in lines("receive", queue, "--json", "--delete", "--wait", "0s", "--max", "10")]


def test_what_is_published_comes_to_the_queue(millrace, lines, topic, queue):
    arn = millrace("topic", "subscribe", topic, "--queue", queue, "--raw").stdout.strip()
    assert any(line.split()[:2] == [arn, "sqs"] for line in lines("topic", "subscriptions", topic))

    message_id = millrace("publish", topic, "hello").stdout.strip()
    assert len(message_id) == 36
    millrace("publish", topic, "-", stdin="from standard input")
    assert sorted(received(lines, queue)) == ["from standard input", "hello"]

    millrace("topic", "unsubscribe", arn)
    millrace("publish", topic, "nobody")
    assert received(lines, queue) == []


def test_documents_filters_and_attributes(millrace, lines, topic, queue):
    policy = json.dumps({"colour": ["red"]})
    millrace("topic", "subscribe", topic, "--queue", queue, "--filter", policy)
    millrace("publish", topic, "no", "--attribute", "colour=blue")
    millrace("publish", topic, "yes", "--attribute", "colour=red", "--subject", "s", "--attribute", "n:Number=7")

    (document,) = map(json.loads, received(lines, queue))
    assert (document["Message"], document["Subject"]) == ("yes", "s")
    assert document["MessageAttributes"]["n"] == {"Type": "Number", "Value": "7"}
    wrong = millrace("topic", "subscribe", topic, "--queue", queue, "--filter", "{", expect=1)
    assert "FilterPolicy" in wrong.stderr


def test_fifo_topics_have_their_name_and_pass_groups_on(millrace, lines, new_name):
    topic, queue = f"{new_name('cli')}.fifo", f"{new_name('cli')}.fifo"
    millrace("queue", "create", queue)
    millrace("topic", "create", topic, "--attribute", "ContentBasedDeduplication=true")
    shown = dict(line.split(maxsplit=1) for line in lines("topic", "show", topic)[1:] if len(line.split(maxsplit=1)) == 2)
    assert (shown["FifoTopic"], shown["ContentBasedDeduplication"]) == ("true", "true")
    millrace("topic", "subscribe", topic, "--queue", queue, "--raw")
    for body in ("1", "2", "2", "3"):
        millrace("publish", topic, body, "--group", "g")

    assert received(lines, queue) == ["1", "2", "3"]
    millrace("topic", "delete", topic, "--yes")
    millrace("queue", "delete", queue, "--yes")


def test_topics_are_listed_and_unknown_ones_are_told(millrace, lines, topic):
    assert any(line.endswith(f":{topic}") for line in lines("topic", "list"))
    unknown = millrace("publish", f"{topic}-not", "x", expect=1)
    assert f"there is no topic {topic}-not here" in unknown.stderr
    assert f"millrace topic create {topic}-not" in unknown.stderr
    elsewhere = millrace("publish", topic, "x", "--region", "eu-west-1", expect=1)
    assert "asked for region eu-west-1" in elsewhere.stderr
    assert f"did you mean {topic}?" in millrace("publish", topic[:-1], "x", expect=1).stderr


def test_lists_are_json_documents_if_asked(millrace, topic, queue):
    def document(*command):
        return json.loads(millrace("topic", *command, "--json").stdout)

    arn = millrace("topic", "subscribe", topic, "--queue", queue).stdout.strip()
    topic_arn, _ = arn.rsplit(":", 1)

    assert {"TopicArn": topic_arn} in document("list")
    assert document("show", topic)["SubscriptionsConfirmed"] == "1"
    (subscription,) = document("subscriptions", topic)
    assert (subscription["SubscriptionArn"], subscription["Protocol"]) == (arn, "sqs")
    assert subscription in document("subscriptions")


def test_subscriptions_are_in_the_order_of_their_endpoints(millrace, lines, topic, new_name):
    queues = sorted(new_name("cli") for _ in range(5))
    for queue in reversed(queues):
        millrace("queue", "create", queue)
        millrace("topic", "subscribe", topic, "--queue", queue)

    shown = [line.rsplit(":", 1)[1] for line in lines("topic", "subscriptions", topic)[1:]]

    assert shown == queues
    millrace("queue", "delete", *queues, "--yes")


def test_refusals_say_what_to_do(millrace, topic, queue, new_name):
    fifo = f"{new_name('cli')}.fifo"
    millrace("topic", "create", fifo)
    for words, *command in [
        ("--group ID", "publish", fifo, "x"),
        ("--deduplication ID", "publish", fifo, "x", "--group", "g"),
        ("letters of ASCII", "topic", "create", "two words"),
        ("millrace topic subscriptions", "topic", "unsubscribe", queue),
        ('{"default":', "publish", topic, "{}", "--by-protocol"),
    ]:
        assert words in millrace(*command, expect=1).stderr, command
    millrace("topic", "subscribe", topic, "--queue", queue, "--raw")
    different = millrace("topic", "subscribe", topic, "--queue", queue, "--filter", '{"a":["b"]}', expect=1)
    assert "subscribe again" in different.stderr
    millrace("topic", "delete", fifo, "--yes")

    neither = millrace("topic", "subscribe", topic, expect=2)
    assert "<--queue <QUEUE>|--url <URL>>" in neither.stderr
    no_url = millrace("topic", "subscribe", topic, "--url", "localhost:9000/x", expect=2)
    assert "must begin with http://" in no_url.stderr
    nobody = millrace("topic", "list", "--endpoint", "http://127.0.0.1:9", expect=1)
    assert "millrace serve" in nobody.stderr
