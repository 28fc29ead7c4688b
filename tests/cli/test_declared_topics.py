"""Topics that the configuration file declares."""

import json

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
