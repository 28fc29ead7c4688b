"""Queues of different regions and accounts are different queues, whatever their names."""

import json

import pytest

from support.sdk import sdk_client
from support.wire import ApiError, JsonApi, QueryApi, scope_header

CREDENTIALS = """
[[credentials]]
access_key = "AKIDONE"
secret_key = "SECRETONE"
account = "111122223333"

[[credentials]]
access_key = "AKIDTWO"
secret_key = "SECRETTWO"
account = "444455556666"
"""


def arn(client, url):
    asked = {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
    return client.get_queue_attributes(**asked)["Attributes"]["QueueArn"]


def test_region_comes_from_the_credential_scope(server, new_name):
    name = new_name()
    east, west = sdk_client(server, "us-east-1"), sdk_client(server, "eu-west-1")

    east_url = east.create_queue(QueueName=name)["QueueUrl"]
    west_url = west.create_queue(QueueName=name, Attributes={"DelaySeconds": "0"})["QueueUrl"]
    east.send_message(QueueUrl=east_url, MessageBody="for the east")

    assert arn(east, east_url) == f"arn:aws:sqs:us-east-1:000000000000:{name}"
    assert arn(west, west_url) == f"arn:aws:sqs:eu-west-1:000000000000:{name}"
    assert "Messages" not in west.receive_message(QueueUrl=west_url)
    assert len(east.receive_message(QueueUrl=east_url)["Messages"]) == 1


@pytest.mark.parametrize(
    ("region", "partition"),
    [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("eusc-de-east-1", "aws-eusc")],
)
def test_arns_are_of_the_partition_of_their_region(server, new_name, region, partition):
    sqs = sdk_client(server, region)
    dead = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    dead_arn = arn(sqs, dead)
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    attributes = {"RedrivePolicy": redrive, "VisibilityTimeout": "0"}
    url = sqs.create_queue(QueueName=new_name(), Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    for _ in range(2):
        sqs.receive_message(QueueUrl=url)
    (message,) = sqs.receive_message(QueueUrl=dead, AttributeNames=["All"], VisibilityTimeout=0)["Messages"]
    moving = sqs.start_message_move_task(SourceArn=dead_arn)
    (task,) = sqs.list_message_move_tasks(SourceArn=dead_arn)["Results"]
    sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=["111122223333"], Actions=["SendMessage"])
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    (statement,) = json.loads(policy)["Statement"]

    assert dead_arn == f"arn:{partition}:sqs:{region}:000000000000:{dead.rpartition('/')[2]}"
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn(sqs, url)
    assert moving["TaskHandle"] and task["SourceArn"] == dead_arn
    assert statement["Principal"] == {"AWS": f"arn:{partition}:iam::111122223333:root"}
    assert statement["Resource"] == arn(sqs, url)


def test_each_region_lists_and_deletes_its_own(server, new_name):
    name = new_name()
    east, west = sdk_client(server, "us-east-1"), sdk_client(server, "ap-south-1")
    url = east.create_queue(QueueName=name)["QueueUrl"]

    assert "QueueUrls" not in west.list_queues(QueueNamePrefix=name)
    with pytest.raises(west.exceptions.QueueDoesNotExist):
        west.delete_queue(QueueUrl=url)
    assert east.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]


@pytest.mark.parametrize("kind", [JsonApi, QueryApi])
def test_scope_counts_before_the_host_of_a_queue_url(make_server, kind):
    server = make_server(config='public_url = "https://sqs.eu-central-1.example.com"\n')
    api = kind(server.endpoint, headers={"Authorization": scope_header("eu-west-1")})
    unsigned = kind(server.endpoint)

    url = api.call("CreateQueue", QueueName="q")["QueueUrl"]

    assert url == "https://sqs.eu-central-1.example.com/000000000000/q"
    assert api.call("SendMessage", QueueUrl=url, MessageBody="x")["MessageId"]
    with pytest.raises(ApiError):
        unsigned.call("SendMessage", QueueUrl=url, MessageBody="x")


@pytest.mark.parametrize("kind", [JsonApi, QueryApi])
def test_unsigned_requests_fall_back_to_the_default_region(server, new_name, kind):
    name = new_name()
    unsigned = kind(server.endpoint)
    scoped = kind(server.endpoint, headers={"Authorization": scope_header("us-east-1")})

    url = unsigned.call("CreateQueue", QueueName=name)["QueueUrl"]

    assert scoped.call("GetQueueUrl", QueueName=name) == {"QueueUrl": url}


def test_default_region_and_account_can_be_configured(make_server):
    server = make_server(config='region = "eu-central-1"\naccount = "123456789012"\n')
    api = JsonApi(server.endpoint)

    url = api.call("CreateQueue", QueueName="q")["QueueUrl"]

    assert url == f"{server.endpoint}/123456789012/q"
    names = ["QueueArn"]
    got = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
    assert got["QueueArn"] == "arn:aws:sqs:eu-central-1:123456789012:q"


class TestAccounts:
    @pytest.fixture
    def clients(self, make_server):
        server = make_server(config=CREDENTIALS)
        return (
            sdk_client(server, access_key="AKIDONE", secret_key="SECRETONE"),
            sdk_client(server, access_key="AKIDTWO", secret_key="SECRETTWO"),
        )

    def test_account_comes_from_the_credentials(self, clients):
        one, two = clients

        first = one.create_queue(QueueName="jobs")["QueueUrl"]
        second = two.create_queue(QueueName="jobs")["QueueUrl"]
        one.send_message(QueueUrl=first, MessageBody="x")

        assert first.endswith("/111122223333/jobs")
        assert second.endswith("/444455556666/jobs")
        assert arn(one, first) == "arn:aws:sqs:us-east-1:111122223333:jobs"
        assert "Messages" not in two.receive_message(QueueUrl=second)
        assert one.list_queues()["QueueUrls"] == [first]
        assert two.list_queues()["QueueUrls"] == [second]

    def test_queue_of_another_account_is_out_of_reach(self, clients):
        one, two = clients
        url = one.create_queue(QueueName="private")["QueueUrl"]

        with pytest.raises(two.exceptions.ClientError) as caught:
            two.receive_message(QueueUrl=url)

        code = caught.value.response["Error"]["Code"]
        assert code in ("AWS.SimpleQueueService.NonExistentQueue", "AccessDenied", "AccessDeniedException")

    def test_a_missing_queue_of_another_account_may_be_one_without_access(self, clients):
        one, two = clients
        url = one.create_queue(QueueName="private")["QueueUrl"] + "-missing"

        messages = []
        for client in (one, two):
            with pytest.raises(client.exceptions.QueueDoesNotExist) as caught:
                client.send_message(QueueUrl=url, MessageBody="x")
            messages.append(caught.value.response["Error"]["Message"])

        assert messages == [
            "The specified queue does not exist.",
            "The specified queue does not exist or you do not have access to it.",
        ]

    def test_url_of_another_accounts_queue_is_not_told(self, clients):
        one, two = clients
        one.create_queue(QueueName="private")

        errors = []
        for name in ("private", "missing"):
            with pytest.raises(two.exceptions.ClientError) as caught:
                two.get_queue_url(QueueName=name, QueueOwnerAWSAccountId="111122223333")
            errors.append(caught.value.response["Error"])

        assert errors[0] == errors[1], "nor whether there is one"
        assert errors[0]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"

    def test_dead_letters_of_another_account_cannot_be_moved(self, clients):
        one, two = clients
        dead = arn(one, one.create_queue(QueueName="dead")["QueueUrl"])
        policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 1})
        one.create_queue(QueueName="source", Attributes={"RedrivePolicy": policy})
        own = two.create_queue(QueueName="own")["QueueUrl"]
        task = one.start_message_move_task(SourceArn=dead)["TaskHandle"]
        calls = [
            lambda: two.start_message_move_task(SourceArn=dead, DestinationArn=arn(two, own)),
            lambda: two.list_message_move_tasks(SourceArn=dead),
            lambda: two.cancel_message_move_task(TaskHandle=task),
        ]

        for call in calls:
            with pytest.raises(two.exceptions.ClientError) as caught:
                call()
            assert caught.value.response["Error"]["Code"].startswith("AccessDenied")


@pytest.mark.parametrize("region", ["r" * 9000, "a:b", ""])
def test_a_scope_without_a_sensible_region_is_refused(server, region):
    api = JsonApi(server.endpoint, headers={"Authorization": scope_header(region)})

    with pytest.raises(ApiError) as caught:
        api.call("CreateQueue", QueueName="q")
    assert (caught.value.status, caught.value.code) == (403, "SignatureDoesNotMatch")


def test_access_key_of_twelve_digits_names_the_account(server):
    scopes = [scope_header("us-east-1", access_key=key) for key in ("111122223333", "test")]
    api, other = (JsonApi(server.endpoint, headers={"Authorization": scope}) for scope in scopes)

    url = api.call("CreateQueue", QueueName="of-111122223333")["QueueUrl"]

    assert url.endswith("/111122223333/of-111122223333")
    assert url not in other.call("ListQueues").get("QueueUrls", [])
