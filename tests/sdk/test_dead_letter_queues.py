"""Dead-letter queues: policies, the redrive itself, who may be whose target. On the test clock."""

import json

import pytest

from support.expect import refused
from support.wire import ApiError

POLICY_WORDS = "for parameter RedrivePolicy is invalid. Reason: "


@pytest.fixture
def pair(sqs, queue, fifo, arn):
    """A source with its dead-letter queue: (source URL, dead-letter URL)."""

    def make(max_receive_count=1, kind="standard", **dead_attributes):
        create = fifo if kind == "fifo" else queue
        dead = create(**dead_attributes)
        policy = {"deadLetterTargetArn": arn(dead), "maxReceiveCount": max_receive_count}
        return create(RedrivePolicy=json.dumps(policy), VisibilityTimeout="10"), dead

    return make


def receive_and_let_expire(server, receive, url, times):
    for n in range(times):
        (message,) = receive(url)
        assert message["Attributes"]["ApproximateReceiveCount"] == str(n + 1)
        server.advance(11)


class TestRedrive:
    @pytest.mark.parametrize("count", [1, 3])
    def test_message_is_seen_max_receive_count_times(self, server, sqs, pair, receive, bodies, counts, count):
        source, dead = pair(count)
        sqs.send_message(QueueUrl=source, MessageBody="poison")

        receive_and_let_expire(server, receive, source, count)

        # Expiry alone moves nothing: it is the next receive that does.
        assert (counts(source), counts(dead)) == ((1, 0, 0), (0, 0, 0))
        assert receive(source) == []
        assert (counts(source), counts(dead)) == ((0, 0, 0), (1, 0, 0))
        assert bodies(dead) == ["poison"]

    def test_message_keeps_what_it_was(self, server, sqs, pair, receive, arn):
        source, dead = pair(1)
        trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
        given = {"a": {"DataType": "Binary.x", "BinaryValue": b"\x00\xff"}}
        sqs.send_message(
            QueueUrl=source,
            MessageBody="poison",
            MessageAttributes=given,
            MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": trace}},
        )
        (before,) = receive(source)
        server.advance(11)
        assert receive(source) == []

        (after,) = receive(dead)

        for name in ("MessageId", "Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"):
            assert after[name] == before[name], name
        for name in ("SentTimestamp", "SenderId", "AWSTraceHeader"):
            assert after["Attributes"][name] == before["Attributes"][name], name
        assert after["Attributes"]["ApproximateReceiveCount"] == "2"
        assert after["Attributes"]["DeadLetterQueueSourceArn"] == arn(source)
        assert "DeadLetterQueueSourceArn" not in before["Attributes"]

    @pytest.mark.parametrize("how", ["receive with zero", "change to zero"])
    def test_every_receive_counts_however_it_ended(self, sqs, pair, receive, bodies, how):
        source, dead = pair(2)
        sqs.send_message(QueueUrl=source, MessageBody="poison")
        for _ in range(2):
            if how == "receive with zero":
                assert len(receive(source, VisibilityTimeout=0)) == 1
                continue
            (message,) = receive(source)
            sqs.change_message_visibility(
                QueueUrl=source, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )

        assert receive(source) == []
        assert bodies(dead) == ["poison"]

    def test_deleted_message_is_not_redriven(self, server, sqs, pair, receive, counts):
        source, dead = pair(1)
        sqs.send_message(QueueUrl=source, MessageBody="x")
        (message,) = receive(source)
        sqs.delete_message(QueueUrl=source, ReceiptHandle=message["ReceiptHandle"])
        server.advance(11)

        assert receive(source) == []
        assert counts(dead) == (0, 0, 0)

    def test_one_receive_moves_the_poisoned_and_returns_the_good(self, server, sqs, pair, receive, bodies):
        source, dead = pair(1)
        for n in range(3):
            sqs.send_message(QueueUrl=source, MessageBody=f"poison {n}")
        assert len(receive(source)) == 3
        server.advance(11)
        sqs.send_message(QueueUrl=source, MessageBody="good")

        assert bodies(source) == ["good"]
        assert sorted(bodies(dead)) == ["poison 0", "poison 1", "poison 2"]

    def test_long_poll_on_the_dead_letter_queue_wakes(self, server, sqs, pair, receive, background):
        source, dead = pair(1)
        sqs.send_message(QueueUrl=source, MessageBody="poison")
        assert len(receive(source, VisibilityTimeout=0)) == 1
        poll = background(receive, dead, WaitTimeSeconds=20)

        assert receive(source) == []

        assert [message["Body"] for message in poll.result(timeout=5)] == ["poison"]

    def test_chain(self, server, sqs, queue, arn, receive, bodies):
        last = queue()
        middle = queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(last), "maxReceiveCount": 2}))
        first = queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(middle), "maxReceiveCount": 1}))
        sqs.send_message(QueueUrl=first, MessageBody="poison")

        assert len(receive(first, VisibilityTimeout=0)) == 1
        assert receive(first) == []
        assert len(receive(middle, VisibilityTimeout=0)) == 1
        assert receive(middle) == []

        assert bodies(last) == ["poison"]

    def test_standard_message_keeps_its_age(self, server, sqs, pair, receive, counts):
        source, dead = pair(1, MessageRetentionPeriod="100")
        sqs.send_message(QueueUrl=source, MessageBody="old")
        server.advance(60)
        assert len(receive(source, VisibilityTimeout=0)) == 1
        assert receive(source) == []
        assert counts(dead) == (1, 0, 0)

        server.advance(45)

        assert counts(dead) == (0, 0, 0)

    def test_fifo_message_leaves_its_group_free(self, server, sqs, pair, receive, bodies):
        source, dead = pair(1, "fifo")
        for name in ("first", "second"):
            sqs.send_message(QueueUrl=source, MessageBody=name, MessageGroupId="g")
        assert [m["Body"] for m in receive(source, MaxNumberOfMessages=1)] == ["first"]
        server.advance(11)

        assert bodies(source) == ["second"]
        (moved,) = receive(dead)
        assert moved["Body"] == "first"
        assert moved["Attributes"]["MessageGroupId"] == "g"

    def test_without_a_policy_messages_stay(self, server, sqs, queue, receive):
        url = queue(VisibilityTimeout="0")
        sqs.send_message(QueueUrl=url, MessageBody="x")

        for n in range(20):
            (message,) = receive(url)
            assert message["Attributes"]["ApproximateReceiveCount"] == str(n + 1)

    def test_dangling_target_loses_nothing(self, sqs, pair, receive, counts):
        source, dead = pair(1)
        sqs.send_message(QueueUrl=source, MessageBody="poison")
        assert len(receive(source, VisibilityTimeout=0)) == 1

        sqs.delete_queue(QueueUrl=dead)
        receive(source, VisibilityTimeout=0)

        assert counts(source) == (1, 0, 0)


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

    def test_empty_text_removes_it(self, sqs, pair, attributes, receive):
        source, _ = pair(1)

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

        error = refused(
            api,
            "SetQueueAttributes",
            "InvalidParameterValue",
            QueueUrl=url,
            Attributes={"RedrivePolicy": policy},
        )

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

        error = refused(
            api,
            "SetQueueAttributes",
            "InvalidParameterValue",
            QueueUrl=queue(),
            Attributes={"RedrivePolicy": policy},
        )
        assert error.message.endswith(POLICY_WORDS + reason)

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

        error = refused(
            api,
            "SetQueueAttributes",
            "InvalidParameterValue",
            QueueUrl=source(),
            Attributes={"RedrivePolicy": policy},
        )
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


class TestSources:
    def test_all_sources_are_listed(self, api, sqs, queue, arn):
        dead = queue()
        policy = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
        sources = [queue(RedrivePolicy=policy) for _ in range(5)]

        listed = api.call("ListDeadLetterSourceQueues", QueueUrl=dead)
        assert sorted(listed["queueUrls"]) == sorted(sources)

        paged, token = [], {}
        while True:
            page = api.call("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=2, **token)
            paged += page["queueUrls"]
            if "NextToken" not in page:
                break
            token = {"NextToken": page["NextToken"]}
        assert sorted(paged) == sorted(sources)

    def test_no_sources_is_an_empty_list(self, json_api, queue):
        assert json_api.call("ListDeadLetterSourceQueues", QueueUrl=queue()) == {"queueUrls": []}

    def test_detached_source_is_not_listed(self, json_api, sqs, pair):
        source, dead = pair()

        sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": ""})

        assert json_api.call("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": []}
