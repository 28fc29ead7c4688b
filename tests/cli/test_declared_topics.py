"""Topics that the configuration file declares."""

import json
import re

import pytest

from support.sdk import sdk_client

FILE = """
[queues.bills]
[queues.late]
[topics.orders]
tags = {{ team = "a" }}
attributes = {{ DisplayName = "{display}" }}
[[topics.orders.subscriptions]]
queue = "bills"
raw = {raw}
filter = '{{"kind":["bill"]}}'
dead_letter_queue = "late"
"""


def test_topics_are_there_as_declared_and_follow_the_file(make_server):
    server = make_server(config=FILE.format(display="first", raw="true"))
    check(server, "first", "true")
    server.config = FILE.format(display="second", raw="false")
    server.restart()
    check(server, "second", "false")


def check(server, display, raw):
    sns = sdk_client(server, service="sns")
    (topic,) = [it["TopicArn"] for it in sns.list_topics()["Topics"]]
    assert sns.get_topic_attributes(TopicArn=topic)["Attributes"]["DisplayName"] == display
    assert sns.list_tags_for_resource(ResourceArn=topic)["Tags"] == [{"Key": "team", "Value": "a"}]
    (subscription,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    arn = subscription["SubscriptionArn"]
    attributes = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert attributes["RawMessageDelivery"] == raw
    assert json.loads(attributes["FilterPolicy"]) == {"kind": ["bill"]}
    assert attributes["RedrivePolicy"].endswith(':late"}')


def test_queues_that_are_not_there_are_in_the_log(make_server):
    without_late = FILE.replace("[queues.late]", "")
    server = make_server(config=without_late.replace("[queues.bills]", "").format(display="d", raw="true"))
    server.config = without_late.format(display="d", raw="false")
    server.restart()

    text = "a declared subscription is about a queue that is not there"
    lines = [line for line in server.log.read_text().splitlines() if text in line]
    assert [re.search(r"queue=\S+:(\w+)", line)[1] for line in lines] == ["bills", "late", "late"]


SCOPED = """
[queues.bills]
[[topics.orders.subscriptions]]
queue = "bills"
filter = '{filter}'
filter_scope = "{scope}"
"""


def test_a_filter_policy_and_its_scope_change_together(make_server):
    policies = {"MessageAttributes": '{"a":["b"]}', "MessageBody": '{"a":{"b":["c"]}}'}
    order = ["MessageAttributes", "MessageBody", "MessageAttributes"]
    files = [SCOPED.format(filter=policies[scope], scope=scope) for scope in order]
    server = make_server(config=files[0])
    for scope, file in zip(order, files, strict=True):
        server.config = file
        server.restart()
        sns = sdk_client(server, service="sns")
        (subscription,) = sns.list_subscriptions()["Subscriptions"]
        arn = subscription["SubscriptionArn"]
        attributes = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
        assert (attributes["FilterPolicyScope"], attributes["FilterPolicy"]) == (scope, policies[scope])


def test_nothing_is_left_of_a_subscription_that_is_refused(make_server):
    server = make_server(config="[topics.orders]")
    server.stop()
    server.config = SCOPED.format(filter='{"a":"b"}', scope="MessageBody")
    with pytest.raises(AssertionError):
        server.start()
    server.config = "[topics.orders]"
    server.start()
    assert sdk_client(server, service="sns").list_subscriptions()["Subscriptions"] == []
