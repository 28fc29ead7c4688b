"""Fair queues: on a standard queue, groups that have little in flight go first."""


def fill(sqs, url, group, count):
    for start in range(0, count, 10):
        entries = [
            {"Id": f"id{n}", "MessageBody": f"{group} {start + n}", "MessageGroupId": group}
            for n in range(10)
        ]
        assert "Failed" not in sqs.send_message_batch(QueueUrl=url, Entries=entries)


def drain(receive, url):
    got = []
    while messages := receive(url):
        got += messages
    return got


def test_quiet_group_overtakes_a_noisy_one(sqs, queue, receive):
    url = queue()
    fill(sqs, url, "noisy", 500)
    for _ in range(10):
        assert len(receive(url)) == 10  # A hundred in flight: noisy by any definition.
    fill(sqs, url, "quiet", 10)

    # All of it first: groups that only took turns would give half of the ten.
    assert [m["Attributes"]["MessageGroupId"] for m in receive(url)] == ["quiet"] * 10


def test_every_quiet_group_is_served_before_the_noisy_ones_rest(sqs, queue, receive):
    url = queue()
    fill(sqs, url, "noisy", 300)
    for _ in range(10):
        receive(url)
    for n in range(10):
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId=f"quiet-{n}")

    got = [m["Attributes"]["MessageGroupId"] for m in receive(url)]

    assert sorted(got) == [f"quiet-{n}" for n in range(10)]


def test_noisy_group_alone_is_not_throttled(sqs, queue, receive):
    url = queue()
    fill(sqs, url, "noisy", 200)

    assert len(drain(receive, url)) == 200


def test_groups_do_not_lock_and_need_no_order(sqs, queue, receive):
    url = queue()
    for n in range(6):
        sqs.send_message(QueueUrl=url, MessageBody=str(n), MessageGroupId="tenant")

    first = receive(url, MaxNumberOfMessages=3)
    second = receive(url, MaxNumberOfMessages=3)

    assert {m["Body"] for m in first + second} == set("012345")


def test_same_body_in_the_same_group_is_sent_twice(sqs, queue, receive):
    url = queue()
    for _ in range(2):
        sqs.send_message(QueueUrl=url, MessageBody="same", MessageGroupId="tenant")

    assert len(receive(url)) == 2


def test_messages_with_and_without_group_share_a_queue(sqs, queue, receive):
    url = queue()
    fill(sqs, url, "tenant", 20)
    for n in range(20):
        sqs.send_message(QueueUrl=url, MessageBody=f"none {n}")

    messages = drain(receive, url)

    groups = [m["Attributes"].get("MessageGroupId") for m in messages]
    assert (groups.count("tenant"), groups.count(None)) == (20, 20)
