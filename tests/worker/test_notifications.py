"""`--unwrap-sns`: what a handler gets of messages that a topic delivered."""

import json

import pytest

from support.sdk import sdk_client
from worker.rig import TRACEPARENT, lines

ALWAYS = ["--until-empty", "--backoff", "1h"]
TEXT = "line 1\nline 2 'quoted' $HOME \u00e9\u20ac"


@pytest.fixture(scope="session")
def sns(server):
    return sdk_client(server, service="sns")


@pytest.fixture
def topic(sns, new_name):
    return sns.create_topic(Name=new_name())["TopicArn"]


@pytest.fixture
def subscribed(sns, queue, arn, topic):
    def subscribe(**attributes):
        url = queue()
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn(url), Attributes=attributes)
        return url

    return subscribe


def variables(path):
    return dict(line.split("=", 1) for line in lines(path) if "=" in line)


def attributes(**more):
    raw = {"DataType": "Binary", "BinaryValue": b"\x00\x01"}
    kind = {"DataType": "String", "StringValue": "a b"}
    texts = {name: {"DataType": "String", "StringValue": value} for name, value in more.items()}
    return {"raw": raw, "kind": kind} | texts


def test_commands_get_what_was_published(sns, topic, subscribed, work, tmp_path):
    url = subscribed()
    sns.publish(TopicArn=topic, Message=TEXT, Subject="s", MessageAttributes=attributes(traceparent=TRACEPARENT))

    assert work(url, "--unwrap-sns", "--exec", "cat > body; env > env", *ALWAYS).wait() == 0

    assert (tmp_path / "body").read_text() == TEXT
    env = variables(tmp_path / "env")
    assert (env["MILLRACE_ATTRIBUTE_kind"], env["MILLRACE_ATTRIBUTE_raw"]) == ("a b", "AAE=")
    assert (env["MILLRACE_ATTRIBUTE_Subject"], env["MILLRACE_ATTRIBUTE_TopicArn"]) == ("s", topic)
    assert env["TRACEPARENT"] == TRACEPARENT


def test_an_attribute_goes_before_the_subject(sns, topic, subscribed, work, tmp_path):
    url = subscribed()
    sns.publish(TopicArn=topic, Message="m", Subject="s", MessageAttributes=attributes(Subject="attribute"))

    assert work(url, "--unwrap-sns", "--exec", "env > env", *ALWAYS).wait() == 0

    assert variables(tmp_path / "env")["MILLRACE_ATTRIBUTE_Subject"] == "attribute"


def test_without_the_flag_commands_get_the_notification(sns, topic, subscribed, work, tmp_path):
    url = subscribed()
    sns.publish(TopicArn=topic, Message=TEXT, MessageAttributes=attributes())

    assert work(url, "--exec", "cat > body; env > env", *ALWAYS).wait() == 0

    assert json.loads((tmp_path / "body").read_text())["Message"] == TEXT
    assert not [name for name in variables(tmp_path / "env") if name.startswith("MILLRACE_ATTRIBUTE_")]


def test_other_messages_stay_as_they_are(sns, topic, subscribed, send, work, tmp_path):
    url = subscribed(RawMessageDelivery="true")
    sns.publish(TopicArn=topic, Message="raw", MessageAttributes=attributes())
    odd = ['{"Type":"Notification","Message":"no topic"}', '{"Type":"Other","TopicArn":"a","Message":"m"}', "null", "{"]
    send(url, odd)

    command = 'echo "$(cat) $MILLRACE_ATTRIBUTE_kind" >> bodies'
    assert work(url, "--unwrap-sns", "--exec", command, "--concurrency", "1", *ALWAYS).wait() == 0

    assert sorted(lines(tmp_path / "bodies")) == sorted(["raw a b", *(f"{body} " for body in odd)])


def test_commands_that_stay_and_posts_get_what_was_published(sns, topic, subscribed, work, http_server, tmp_path):
    url, posted = subscribed(), subscribed()
    seen = []
    receiver = http_server(lambda path, headers, body: seen.append((dict(headers), body)) or (200, {}, b""))
    sns.publish(TopicArn=topic, Message="m", Subject="s", MessageAttributes=attributes())

    command = 'while read -r line; do echo "$line" >> seen; number=${line#*:}; echo "${number%%,*} ack"; done'
    assert work(url, "--unwrap-sns", "--exec-mode", "lines", "--exec", command, *ALWAYS).wait() == 0
    assert work(posted, "--unwrap-sns", "--post", f"{receiver.url}/x", *ALWAYS).wait() == 0

    (line,) = map(json.loads, lines(tmp_path / "seen"))
    assert line["body"] == "m"
    assert line["attributes"].keys() == {"raw", "kind", "Subject", "TopicArn"}
    ((headers, body),) = seen
    assert (body, headers["X-Aws-Sqsd-Attr-kind"], headers["X-Aws-Sqsd-Attr-Subject"]) == (b"m", "a b", "s")


def test_a_dead_letter_is_the_notification(sqs, sns, topic, subscribed, queue, work):
    url, dead = subscribed(), queue()
    sns.publish(TopicArn=topic, Message="m")

    assert work(url, "--unwrap-sns", "--exec", "exit 65", "--dead-letter-queue", dead, *ALWAYS).wait() == 0

    (letter,) = sqs.receive_message(QueueUrl=dead)["Messages"]
    assert json.loads(letter["Body"])["Message"] == "m"


def test_a_function_expects_the_envelope(queue, work):
    worker = work(queue(), "--unwrap-sns", "--lambda", "http://127.0.0.1:9")
    assert worker.wait() == 2
    assert "cannot be used with" in worker.text()
