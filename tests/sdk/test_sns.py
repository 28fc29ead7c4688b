"""Topics, by boto3: the texts of errors, attributes, subscriptions, what queues get."""

import base64
import hashlib
import json
import re
import uuid

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from botocore.exceptions import ClientError

from support.sdk import sdk_client

ACCOUNT = "000000000000"
TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:"
QUEUE = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture(scope="session")
def sns(server):
    return sdk_client(server, service="sns")


@pytest.fixture
def topic(sns, new_name):
    return sns.create_topic(Name=new_name())["TopicArn"]


@pytest.fixture
def fifo_topic(sns, new_name):
    return sns.create_topic(Name=new_name(suffix=".fifo"), Attributes={"FifoTopic": "true"})["TopicArn"]


@pytest.fixture
def subscribed(sns, queue, arn):
    """Subscribes a new standard queue: `subscribed(topic, RawMessageDelivery="true")` → URL, ARN."""

    def subscribe(topic, url=None, **attributes):
        url = url or queue()
        request = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": arn(url), "Attributes": attributes}
        return url, sns.subscribe(**request)["SubscriptionArn"]

    return subscribe


@pytest.fixture
def messages(sqs):
    def of(url, count=1):
        names = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
        found = []
        while len(found) < count:
            answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **names)
            assert "Messages" in answer, f"{len(found)} of {count}"
            found += answer["Messages"]
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
        return found

    return of


def refusal(call, **request):
    """Code, status and text of the error."""
    with pytest.raises(ClientError) as refused:
        call(**request)
    response = refused.value.response
    return (
        response["Error"]["Code"],
        response["ResponseMetadata"]["HTTPStatusCode"],
        response["Error"]["Message"],
    )


def invalid(text):
    return "InvalidParameter", 400, f"Invalid parameter: {text}"


# Topics


def test_a_topic_is_created_once(sns, new_name):
    name = new_name()
    first = sns.create_topic(Name=name, Attributes={"DisplayName": "d"}, Tags=[{"Key": "k", "Value": "v"}])
    assert first["TopicArn"] == TOPIC + name

    assert sns.create_topic(Name=name)["TopicArn"] == first["TopicArn"]
    assert sns.create_topic(Name=name, Attributes={"DisplayName": "d"})["TopicArn"] == first["TopicArn"]
    other = "Reason: Topic already exists with different"
    assert refusal(sns.create_topic, Name=name, Attributes={"DisplayName": "e"}) == invalid(
        f"Attributes {other} attributes"
    )
    assert refusal(sns.create_topic, Name=name, Tags=[{"Key": "k", "Value": "w"}]) == invalid(f"Tags {other} tags")


@pytest.mark.parametrize(
    "name, attributes",
    [
        ("", {}),
        ("a b", {}),
        ("a.fifo", {}),
        ("a", {"FifoTopic": "true"}),
        ("x" * 257, {}),
        ("a.fifo", {"FifoTopic": "false"}),
    ],
)
def test_names_of_topics(sns, name, attributes):
    assert refusal(sns.create_topic, Name=name, Attributes=attributes) == invalid("Topic Name")


def test_attributes_of_a_topic(sns, topic, fifo_topic):
    attributes = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    policy = json.loads(attributes.pop("Policy"))
    delivery = json.loads(attributes.pop("EffectiveDeliveryPolicy"))
    assert attributes == {
        "TopicArn": topic,
        "Owner": ACCOUNT,
        "DisplayName": "",
        "SubscriptionsConfirmed": "0",
        "SubscriptionsPending": "0",
        "SubscriptionsDeleted": "0",
    }
    (statement,) = policy["Statement"]
    assert (policy["Version"], policy["Id"]) == ("2008-10-17", "__default_policy_ID")
    assert statement["Condition"] == {"StringEquals": {"AWS:SourceOwner": ACCOUNT}}
    assert delivery["http"]["defaultHealthyRetryPolicy"]["numRetries"] == 3

    fifo = sns.get_topic_attributes(TopicArn=fifo_topic)["Attributes"]
    assert (fifo["FifoTopic"], fifo["ContentBasedDeduplication"]) == ("true", "false")

    for name, value in [
        ("DisplayName", "new"),
        ("TracingConfig", "Active"),
        ("SignatureVersion", "2"),
        ("KmsMasterKeyId", "alias/k"),
        ("MaximumMessageSize", "2048"),
        ("SQSSuccessFeedbackSampleRate", "10"),
    ]:
        sns.set_topic_attributes(TopicArn=topic, AttributeName=name, AttributeValue=value)
        assert sns.get_topic_attributes(TopicArn=topic)["Attributes"][name] == value
    for name in ["FifoTopic", "Unknown", "Owner"]:
        request = {"TopicArn": topic, "AttributeName": name, "AttributeValue": "true"}
        assert refusal(sns.set_topic_attributes, **request) == invalid("AttributeName")


NO_TOPIC = ("NotFound", 404, "Topic does not exist")
SHORT = invalid("TopicArn Reason: An ARN must have at least 6 elements, not 1")


@pytest.mark.parametrize(
    "action, more",
    [
        ("publish", {"Message": "m"}),
        ("get_topic_attributes", {}),
        ("set_topic_attributes", {"AttributeName": "DisplayName", "AttributeValue": "d"}),
        ("subscribe", {"Protocol": "sqs", "Endpoint": QUEUE + "q"}),
        ("list_subscriptions_by_topic", {}),
    ],
)
def test_a_topic_that_does_not_exist(sns, action, more):
    call = getattr(sns, action)
    assert refusal(call, TopicArn=TOPIC + "none", **more) == NO_TOPIC
    assert refusal(call, TopicArn="none", **more) == SHORT
    assert refusal(call, TopicArn=TOPIC.replace("us-east-1", "eu-west-1") + "none", **more) == invalid("TopicArn")


def test_deleting_a_topic(sns, topic, subscribed):
    _, subscription = subscribed(topic)

    sns.delete_topic(TopicArn=topic)
    sns.delete_topic(TopicArn=topic)

    assert refusal(sns.publish, TopicArn=topic, Message="m") == NO_TOPIC
    sns.unsubscribe(SubscriptionArn=subscription)


def test_pages_of_topics(server, new_name):
    own = sdk_client(server, service="sns", access_key="111111111111")
    names = sorted(f"page-{n}" for n in range(101))
    for name in names:
        own.create_topic(Name=name)

    first = own.list_topics()
    second = own.list_topics(NextToken=first["NextToken"])

    listed = [it["TopicArn"].rpartition(":")[2] for it in first["Topics"] + second["Topics"]]
    assert (len(first["Topics"]), "NextToken" in second, listed) == (100, False, names)
    assert refusal(own.list_topics, NextToken="?") == invalid("NextToken")


def test_tokens_of_pages_are_those_of_their_list(sns, topic, subscribed):
    subscription = subscribed(topic)[1]
    token = lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    elsewhere = TOPIC.replace("us-east-1", "us-west-2") + "t"
    for wrong in ["x", "?", "a" * 1000, token("hello"), token(elsewhere), token(topic) + "=", token(TOPIC[:-1])]:
        for call in (sns.list_topics, sns.list_subscriptions):
            assert refusal(call, NextToken=wrong) == invalid("NextToken"), wrong
        by_topic = {"TopicArn": topic, "NextToken": wrong}
        assert refusal(sns.list_subscriptions_by_topic, **by_topic) == invalid("NextToken"), wrong
    of_another = {"TopicArn": topic, "NextToken": token(TOPIC + "other:" + str(uuid.uuid4()))}
    assert refusal(sns.list_subscriptions_by_topic, **of_another) == invalid("NextToken")
    page = sns.list_subscriptions_by_topic(TopicArn=topic, NextToken=token(subscription))
    assert page["Subscriptions"] == []


def test_too_many_parameters(server):
    form = "Action=ListTopics&Version=2010-03-31" + "&a=" * 65_536
    head = {"Content-Type": "application/x-www-form-urlencoded"}
    status, body = server.http("POST", "/", form.encode(), head)
    assert (status, b"<Code>MalformedQueryString</Code>" in body) == (404, True)
    assert b'xmlns="http://sns.amazonaws.com/doc/2010-03-31/"' in body


def test_tags_that_are_refused(sns, topic):
    def refused(key, value=""):
        return refusal(sns.tag_resource, ResourceArn=topic, Tags=[{"Key": key, "Value": value}])

    failed = "1 validation error detected: Value '{}' at 'tags.1.member.{}' failed to satisfy constraint: {}"
    length = "Member must have length less than or equal to {}"
    long = "k" * 129
    assert refused(long) == ("ValidationError", 400, failed.format(long, "key", length.format(128)))
    long = "v" * 257
    assert refused("k", long) == ("ValidationError", 400, failed.format(long, "value", length.format(256)))
    for reserved in ["aws:a", "AWS:a"]:
        assert refused(reserved) == invalid("Tags Reason: keys that begin with aws: are reserved for system use")
    assert refused("a*")[0] == "InvalidParameter"
    assert sns.list_tags_for_resource(ResourceArn=topic)["Tags"] == []


def test_tags(sns, topic):
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    sns.tag_resource(ResourceArn=topic, Tags=tags)
    sns.untag_resource(ResourceArn=topic, TagKeys=["a", "none"])

    assert sns.list_tags_for_resource(ResourceArn=topic)["Tags"] == tags[1:]
    assert refusal(sns.tag_resource, ResourceArn=topic, Tags=[tags[0], tags[0]]) == invalid(
        "Duplicated keys are not allowed."
    )
    missing = ("ResourceNotFound", 404, "Resource does not exist")
    assert refusal(sns.list_tags_for_resource, ResourceArn=TOPIC + "none") == missing


def test_permissions(sns, topic):
    request = {"TopicArn": topic, "Label": "l", "AWSAccountId": ["1" * 12], "ActionName": ["Publish"]}
    sns.add_permission(**request)
    policy = json.loads(sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"])
    assert policy["Statement"][1] == {
        "Sid": "l",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": "SNS:Publish",
        "Resource": topic,
    }
    assert refusal(sns.add_permission, **request) == invalid("Statement already exists")
    other = request | {"Label": "m", "ActionName": ["SendMessage"]}
    assert refusal(sns.add_permission, **other) == invalid("Policy statement action out of service scope!")

    sns.remove_permission(TopicArn=topic, Label="l")
    sns.remove_permission(TopicArn=topic, Label="none")
    policy = json.loads(sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"])
    assert [statement["Sid"] for statement in policy["Statement"]] == ["__default_statement_ID"]


def test_policies_and_attributes_are_bounded(sns, topic):
    accounts = [str(100_000_000_000 + n) for n in range(1_000)]
    many = {"TopicArn": topic, "Label": "many", "AWSAccountId": accounts, "ActionName": ["Publish"]}
    assert refusal(sns.add_permission, **many) == invalid("Policy Error: the policy is too long")
    assert "many" not in sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"]
    for name in ["DeliveryPolicy", "SQSSuccessFeedbackRoleArn"]:
        long = {"TopicArn": topic, "AttributeName": name, "AttributeValue": "{" + " " * 32_767 + "}"}
        assert refusal(sns.set_topic_attributes, **long) == invalid(name)


def test_actions_that_are_not_served(sns):
    code, status, text = refusal(sns.list_platform_applications)
    assert (code, status) == ("InvalidAction", 400)
    assert "ListPlatformApplications" in text and "mobile push" in text


# Subscriptions


def test_a_subscription_is_made_once(sns, topic, subscribed):
    url, first = subscribed(topic, RawMessageDelivery="true")
    assert re.fullmatch(f"{topic}:{UUID}", first)

    assert subscribed(topic, url)[1] == first
    assert subscribed(topic, url, RawMessageDelivery="true")[1] == first
    with pytest.raises(ClientError, match="Attributes Reason: Subscription already exists with different attributes"):
        subscribed(topic, url, RawMessageDelivery="false")
    counts = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert (counts["SubscriptionsConfirmed"], counts["SubscriptionsPending"]) == ("1", "0")


def test_attributes_of_a_subscription(sns, topic, subscribed, arn):
    url, subscription = subscribed(topic)
    attributes = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    assert attributes == {
        "SubscriptionArn": subscription,
        "TopicArn": topic,
        "Owner": ACCOUNT,
        "Protocol": "sqs",
        "Endpoint": arn(url),
        "PendingConfirmation": "false",
        "ConfirmationWasAuthenticated": "true",
        "RawMessageDelivery": "false",
        "SubscriptionPrincipal": f"arn:aws:iam::{ACCOUNT}:root",
    }

    def set_to(name, value):
        request = {"SubscriptionArn": subscription, "AttributeName": name, "AttributeValue": value}
        sns.set_subscription_attributes(**request)
        return sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]

    assert set_to("RawMessageDelivery", "true")["RawMessageDelivery"] == "true"
    assert set_to("FilterPolicy", '{"a":["b"]}')["FilterPolicyScope"] == "MessageAttributes"
    assert "FilterPolicy" not in set_to("FilterPolicy", "{}")


PENDING_HTTP = {"Protocol": "http", "Endpoint": "http://127.0.0.1:9/"}


@pytest.mark.parametrize(
    "protocol, endpoint, text",
    [
        ("fax", "x", "Amazon SNS does not support this protocol string: fax"),
        ("sqs", "http://127.0.0.1/000000000000/q", "SQS endpoint ARN"),
        ("sqs", "arn:aws:sqs:us-east-1", "SQS endpoint ARN"),
        ("sqs", QUEUE + "q:x", "SQS endpoint ARN"),
        ("sqs", QUEUE.replace("arn:aws:", "arn:aws-cn:") + "q", "SQS endpoint ARN"),
        ("http", "https://h/", "Endpoint must match the specified protocol"),
        ("https", "http://h/", "Endpoint must match the specified protocol"),
        (
            "sqs",
            QUEUE + "q.fifo",
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics",
        ),
    ],
)
def test_endpoints(sns, topic, protocol, endpoint, text):
    assert refusal(sns.subscribe, TopicArn=topic, Protocol=protocol, Endpoint=endpoint) == invalid(text)


@pytest.mark.parametrize("protocol", ["email", "email-json", "sms", "application", "lambda", "firehose"])
def test_protocols_that_are_not_served(sns, topic, protocol):
    code, _, text = refusal(sns.subscribe, TopicArn=topic, Protocol=protocol, Endpoint="x")
    assert code == "InvalidParameter" and protocol in text


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("RawMessageDelivery", "x", "RawMessageDelivery: Invalid value [x]. Must be true or false."),
        ("Unknown", "x", "AttributeName"),
        (
            "RedrivePolicy",
            '{"deadLetterTargetArn": "x"}',
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        (
            "FilterPolicyScope",
            "X",
            "FilterPolicyScope: Invalid value [X]. Please use either MessageBody or MessageAttributes",
        ),
    ],
)
def test_attributes_that_are_refused(sns, topic, subscribed, name, value, text):
    request = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": QUEUE + "q", "Attributes": {name: value}}
    assert refusal(sns.subscribe, **request) == invalid(f"Attributes Reason: {text}")
    _, subscription = subscribed(topic)
    request = {"SubscriptionArn": subscription, "AttributeName": name, "AttributeValue": value}
    assert refusal(sns.set_subscription_attributes, **request) == invalid(text)


@pytest.mark.parametrize("place", ["us-west-2:000000000000", "us-east-1:111111111111"])
def test_a_dead_letter_queue_is_of_the_same_account_and_region(sns, topic, subscribed, queue, arn, place):
    policy = json.dumps({"deadLetterTargetArn": f"arn:aws:sqs:{place}:d"})
    reason = "RedrivePolicy: deadLetterTargetArn must be a queue of the subscription's account and region"
    request = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": arn(queue())}
    attributes = {"RedrivePolicy": policy}
    assert refusal(sns.subscribe, **request, Attributes=attributes) == invalid(f"Attributes Reason: {reason}")
    change = {"AttributeName": "RedrivePolicy", "AttributeValue": policy}
    subscription = sns.subscribe(**request)["SubscriptionArn"]
    refused = refusal(sns.set_subscription_attributes, SubscriptionArn=subscription, **change)
    assert refused == invalid(reason)


def test_a_dead_letter_queue_of_a_fifo_topic_is_fifo(sns, fifo_topic):
    policy = json.dumps({"deadLetterTargetArn": QUEUE + "dead"})
    request = {"TopicArn": fifo_topic, "Protocol": "sqs", "Endpoint": QUEUE + "q.fifo"}
    text = "RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."
    assert refusal(sns.subscribe, **request, Attributes={"RedrivePolicy": policy}) == invalid(
        f"Attributes Reason: {text}"
    )


def test_subscriptions_that_do_not_exist(sns, topic):
    known = ("NotFound", 404, "Subscription does not exist")
    gone = f"{topic}:{uuid.uuid4()}"
    assert refusal(sns.get_subscription_attributes, SubscriptionArn=gone) == known
    request = {"SubscriptionArn": gone, "AttributeName": "RawMessageDelivery", "AttributeValue": "true"}
    assert refusal(sns.set_subscription_attributes, **request) == known
    sns.unsubscribe(SubscriptionArn=gone)
    short = "SubscriptionArn Reason: An ARN must have at least 6 elements, not 1"
    assert refusal(sns.unsubscribe, SubscriptionArn="x") == invalid(short)
    assert refusal(sns.unsubscribe, SubscriptionArn=topic) == invalid("SubscriptionId")


def test_http_endpoints_have_to_confirm(sns, topic):
    assert sns.subscribe(TopicArn=topic, **PENDING_HTTP)["SubscriptionArn"] == "pending confirmation"
    told = sns.subscribe(TopicArn=topic, **PENDING_HTTP, ReturnSubscriptionArn=True)["SubscriptionArn"]

    (listed,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert listed == {
        "SubscriptionArn": "PendingConfirmation",
        "Owner": ACCOUNT,
        "TopicArn": topic,
        **PENDING_HTTP,
    }
    attributes = sns.get_subscription_attributes(SubscriptionArn=told)["Attributes"]
    assert attributes["PendingConfirmation"] == "true"
    assert json.loads(attributes["EffectiveDeliveryPolicy"])["healthyRetryPolicy"]["numRetries"] == 3
    sns.publish(TopicArn=topic, Message="m")  # To nobody.


def test_confirmations_that_are_refused(sns, topic):
    assert refusal(sns.confirm_subscription, TopicArn="x", Token="a" * 288) == invalid("Topic")
    assert refusal(sns.confirm_subscription, TopicArn=topic, Token="x") == invalid("Token")
    unknown = ("InvalidParameter", 400, "Invalid token")
    assert refusal(sns.confirm_subscription, TopicArn=topic, Token="a" * 288) == unknown


# Publishing


def check_signature(server, body, algorithm):
    """The signature of a notification, as its receivers check it."""
    assert body["SignatureVersion"] == ("1" if algorithm.name == "sha1" else "2")
    status, pem = server.get(body["SigningCertURL"].removeprefix(server.endpoint))[:2]
    assert status == 200
    names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
    text = "".join(f"{name}\n{body[name]}\n" for name in names if name in body)
    certificate = x509.load_pem_x509_certificate(pem if isinstance(pem, bytes) else pem.encode())
    signature = base64.b64decode(body["Signature"])
    certificate.public_key().verify(signature, text.encode(), padding.PKCS1v15(), algorithm)


def test_a_topic_of_signature_version_2(sns, topic, subscribed, messages, server):
    sns.set_topic_attributes(TopicArn=topic, AttributeName="SignatureVersion", AttributeValue="2")
    url, _ = subscribed(topic)
    sns.publish(TopicArn=topic, Message="m\nn é")
    (message,) = messages(url)
    body = json.loads(message["Body"])
    check_signature(server, body, hashes.SHA256())
    with pytest.raises(InvalidSignature):
        check_signature(server, body | {"Message": "other"}, hashes.SHA256())


def test_a_notification(sns, topic, subscribed, messages, server):
    url, subscription = subscribed(topic)
    attributes = {
        "text": {"DataType": "String", "StringValue": "é"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
    }
    answer = sns.publish(TopicArn=topic, Message='{"a": 1}', Subject="s", MessageAttributes=attributes)

    (message,) = messages(url)
    body = json.loads(message["Body"])
    assert re.fullmatch(UUID, answer["MessageId"]) and "SequenceNumber" not in answer
    assert answer["MessageId"] != message["MessageId"]
    assert "MessageAttributes" not in message
    assert message["MD5OfBody"] == hashlib.md5(message["Body"].encode()).hexdigest()
    check_signature(server, body, hashes.SHA1())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body.pop("Timestamp"))
    for name in ("Signature", "SignatureVersion", "SigningCertURL"):
        del body[name]
    unsubscribe = f"{server.endpoint}/?Action=Unsubscribe&SubscriptionArn={subscription}"
    assert body == {
        "Type": "Notification",
        "MessageId": answer["MessageId"],
        "TopicArn": topic,
        "Subject": "s",
        "Message": '{"a": 1}',
        "UnsubscribeURL": unsubscribe,
        "MessageAttributes": {
            "text": {"Type": "String", "Value": "é"},
            "bytes": {"Type": "Binary", "Value": base64.b64encode(b"\x00\x01").decode()},
        },
    }

    # The link works without a signature.
    path = unsubscribe.removeprefix(server.endpoint)
    assert server.get(path)[0] == 200
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []


def test_raw_delivery(sns, topic, subscribed, messages):
    url, _ = subscribed(topic, RawMessageDelivery="true")
    attributes = {"n": {"DataType": "Number.x", "StringValue": "7"}}

    sns.publish(TopicArn=topic, Message="bare", MessageAttributes=attributes, MessageGroupId="g")

    (message,) = messages(url)
    assert (message["Body"], message["MessageAttributes"]) == ("bare", attributes)
    assert message["Attributes"]["MessageGroupId"] == "g"


def test_message_structure(sns, topic, subscribed, messages):
    url, _ = subscribed(topic, RawMessageDelivery="true")
    for text in [{"default": "d", "sqs": "q"}, {"default": "d", "email": "e"}]:
        sns.publish(TopicArn=topic, Message=json.dumps(text), MessageStructure="json")

    assert sorted(message["Body"] for message in messages(url, 2)) == ["d", "q"]


def of_type(data_type, **value):
    return {"MessageAttributes": {"attr1": {"DataType": data_type, **value}}}


@pytest.mark.parametrize(
    "more, error",
    [
        ({"Message": ""}, invalid("Empty message")),
        ({"Subject": ""}, invalid("Subject")),
        ({"Subject": "x" * 100}, invalid("Subject")),
        ({"Subject": "a\nb"}, invalid("Subject")),
        ({"Message": "x" * 262_145}, invalid("Message too long")),
        (
            {"MessageStructure": "json", "Message": '{"sqs": "x"}'},
            invalid("Message Structure - No default entry in JSON message body"),
        ),
        (
            {"MessageStructure": "json", "Message": "x"},
            invalid("Message Structure - JSON message body failed to parse"),
        ),
        (
            {"MessageDeduplicationId": "d"},
            invalid(
                "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not "
                "valid for this topic type"
            ),
        ),
        (
            of_type("String", StringValue=""),
            (
                "ParameterValueInvalid",
                400,
                "The message attribute 'attr1' must contain non-empty message attribute value for message attribute "
                "type 'String'.",
            ),
        ),
        (
            of_type("Number", BinaryValue=b"x"),
            (
                "ParameterValueInvalid",
                400,
                "The message attribute 'attr1' with type 'Number' must use field 'String'.",
            ),
        ),
    ],
)
def test_messages_that_are_refused(sns, topic, more, error):
    assert refusal(sns.publish, **({"TopicArn": topic, "Message": "m"} | more)) == error


def test_targets_that_are_refused(sns):
    nothing = "TopicArn or TargetArn Reason: no value for required parameter"
    assert refusal(sns.publish, Message="m") == invalid(nothing)
    assert refusal(sns.publish, Message="m", PhoneNumber="+1")[0] == "InvalidParameter"
    endpoint = TOPIC + "endpoint/GCM/a/b"
    assert refusal(sns.publish, Message="m", TargetArn=endpoint)[0] == "InvalidParameter"


def test_the_topics_own_size_limit(sns, topic):
    sns.set_topic_attributes(TopicArn=topic, AttributeName="MaximumMessageSize", AttributeValue="1048576")
    sns.publish(TopicArn=topic, Message="x" * 1_048_576)
    assert refusal(sns.publish, TopicArn=topic, Message="x" * 1_048_577) == invalid("Message too long")


def test_a_batch(sns, topic, subscribed, messages):
    url, _ = subscribed(topic, RawMessageDelivery="true")
    entries = [{"Id": f"e{n}", "Message": str(n)} for n in range(10)]

    answer = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)

    assert answer["Failed"] == []
    assert [entry["Id"] for entry in answer["Successful"]] == [f"e{n}" for n in range(10)]
    assert sorted(int(message["Body"]) for message in messages(url, 10)) == list(range(10))


@pytest.mark.parametrize(
    "entries, code, text",
    [
        ([("a", "m")] * 2, "BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id."),
        (
            [(str(n), "m") for n in range(11)],
            "TooManyEntriesInBatchRequest",
            "The batch request contains more entries than permissible.",
        ),
        (
            [(str(n), "x" * 30_000) for n in range(10)],
            "BatchRequestTooLong",
            "The length of all the messages put together is more than the limit.",
        ),
        (
            [("a!", "m")],
            "InvalidBatchEntryId",
            "The Id of a batch entry in the batch request contains an impermissible character: a!",
        ),
        (
            [("x" * 81, "m")],
            "InvalidBatchEntryId",
            f"The Id of a batch entry in the batch request is too long: {'x' * 81}",
        ),
        ([("a", "m"), ("b", "")], "InvalidParameter", "Invalid parameter: Empty message"),
    ],
)
def test_batches_that_are_refused(sns, topic, entries, code, text):
    entries = [{"Id": id, "Message": message} for id, message in entries]
    assert refusal(sns.publish_batch, TopicArn=topic, PublishBatchRequestEntries=entries) == (code, 400, text)


# Filter policies


def test_policies_choose_messages(sns, topic, subscribed, messages):
    by_attribute, _ = subscribed(topic, RawMessageDelivery="true", FilterPolicy='{"kind": ["a", {"prefix": "b"}]}')
    body = {"FilterPolicyScope": "MessageBody", "FilterPolicy": '{"n": {"m": [{"numeric": [">", 5]}]}}'}
    by_body, changed = subscribed(topic, RawMessageDelivery="true", **body)
    everything, _ = subscribed(topic, RawMessageDelivery="true")

    def publish(text, kind=None, **more):
        attributes = {"kind": {"DataType": "String", "StringValue": kind}} if kind else {}
        sns.publish(TopicArn=topic, Message=text, MessageAttributes=attributes, **more)

    publish("1", "a")
    publish("2", "bc")
    publish("3", "c")
    publish('{"n": {"m": 6}}')
    publish('{"n": {"m": 5}}')
    # Policies about the body see what the endpoint would get.
    publish(json.dumps({"default": "x", "sqs": '{"n": {"m": 7}}'}), MessageStructure="json")

    assert sorted(message["Body"] for message in messages(by_attribute, 2)) == ["1", "2"]
    assert sorted(message["Body"] for message in messages(by_body, 2)) == ['{"n": {"m": 6}}', '{"n": {"m": 7}}']
    messages(everything, 6)
    request = {"SubscriptionArn": changed, "AttributeName": "FilterPolicy", "AttributeValue": "{}"}
    sns.set_subscription_attributes(**request)
    publish("4")
    assert [message["Body"] for message in messages(by_body)] == ["4"]


@pytest.mark.parametrize(
    "scope, policy, text",
    [
        ("MessageAttributes", {"k": []}, "FilterPolicy: Empty arrays are not allowed"),
        ("MessageAttributes", {"k": "v"}, 'FilterPolicy: "k" must be an object or an array'),
        ("MessageBody", {"k": [{"wrong": 1}]}, "FilterPolicy: Unrecognized match type wrong"),
        (
            "MessageAttributes",
            {"k": {"l": ["v"]}},
            "Filter policy scope MessageAttributes does not support nested filter policy",
        ),
    ],
)
def test_policies_that_are_refused(sns, topic, subscribed, scope, policy, text):
    policy = json.dumps(policy)
    attributes = {"FilterPolicyScope": scope, "FilterPolicy": policy}
    with pytest.raises(ClientError) as refused:
        subscribed(topic, **attributes)
    assert refused.value.response["Error"]["Message"].startswith(f"Invalid parameter: Attributes Reason: {text}")
    _, subscription = subscribed(topic, FilterPolicyScope=scope)
    request = {"SubscriptionArn": subscription, "AttributeName": "FilterPolicy", "AttributeValue": policy}
    _, _, message = refusal(sns.set_subscription_attributes, **request)
    assert message.startswith(f"Invalid parameter: {text}")


# Failed deliveries


def test_a_queue_that_is_gone(sns, sqs, topic, subscribed, queue, arn, messages):
    dead = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(dead)})
    gone, _ = subscribed(topic, RedrivePolicy=policy)
    other, _ = subscribed(topic)
    sqs.delete_queue(QueueUrl=gone)

    published = sns.publish(TopicArn=topic, Message="m")["MessageId"]

    for url in (dead, other):
        (message,) = messages(url)
        assert json.loads(message["Body"])["MessageId"] == published


def test_a_dead_letter_queue_that_is_an_endpoint_as_well(sns, sqs, topic, subscribed, arn, messages):
    both, _ = subscribed(topic, RawMessageDelivery="true")
    policy = json.dumps({"deadLetterTargetArn": arn(both)})
    gone = [subscribed(topic, RedrivePolicy=policy, RawMessageDelivery="true")[0] for _ in range(2)]
    for url in gone:
        sqs.delete_queue(QueueUrl=url)

    sns.publish(TopicArn=topic, Message="m")

    assert [message["Body"] for message in messages(both, 3)] == ["m"] * 3


@pytest.mark.parametrize("text", ["a\0", "\x08", "\x0b", "\x1f", "\ufffe", "é\uffff"], ids=ascii)
def test_characters_that_queues_refuse(sns, topic, subscribed, queue, arn, messages, text):
    dead = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(dead)})
    raw, _ = subscribed(topic, RedrivePolicy=policy, RawMessageDelivery="true")
    unheard, _ = subscribed(topic, RawMessageDelivery="true")
    enveloped, _ = subscribed(topic)
    attribute = {"a": {"DataType": "String", "StringValue": text}}

    sns.publish(TopicArn=topic, Message=text)
    sns.publish(TopicArn=topic, Message="m", MessageAttributes=attribute)

    for url in (dead, enveloped):
        bodies = [json.loads(message["Body"]) for message in messages(url, 2)]
        assert {body["Message"] for body in bodies} == {text, "m"}
        assert [body["MessageAttributes"] for body in bodies if body["Message"] == "m"] == [
            {"a": {"Type": "String", "Value": text}}
        ]
    for url in (raw, unheard):
        messages(url, 0)


def test_a_queue_gets_no_empty_message(sns, topic, subscribed, messages):
    url, _ = subscribed(topic, RawMessageDelivery="true")
    sns.publish(TopicArn=topic, MessageStructure="json", Message=json.dumps({"default": "x", "sqs": ""}))
    messages(url, 0)


def test_a_queue_of_the_same_name_takes_the_place_of_a_deleted_one(make_server):
    server = make_server()
    sns, sqs = sdk_client(server, service="sns"), sdk_client(server)
    topic = sns.create_topic(Name="t")["TopicArn"]
    create = {"QueueName": "q", "Attributes": {"ReceiveMessageWaitTimeSeconds": "0"}}
    url = sqs.create_queue(**create)["QueueUrl"]
    request = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": QUEUE + "q"}
    subscription = sns.subscribe(**request, Attributes={"RawMessageDelivery": "true"})["SubscriptionArn"]

    sqs.delete_queue(QueueUrl=url)
    sns.publish(TopicArn=topic, Message="lost")
    sqs.create_queue(**create)
    sns.publish(TopicArn=topic, Message="first")
    server.restart()
    sns.publish(TopicArn=topic, Message="second")

    found = []
    while answer := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in answer]
    assert sorted(found) == ["first", "second"]
    assert sns.subscribe(**request)["SubscriptionArn"] == subscription


def test_a_message_that_the_queue_does_not_take(sns, topic, subscribed, queue, arn, messages):
    dead = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(dead)})
    small, _ = subscribed(topic, queue(MaximumMessageSize="1024"), RedrivePolicy=policy, RawMessageDelivery="true")

    sns.publish(TopicArn=topic, Message="x" * 1025)
    many = {f"a{n}": {"DataType": "String", "StringValue": "v"} for n in range(11)}
    sns.publish(TopicArn=topic, Message="many", MessageAttributes=many)

    large, envelope = sorted((message["Body"] for message in messages(dead, 2)), reverse=True)
    assert json.loads(large if large.startswith("{") else envelope)["MessageAttributes"].keys() == many.keys()
    assert "x" * 1025 in (large, envelope)
    messages(small, 0)


# FIFO


def test_a_fifo_topic(sns, fifo_topic, fifo, queue, subscribed, messages):
    ordered, _ = subscribed(fifo_topic, fifo())
    plain, _ = subscribed(fifo_topic, RawMessageDelivery="true")

    def publish(text, **more):
        request = {"TopicArn": fifo_topic, "Message": text, "MessageGroupId": "g"} | more
        return sns.publish(**request)

    first = publish("1", MessageDeduplicationId="d")
    again = publish("2", MessageDeduplicationId="d")
    second = publish("3", MessageDeduplicationId="e")

    assert first["MessageId"] == again["MessageId"] and first["SequenceNumber"] == again["SequenceNumber"]
    assert len(first["SequenceNumber"]) == 20 and first["SequenceNumber"] < second["SequenceNumber"]
    found = messages(ordered, 2)
    bodies = [json.loads(message["Body"]) for message in found]
    assert [body["Message"] for body in bodies] == ["1", "3"]
    assert [body["SequenceNumber"] for body in bodies] == [first["SequenceNumber"], second["SequenceNumber"]]
    assert not any("Signature" in body for body in bodies)
    assert [message["Attributes"]["MessageGroupId"] for message in found] == ["g", "g"]
    assert [message["Attributes"]["MessageDeduplicationId"] for message in found] == ["d", "e"]
    standard = messages(plain, 2)
    assert sorted(message["Body"] for message in standard) == ["1", "3"]
    assert not any("MessageGroupId" in message["Attributes"] for message in standard)

    group = "The MessageGroupId parameter is required for FIFO topics"
    assert refusal(sns.publish, TopicArn=fifo_topic, Message="m") == invalid(group)
    assert refusal(publish, text="m") == invalid(
        "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    )


def test_content_based_deduplication(sns, new_name, fifo, subscribed, messages):
    attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "true", "FifoThroughputScope": "MessageGroup"}
    topic = sns.create_topic(Name=new_name(suffix=".fifo"), Attributes=attributes)["TopicArn"]
    url, _ = subscribed(topic, fifo(DeduplicationScope="messageGroup"), RawMessageDelivery="true")
    for group in ["a", "a", "b"]:
        sns.publish(TopicArn=topic, Message="m", MessageGroupId=group)

    found = messages(url, 2)

    assert sorted(message["Attributes"]["MessageGroupId"] for message in found) == ["a", "b"]
    digest = hashlib.sha256(b"m").hexdigest()
    assert {message["Attributes"]["MessageDeduplicationId"] for message in found} == {digest}


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_deduplication_outlives_the_process(make_server, how):
    server = make_server()
    sns, sqs = sdk_client(server, service="sns"), sdk_client(server)
    topic = sns.create_topic(Name="t.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    url = sqs.create_queue(QueueName="plain")["QueueUrl"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=QUEUE + "plain")

    def publish():
        return sns.publish(TopicArn=topic, Message="m", MessageGroupId="g", MessageDeduplicationId="d")

    first = publish()
    server.restart(how)
    again = publish()
    count = len(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"])
    server.advance(300)
    later = publish()

    assert (again["MessageId"], count) == (first["MessageId"], 1)
    assert later["MessageId"] != first["MessageId"] and later["SequenceNumber"] > first["SequenceNumber"]


# Accounts

CONFIG = """
[[credentials]]
access_key = "AKIAONE"
secret_key = "ONE"
account = "111111111111"
name = "one"

[[credentials]]
access_key = "AKIATWO"
secret_key = "TWO"
account = "222222222222"
name = "two"
"""


def test_accounts_need_policies(make_server):
    server = make_server(config=CONFIG)
    one, two = ({"access_key": f"AKIA{name}", "secret_key": name} for name in ("ONE", "TWO"))
    sns, sqs = sdk_client(server, service="sns", **one), sdk_client(server, **one)
    other = sdk_client(server, service="sns", **two)
    topic = sns.create_topic(Name="t")["TopicArn"]
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    queue_arn = QUEUE.replace(ACCOUNT, "1" * 12) + "q"
    subscription = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)["SubscriptionArn"]

    code, status, _ = refusal(other.publish, TopicArn=topic, Message="m")
    assert (code, status) == ("AuthorizationError", 403)
    assert refusal(other.publish, TopicArn=topic + "none", Message="m")[0] == "AuthorizationError"
    sns.add_permission(TopicArn=topic, Label="l", AWSAccountId=["2" * 12], ActionName=["Publish"])
    other.publish(TopicArn=topic, Message="not allowed by the queue")
    assert "Messages" not in sqs.receive_message(QueueUrl=url)

    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    other.publish(TopicArn=topic, Message="allowed")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"])["Message"] == "allowed"

    assert refusal(other.unsubscribe, SubscriptionArn=subscription)[0] == "AuthorizationError"
    assert server.get("/?Action=ListTopics&Version=2010-03-31")[0] == 403
    # The link that ends a subscription is good for everybody who has it.
    path = f"/?Action=Unsubscribe&SubscriptionArn={subscription}"
    assert server.get(path)[0] == 200
    assert sns.list_subscriptions()["Subscriptions"] == []


def test_a_queue_of_another_account_confirms(make_server):
    server = make_server(config=CONFIG)
    sns = sdk_client(server, service="sns", access_key="AKIAONE", secret_key="ONE")
    sqs = sdk_client(server, access_key="AKIATWO", secret_key="TWO")
    topic = sns.create_topic(Name="t")["TopicArn"]
    queue_arn = QUEUE.replace(ACCOUNT, "2" * 12) + "q"
    policy = {
        "Statement": {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": queue_arn}
    }
    url = sqs.create_queue(QueueName="q", Attributes={"Policy": json.dumps(policy)})["QueueUrl"]

    asked = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)["SubscriptionArn"]
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    body = json.loads(message["Body"])
    sns.publish(TopicArn=topic, Message="too early")
    path = body["SubscribeURL"].removeprefix(server.endpoint)
    status, answer = server.get(path)
    sns.publish(TopicArn=topic, Message="m")

    assert asked == "pending confirmation"
    assert (body["Type"], body["TopicArn"]) == ("SubscriptionConfirmation", topic)
    assert re.fullmatch("[0-9a-f]{288}", body["Token"])
    assert status == 200 and b"<SubscriptionArn>" + topic.encode() in answer
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"])["Message"] == "m"


def test_the_owner_of_a_queue_confirms_by_subscribing_it(make_server):
    server = make_server(config=CONFIG)
    one = sdk_client(server, service="sns", access_key="AKIAONE", secret_key="ONE")
    two = sdk_client(server, service="sns", access_key="AKIATWO", secret_key="TWO")
    sdk_client(server, access_key="AKIATWO", secret_key="TWO").create_queue(QueueName="q")
    topic = one.create_topic(Name="t")["TopicArn"]
    one.add_permission(TopicArn=topic, Label="l", AWSAccountId=["2" * 12], ActionName=["Subscribe"])
    request = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": QUEUE.replace(ACCOUNT, "2" * 12) + "q"}

    assert one.subscribe(**request)["SubscriptionArn"] == "pending confirmation"
    subscription = two.subscribe(**request)["SubscriptionArn"]
    (found,) = one.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert found["SubscriptionArn"] == subscription


# Figures


def test_figures(make_server):
    server = make_server()
    sns, sqs = sdk_client(server, service="sns"), sdk_client(server)
    topic = sns.create_topic(Name="t")["TopicArn"]
    sqs.create_queue(QueueName="dead")
    sqs.create_queue(QueueName="q")
    policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": QUEUE + "dead"})}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=QUEUE + "q")
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=QUEUE + "none", Attributes=policy)

    sns.publish(TopicArn=topic, Message="m")

    text = server.get("/metrics")[1].decode()
    for line in [
        "millrace_sns_topics 1",
        "millrace_sns_subscriptions 2",
        "millrace_sns_published_total 1",
        "millrace_sns_delivered_total 1",
        "millrace_sns_failed_total 1",
        "millrace_sns_redriven_total 1",
    ]:
        assert line in text.splitlines()
