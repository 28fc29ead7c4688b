"""Every attribute's default, bounds and round trip, and which of them go together."""

import json

import pytest

from support.expect import refused

DEFAULTS = {
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
FIFO_DEFAULTS = {
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoQueue": "true",
    "FifoThroughputLimit": "perQueue",
}
CREATED = {"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn"}


def test_standard_queue_has_exactly_these_attributes(queue, attributes):
    got = attributes(queue())

    assert set(got) == set(DEFAULTS) | CREATED
    assert {name: got[name] for name in DEFAULTS} == DEFAULTS


def test_fifo_queue_has_four_more(sqs, new_name, attributes):
    name = new_name(suffix=".fifo")
    url = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]

    got = attributes(url)

    assert set(got) == set(DEFAULTS) | set(FIFO_DEFAULTS) | CREATED
    assert {name: got[name] for name in FIFO_DEFAULTS} == FIFO_DEFAULTS
    assert got["QueueArn"] == f"arn:aws:sqs:us-east-1:000000000000:{name}"


SETTABLE = [
    ("DelaySeconds", "900"),
    ("MaximumMessageSize", "1024"),
    ("MaximumMessageSize", "1048576"),
    ("MessageRetentionPeriod", "60"),
    ("MessageRetentionPeriod", "1209600"),
    ("ReceiveMessageWaitTimeSeconds", "20"),
    ("VisibilityTimeout", "0"),
    ("VisibilityTimeout", "43200"),
    ("SqsManagedSseEnabled", "false"),
    ("KmsMasterKeyId", "alias/aws/sqs"),
]


@pytest.mark.parametrize(("name", "value"), SETTABLE)
def test_attribute_round_trips(sqs, queue, attributes, name, value):
    created = queue(**{name: value})
    changed = queue()
    sqs.set_queue_attributes(QueueUrl=changed, Attributes={name: value})

    assert attributes(created, name) == {name: value}
    assert attributes(changed, name) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ContentBasedDeduplication", "true"),
        ("DeduplicationScope", "messageGroup"),
        ("FifoQueue", "true"),
    ],
)
def test_fifo_attribute_round_trips(sqs, fifo, attributes, name, value):
    created = fifo(**{name: value})
    changed = fifo()
    sqs.set_queue_attributes(QueueUrl=changed, Attributes={name: value})

    assert attributes(created, name) == {name: value}
    assert attributes(changed, name) == {name: value}


def test_high_throughput_settings_round_trip(fifo, attributes):
    settings = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}

    assert attributes(fifo(**settings), *settings) == settings


def test_policy_round_trips_and_empty_text_removes_it(sqs, queue, attributes):
    url = queue()
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}],
    }

    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    assert json.loads(attributes(url)["Policy"]) == policy

    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert "Policy" not in attributes(url)


@pytest.mark.parametrize(("value", "stored"), [("TRUE", "true"), ("False", "false")])
def test_booleans_are_read_in_any_case_and_answered_in_lower_case(queue, attributes, value, stored):
    url = queue(SqsManagedSseEnabled=value)

    assert attributes(url, "SqsManagedSseEnabled") == {"SqsManagedSseEnabled": stored}


def test_kms_settings(sqs, queue, attributes):
    url = queue()
    names = ["KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled"]

    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/key"})
    assert attributes(url, *names) == {
        "KmsMasterKeyId": "alias/key",
        "KmsDataKeyReusePeriodSeconds": "300",
        "SqsManagedSseEnabled": "false",
    }

    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": ""})
    assert attributes(url, *names) == {"SqsManagedSseEnabled": "false"}


@pytest.mark.parametrize("is_first", [True, False])
def test_reuse_period_goes_with_the_key_in_any_order(api, url, is_first):
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/key"})
    given = [("KmsMasterKeyId", ""), ("KmsDataKeyReusePeriodSeconds", "600")]

    api.call("SetQueueAttributes", QueueUrl=url, Attributes=dict(given if is_first else given[::-1]))

    names = ["KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds"]
    assert "Attributes" not in api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)


def test_only_one_kind_of_encryption(api, url):
    both = {"KmsMasterKeyId": "alias/key", "SqsManagedSseEnabled": "true"}
    message = (
        "You can use one type of server-side encryption (SSE) at one time. "
        "You can either enable KMS SSE or SQS SSE."
    )

    refused(api, "SetQueueAttributes", "InvalidAttributeName", message, QueueUrl=url, Attributes=both)
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/key"})
    managed = {"SqsManagedSseEnabled": "true"}
    refused(api, "SetQueueAttributes", "InvalidAttributeName", message, QueueUrl=url, Attributes=managed)


BAD_VALUES = [
    ("DelaySeconds", "901"),
    ("DelaySeconds", "-1"),
    ("DelaySeconds", "x"),
    ("MaximumMessageSize", "1023"),
    ("MaximumMessageSize", "1048577"),
    ("MessageRetentionPeriod", "59"),
    ("MessageRetentionPeriod", "1209601"),
    ("ReceiveMessageWaitTimeSeconds", "21"),
    ("ReceiveMessageWaitTimeSeconds", "-1"),
    ("VisibilityTimeout", "43201"),
    ("VisibilityTimeout", "-1"),
    ("SqsManagedSseEnabled", "perhaps"),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_bad_attribute_value_is_refused(api, url, new_name, name, value):
    given, message = {name: value}, f"Invalid value for the parameter {name}."

    refused(api, "CreateQueue", "InvalidAttributeValue", message, QueueName=new_name(), Attributes=given)
    refused(api, "SetQueueAttributes", "InvalidAttributeValue", message, QueueUrl=url, Attributes=given)


UNKNOWN = [
    "Foobar",
    "QueueArn",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "ApproximateNumberOfMessages",
    "FifoQueue",
    "ContentBasedDeduplication",
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_or_read_only_attribute_is_refused_on_a_standard_queue(api, url, new_name, name):
    given, message = {name: "false"}, f"Unknown Attribute {name}."

    refused(api, "CreateQueue", "InvalidAttributeName", message, QueueName=new_name(), Attributes=given)
    refused(api, "SetQueueAttributes", "InvalidAttributeName", message, QueueUrl=url, Attributes=given)


@pytest.mark.parametrize("name", ["DeduplicationScope", "FifoThroughputLimit"])
def test_throughput_attributes_need_a_fifo_queue(api, new_name, name):
    value = {"DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"}[name]
    message = f"You can specify the {name} only when FifoQueue is set to true."
    given = {"QueueName": new_name(), "Attributes": {name: value}}

    refused(api, "CreateQueue", "InvalidAttributeName", message, **given)


def test_fifo_queue_cannot_change_its_kind(api, fifo_url):
    message = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."

    api.call("SetQueueAttributes", QueueUrl=fifo_url, Attributes={"FifoQueue": "true"})
    given = {"QueueUrl": fifo_url, "Attributes": {"FifoQueue": "false"}}
    refused(api, "SetQueueAttributes", "InvalidAttributeValue", message, **given)


def test_per_group_throughput_needs_per_group_scope(api, new_name):
    limit = {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}
    name = new_name(suffix=".fifo")

    words = (
        "Invalid value for the parameter FifoThroughputLimit. Reason: To set FifoThroughputLimit to "
        "perMessageGroupId, the DeduplicationScope must be messageGroup."
    )
    refused(api, "CreateQueue", "InvalidAttributeValue", words, QueueName=name, Attributes=limit)


def test_attributes_are_needed(api, queue):
    words = "The request must contain the parameter Attribute.Name."

    refused(api, "SetQueueAttributes", "MissingParameter", words, QueueUrl=queue(), Attributes={})


def test_one_bad_attribute_leaves_all_unchanged(api, sqs, queue, attributes):
    url = queue()
    given = {"VisibilityTimeout": "5", "DelaySeconds": "901", "MaximumMessageSize": "2048"}

    refused(api, "SetQueueAttributes", "InvalidAttributeValue", QueueUrl=url, Attributes=given)

    unchanged = {name: DEFAULTS[name] for name in given}
    assert attributes(url, *given) == unchanged


def test_get_attributes_without_names_answers_none(api, url):
    assert api.call("GetQueueAttributes", QueueUrl=url) == {}
    assert api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"]) == {}
    mixed = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy", "DelaySeconds"])
    assert mixed == {"Attributes": {"DelaySeconds": "0"}}


def test_get_unknown_attribute_is_refused(api, url):
    given = {"QueueUrl": url, "AttributeNames": ["Foobar"]}

    refused(api, "GetQueueAttributes", "InvalidAttributeName", "Unknown Attribute Foobar.", **given)


def test_timestamps_are_seconds_and_modification_moves_one(server, sqs, queue, attributes):
    names = ["CreatedTimestamp", "LastModifiedTimestamp"]
    url = queue()
    created = attributes(url, *names)
    assert created["CreatedTimestamp"] == created["LastModifiedTimestamp"]
    assert abs(int(created["CreatedTimestamp"]) - server.now()) < 10

    server.advance(100)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "1"})

    changed = attributes(url, *names)
    assert changed["CreatedTimestamp"] == created["CreatedTimestamp"]
    moved = int(changed["LastModifiedTimestamp"]) - int(created["LastModifiedTimestamp"])
    assert 100 <= moved <= 110
