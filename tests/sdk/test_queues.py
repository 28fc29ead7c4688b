"""Queues: names, creation and its repetition, addresses, listing."""

import time

import pytest

from support.expect import NO_QUEUE, refused
from support.wire import ApiError


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
