"""Queues: names, creation, every attribute's default, bounds and round trip, listing."""

import json
import time

import pytest

from support.expect import NO_QUEUE, refused
from support.wire import ApiError

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
def test_reuse_period_goes_with_the_key_in_any_order(api, new_name, is_first):
    url = api.call("CreateQueue", QueueName=new_name())["QueueUrl"]
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/key"})
    given = [("KmsMasterKeyId", ""), ("KmsDataKeyReusePeriodSeconds", "600")]

    api.call("SetQueueAttributes", QueueUrl=url, Attributes=dict(given if is_first else given[::-1]))

    names = ["KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds"]
    assert "Attributes" not in api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)


def test_only_one_kind_of_encryption(api, new_name):
    both = {"KmsMasterKeyId": "alias/key", "SqsManagedSseEnabled": "true"}
    message = (
        "You can use one type of server-side encryption (SSE) at one time. "
        "You can either enable KMS SSE or SQS SSE."
    )
    url = api.call("CreateQueue", QueueName=new_name())["QueueUrl"]

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
def test_bad_attribute_value_is_refused(api, new_name, name, value):
    url = api.call("CreateQueue", QueueName=new_name())["QueueUrl"]
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
def test_unknown_or_read_only_attribute_is_refused_on_a_standard_queue(api, new_name, name):
    url = api.call("CreateQueue", QueueName=new_name())["QueueUrl"]
    given, message = {name: "false"}, f"Unknown Attribute {name}."

    refused(api, "CreateQueue", "InvalidAttributeName", message, QueueName=new_name(), Attributes=given)
    refused(api, "SetQueueAttributes", "InvalidAttributeName", message, QueueUrl=url, Attributes=given)


@pytest.mark.parametrize("name", ["DeduplicationScope", "FifoThroughputLimit"])
def test_throughput_attributes_need_a_fifo_queue(api, new_name, name):
    value = {"DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"}[name]
    message = f"You can specify the {name} only when FifoQueue is set to true."

    refused(
        api,
        "CreateQueue",
        "InvalidAttributeName",
        message,
        QueueName=new_name(),
        Attributes={name: value},
    )


def test_fifo_queue_cannot_change_its_kind(api, new_name):
    url = api.call("CreateQueue", QueueName=new_name(suffix=".fifo"), Attributes={"FifoQueue": "true"})[
        "QueueUrl"
    ]
    message = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."

    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"FifoQueue": "true"})
    refused(
        api,
        "SetQueueAttributes",
        "InvalidAttributeValue",
        message,
        QueueUrl=url,
        Attributes={"FifoQueue": "false"},
    )


def test_per_group_throughput_needs_per_group_scope(api, new_name):
    limit = {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}
    name = new_name(suffix=".fifo")

    words = (
        "Invalid value for the parameter FifoThroughputLimit. Reason: To set FifoThroughputLimit to "
        "perMessageGroupId, the DeduplicationScope must be messageGroup."
    )
    refused(api, "CreateQueue", "InvalidAttributeValue", words, QueueName=name, Attributes=limit)


DEPENDENT = [
    (".fifo", "FifoThroughputLimit", "perMessageGroupId", {"DeduplicationScope": "messageGroup"}),
    ("", "KmsDataKeyReusePeriodSeconds", "120", {"KmsMasterKeyId": "alias/k"}),
]


@pytest.mark.parametrize(("suffix", "name", "value", "needs"), DEPENDENT, ids=["throughput", "period"])
def test_attribute_that_needs_another_may_be_repeated_alone(api, new_name, suffix, name, value, needs):
    kind = {"FifoQueue": "true"} if suffix else {}
    queue = new_name(suffix=suffix)
    first = api.call("CreateQueue", QueueName=queue, Attributes=kind | needs | {name: value})

    assert api.call("CreateQueue", QueueName=queue, Attributes=kind | {name: value}) == first
    with pytest.raises(ApiError):
        other = kind | {name: value, "VisibilityTimeout": "7"}
        api.call("CreateQueue", QueueName=queue, Attributes=other)


@pytest.mark.parametrize("period", ["60", "300"])
def test_a_period_without_a_key_may_be_repeated(api, new_name, period):
    given = {"QueueName": new_name(), "Attributes": {"KmsDataKeyReusePeriodSeconds": period}}

    assert api.call("CreateQueue", **given) == api.call("CreateQueue", **given)


def test_attributes_are_needed(api, queue):
    words = "The request must contain the parameter Attribute.Name."

    refused(api, "SetQueueAttributes", "MissingParameter", words, QueueUrl=queue(), Attributes={})


@pytest.mark.parametrize("action", ["SendMessage", "GetQueueAttributes", "DeleteQueue"])
def test_an_arn_is_no_address(api, queue, action):
    arn = "arn:aws:sqs:us-east-1:000000000000:" + queue().rpartition("/")[2]
    given = {"MessageBody": "x"} if action == "SendMessage" else {}

    refused(
        api, action, "InvalidAddress", f"The address {arn} is not valid for this endpoint.", QueueUrl=arn, **given
    )


@pytest.mark.parametrize("action", ["SendMessage", "GetQueueAttributes", "DeleteQueue"])
def test_a_host_alone_is_a_queue_that_there_is_not(api, action):
    given = {"MessageBody": "x"} if action == "SendMessage" else {}

    refused(api, action, NO_QUEUE, QueueUrl="http://no-such-queue", **given)
    refused(api, action, "InvalidAddress", status=404, QueueUrl="http://no-such-queue/", **given)


def test_one_bad_attribute_leaves_all_unchanged(api, sqs, queue, attributes):
    url = queue()
    given = {"VisibilityTimeout": "5", "DelaySeconds": "901", "MaximumMessageSize": "2048"}

    refused(api, "SetQueueAttributes", "InvalidAttributeValue", QueueUrl=url, Attributes=given)

    unchanged = {name: DEFAULTS[name] for name in given}
    assert attributes(url, *given) == unchanged


BAD_NAMES = ["a" * 81, "with space", "with.dot", "with/slash", "\u00e9", "!", ".fifo"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_queue_name_is_refused(api, name):
    refused(api, "CreateQueue", "InvalidParameterValue", QueueName=name)


def test_empty_queue_name_is_refused(json_api):
    refused(json_api, "CreateQueue", "InvalidParameterValue", QueueName="")


@pytest.mark.parametrize("fifo_name", [False, True])
def test_fifo_suffix_and_fifo_attribute_go_together(api, new_name, fifo_name):
    if fifo_name:
        given = {"QueueName": new_name(suffix=".fifo")}
    else:
        given = {"QueueName": new_name(), "Attributes": {"FifoQueue": "true"}}

    refused(api, "CreateQueue", "InvalidParameterValue", **given)


def test_longest_names_are_accepted(api, new_name):
    plain = new_name("long-").ljust(80, "x")
    fifo = new_name("long-").ljust(75, "x") + ".fifo"

    assert api.call("CreateQueue", QueueName=plain)["QueueUrl"].endswith(plain)
    answer = api.call("CreateQueue", QueueName=fifo, Attributes={"FifoQueue": "true"})
    assert answer["QueueUrl"].endswith(fifo)


def test_names_are_case_sensitive(api, new_name):
    name = new_name("case")

    lower = api.call("CreateQueue", QueueName=name)["QueueUrl"]
    upper = api.call("CreateQueue", QueueName=name.upper())["QueueUrl"]

    assert lower != upper


def test_create_is_idempotent_for_the_given_attributes(api, new_name):
    name = new_name()
    url = api.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "5"})["QueueUrl"]

    assert api.call("CreateQueue", QueueName=name)["QueueUrl"] == url
    again = api.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "5"})
    assert again["QueueUrl"] == url
    default = api.call("CreateQueue", QueueName=name, Attributes={"VisibilityTimeout": "30"})
    assert default["QueueUrl"] == url


def test_create_with_another_value_is_refused(api, new_name):
    name = new_name()
    url = api.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "1"})["QueueUrl"]
    message = "A queue already exists with the same name and a different value for attribute DelaySeconds"

    refused(
        api, "CreateQueue", "QueueAlreadyExists", message, QueueName=name, Attributes={"DelaySeconds": "2"}
    )

    # It is the current value that counts, not the one of the first call.
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"DelaySeconds": "2"})
    api.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "2"})
    refused(
        api, "CreateQueue", "QueueAlreadyExists", message, QueueName=name, Attributes={"DelaySeconds": "1"}
    )


def test_get_attributes_without_names_answers_none(api, new_name):
    url = api.call("CreateQueue", QueueName=new_name())["QueueUrl"]

    assert api.call("GetQueueAttributes", QueueUrl=url) == {}
    assert api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"]) == {}
    mixed = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy", "DelaySeconds"])
    assert mixed == {"Attributes": {"DelaySeconds": "0"}}


def test_get_unknown_attribute_is_refused(api, new_name):
    url = api.call("CreateQueue", QueueName=new_name())["QueueUrl"]

    refused(
        api,
        "GetQueueAttributes",
        "InvalidAttributeName",
        "Unknown Attribute Foobar.",
        QueueUrl=url,
        AttributeNames=["Foobar"],
    )


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


NEEDS_QUEUE = {
    "GetQueueAttributes": {"AttributeNames": ["All"]},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
    "DeleteQueue": {},
    "PurgeQueue": {},
    "SendMessage": {"MessageBody": "x"},
    "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "x"}]},
    "ReceiveMessage": {},
    "DeleteMessage": {"ReceiptHandle": "x"},
    "ChangeMessageVisibility": {"ReceiptHandle": "x", "VisibilityTimeout": 1},
    "ListQueueTags": {},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
    "ListDeadLetterSourceQueues": {},
    "AddPermission": {"Label": "l", "AWSAccountIds": ["1" * 12], "Actions": ["*"]},
    "RemovePermission": {"Label": "l"},
}


@pytest.mark.parametrize("action", NEEDS_QUEUE)
def test_missing_queue_is_a_400_and_each_protocol_has_its_words(api, action):
    url = f"{api.endpoint}/000000000000/no-such-queue"
    message = "The specified queue does not exist."
    if api.protocol == "query":
        message = "The specified queue does not exist for this wsdl version."

    refused(api, action, NO_QUEUE, message, QueueUrl=url, **NEEDS_QUEUE[action])


def test_url_of_a_missing_queue_is_refused(api, new_name):
    refused(api, "GetQueueUrl", NO_QUEUE, QueueName=new_name())


@pytest.mark.parametrize("owner", ["11111111111", "1", "somebody"])
def test_malformed_account_is_not_taken_for_ones_own(api, new_name, owner):
    name = new_name()
    api.call("CreateQueue", QueueName=name)

    refused(api, "GetQueueUrl", NO_QUEUE, QueueName=name, QueueOwnerAWSAccountId=owner)
    if owner.isdigit():
        url = f"{api.endpoint}/{owner}/{name}"
        refused(api, "DeleteQueue", "InvalidAddress", status=404, QueueUrl=url)


@pytest.fixture(scope="module")
def prefix(sqs):
    """Of seven queues: one page of real size would be slow to create, paging works the same."""
    prefix = f"listed-{time.time_ns()}-"
    for n in range(7):
        sqs.create_queue(QueueName=f"{prefix}{n}")
    return prefix


class TestListing:
    def test_prefix(self, api, prefix):
        urls = api.call("ListQueues", QueueNamePrefix=prefix)

        assert [url[-1] for url in urls["QueueUrls"]] == list("0123456")
        assert "NextToken" not in urls
        assert api.call("ListQueues", QueueNamePrefix=prefix.upper()) == {}

    def test_pages(self, api, prefix):
        seen, token = [], {}
        for expected in (3, 3, 1):
            page = api.call("ListQueues", QueueNamePrefix=prefix, MaxResults=3, **token)
            assert len(page["QueueUrls"]) == expected
            seen += page["QueueUrls"]
            token = {"NextToken": page["NextToken"]} if "NextToken" in page else {}

        assert token == {}
        assert len(set(seen)) == 7

    @pytest.mark.parametrize("results", [0, 1001, -1])
    def test_page_size_is_bounded(self, api, results):
        refused(api, "ListQueues", "InvalidParameterValue", MaxResults=results)
