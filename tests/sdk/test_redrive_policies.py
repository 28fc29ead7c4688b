"""RedrivePolicy and RedriveAllowPolicy: their texts, and who may be whose dead-letter queue."""

import json

import pytest

from support.expect import refused
from support.wire import ApiError

POLICY_WORDS = "for parameter RedrivePolicy is invalid. Reason: "


class TestPolicy:
    @pytest.mark.parametrize("count", [1, 1000, "7"])
    def test_round_trips(self, api, queue, arn, count):
        policy = {"deadLetterTargetArn": arn(queue()), "maxReceiveCount": count}
        url = queue(RedrivePolicy=json.dumps(policy))

        names = ["RedrivePolicy"]
        got = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]

        parsed = json.loads(got["RedrivePolicy"])
        assert set(parsed) == set(policy)
        assert parsed["deadLetterTargetArn"] == policy["deadLetterTargetArn"]
        assert parsed["maxReceiveCount"] == int(count)

    def test_empty_text_removes_it(self, sqs, queue, arn, attributes, receive):
        policy = {"deadLetterTargetArn": arn(queue()), "maxReceiveCount": 1}
        source = queue(RedrivePolicy=json.dumps(policy))

        sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": ""})

        assert "RedrivePolicy" not in attributes(source)
        sqs.send_message(QueueUrl=source, MessageBody="x")
        for _ in range(3):
            assert len(receive(source, VisibilityTimeout=0)) == 1

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (
                {"maxReceiveCount": None},
                "Redrive policy does not contain mandatory attribute: maxReceiveCount.",
            ),
            (
                {"deadLetterTargetArn": None},
                "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.",
            ),
            (
                {"maxReceiveCount": 0},
                "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive.",
            ),
            (
                {"maxReceiveCount": 1001},
                "Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive.",
            ),
            (
                {"other": 1},
                "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
            ),
            (
                {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:no-such-queue"},
                "Dead letter target does not exist.",
            ),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_bad_policy_is_refused_with_its_reason(self, api, queue, arn, change, reason):
        url = queue()
        policy = {"deadLetterTargetArn": arn(queue()), "maxReceiveCount": 3} | change
        policy = json.dumps({name: value for name, value in policy.items() if value is not None})
        given = {"QueueUrl": url, "Attributes": {"RedrivePolicy": policy}}

        error = refused(api, "SetQueueAttributes", "InvalidParameterValue", **given)

        assert error.message.startswith("Value ")
        assert error.message.endswith(POLICY_WORDS + reason)

    def test_malformed_policy_is_refused(self, api, queue):
        for policy in ("{", "[]", "text"):
            with pytest.raises(ApiError) as caught:
                api.call("SetQueueAttributes", QueueUrl=queue(), Attributes={"RedrivePolicy": policy})
            assert caught.value.code in ("InvalidAttributeValue", "InvalidParameterValue")

    @pytest.mark.parametrize(
        ("target", "reason"),
        [
            ("dummy", "Invalid value for deadLetterTargetArn."),
            (
                "arn:aws:sns:us-east-1:000000000000:topic",
                "Only SQS queues are valid resources for deadLetterTargetArn.",
            ),
            (
                "arn:aws:sqs:eu-west-1:000000000000:elsewhere",
                "Dead-letter target must be in same region as the source.",
            ),
            (
                "arn:aws:sqs:us-east-1:111111111111:elsewhere",
                "Dead-letter target owner should be same as the source.",
            ),
        ],
    )
    def test_target_must_be_a_queue_of_this_region_and_account(self, api, queue, target, reason):
        policy = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 1})
        given = {"QueueUrl": queue(), "Attributes": {"RedrivePolicy": policy}}

        error = refused(api, "SetQueueAttributes", "InvalidParameterValue", **given)
        assert error.message.endswith(POLICY_WORDS + reason)

    def test_queue_can_be_made_as_its_own(self, api, new_name, receive):
        name = new_name()
        policy = json.dumps({"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{name}", "maxReceiveCount": 1})
        given = {"QueueName": name, "Attributes": {"RedrivePolicy": policy, "VisibilityTimeout": "0"}}

        url = api.call("CreateQueue", **given)["QueueUrl"]

        assert api.call("CreateQueue", **given)["QueueUrl"] == url
        api.call("SendMessage", QueueUrl=url, MessageBody="x")
        assert [len(receive(url)) for _ in range(3)] == [1, 1, 1]

    def test_queue_whose_target_is_gone_can_be_created_again_unchanged(self, api, new_name, queue, arn):
        target = queue()
        policy = json.dumps({"deadLetterTargetArn": arn(target), "maxReceiveCount": 1})
        source = {"QueueName": new_name(), "Attributes": {"RedrivePolicy": policy}}
        url = api.call("CreateQueue", **source)["QueueUrl"]
        api.call("DeleteQueue", QueueUrl=target)

        assert api.call("CreateQueue", **source)["QueueUrl"] == url
        refused(api, "CreateQueue", "InvalidParameterValue", **source | {"QueueName": new_name()})

    @pytest.mark.parametrize("source_is_fifo", [False, True])
    def test_source_and_target_are_of_one_kind(self, api, queue, fifo, arn, source_is_fifo):
        source, target = (fifo, queue) if source_is_fifo else (queue, fifo)
        policy = json.dumps({"deadLetterTargetArn": arn(target()), "maxReceiveCount": 1})
        given = {"QueueUrl": source(), "Attributes": {"RedrivePolicy": policy}}

        error = refused(api, "SetQueueAttributes", "InvalidParameterValue", **given)
        assert error.message.endswith("Dead-letter queue must be same type of queue as the source.")


class TestRedriveAllowPolicy:
    def attach(self, sqs, source, target_arn):
        policy = {"deadLetterTargetArn": target_arn, "maxReceiveCount": 1}
        sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": json.dumps(policy)})

    @pytest.mark.parametrize("policy", [{"redrivePermission": "allowAll"}, {"redrivePermission": "denyAll"}])
    def test_round_trips(self, queue, attributes, policy):
        url = queue(RedriveAllowPolicy=json.dumps(policy))

        assert json.loads(attributes(url)["RedriveAllowPolicy"]) == policy

    def test_deny_all_refuses_every_source(self, sqs, queue, arn):
        dead = queue(RedriveAllowPolicy=json.dumps({"redrivePermission": "denyAll"}))

        with pytest.raises(sqs.exceptions.ClientError) as caught:
            self.attach(sqs, queue(), arn(dead))
        assert caught.value.response["Error"]["Code"] == "InvalidParameterValue"

    def test_by_queue_allows_the_named_sources_only(self, sqs, queue, arn):
        friend, stranger = queue(), queue()
        policy = {"redrivePermission": "byQueue", "sourceQueueArns": [arn(friend)]}
        dead = queue(RedriveAllowPolicy=json.dumps(policy))

        self.attach(sqs, friend, arn(dead))
        with pytest.raises(sqs.exceptions.ClientError):
            self.attach(sqs, stranger, arn(dead))

    def test_a_source_of_another_partition_is_the_same_queue(self, sqs, queue, arn):
        source = queue()
        elsewhere = arn(source).replace("arn:aws:", "arn:aws-us-gov:")
        dead = queue(RedriveAllowPolicy=json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [elsewhere]}))

        self.attach(sqs, source, arn(dead))

    def test_allowed_sources_are_of_the_same_region(self, api, queue, new_name):
        elsewhere = "arn:aws:sqs:eu-west-1:000000000000:q"
        policy = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [elsewhere]})
        given = {"Attributes": {"RedriveAllowPolicy": policy}}

        for action, of in [("SetQueueAttributes", {"QueueUrl": queue()}), ("CreateQueue", {"QueueName": new_name()})]:
            error = refused(api, action, "InvalidParameterValue", **given, **of)
            assert error.message == (
                f"Value {policy} for parameter RedriveAllowPolicy is invalid. Reason: Amazon SQS can't create the "
                "redrive allow policy. Source queues must be in same region as the dead-letter target."
            )

    def test_a_policy_that_stays_is_not_asked_for_again(self, sqs, queue, arn, attributes):
        source, dead = queue(), queue()
        self.attach(sqs, source, arn(dead))
        deny = {"RedriveAllowPolicy": json.dumps({"redrivePermission": "denyAll"})}
        sqs.set_queue_attributes(QueueUrl=dead, Attributes=deny)

        given = {"VisibilityTimeout": "7", "RedrivePolicy": attributes(source)["RedrivePolicy"]}
        sqs.set_queue_attributes(QueueUrl=source, Attributes=given)

        assert attributes(source)["VisibilityTimeout"] == "7"

    @pytest.mark.parametrize(
        "policy",
        [
            {"redrivePermission": "sometimes"},
            {"redrivePermission": "byQueue"},
            {"redrivePermission": "byQueue", "sourceQueueArns": []},
            {
                "redrivePermission": "byQueue",
                "sourceQueueArns": [f"arn:aws:sqs:us-east-1:000000000000:q{n}" for n in range(11)],
            },
            {"redrivePermission": "allowAll", "sourceQueueArns": ["arn:aws:sqs:us-east-1:000000000000:q"]},
            {"redrivePermission": "allowAll", "other": 1},
        ],
        ids=range(6),
    )
    def test_bad_policy_is_refused(self, api, queue, policy):
        given = {"RedriveAllowPolicy": json.dumps(policy)}

        with pytest.raises(ApiError) as caught:
            api.call("SetQueueAttributes", QueueUrl=queue(), Attributes=given)
        assert caught.value.code in ("InvalidParameterValue", "InvalidAttributeValue")
