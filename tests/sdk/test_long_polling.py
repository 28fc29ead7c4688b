"""Long polls: they wake on whatever makes a message ready, end when they should, hide nothing.

Times are real here. A poll that wakes is expected within `PROMPT_S`; one that does not wait, too.
"""

import contextlib
import time
from pathlib import Path

import pytest

from support.polls import OpenPoll, let_park
from support.wire import JsonApi

PROMPT_S = 5


@pytest.fixture
def poll(background, receive):
    """Starts a long poll in a thread and lets it park: a future."""

    def start(url, **parameters):
        future = background(receive, url, **({"WaitTimeSeconds": 20} | parameters))
        let_park()
        return future

    return start


def bodies_of(future, timeout=PROMPT_S):
    return [message["Body"] for message in future.result(timeout=timeout)]


def test_send_wakes_a_poll(sqs, queue, poll):
    url = queue()
    waiting = poll(url)

    sqs.send_message(QueueUrl=url, MessageBody="x")

    assert bodies_of(waiting) == ["x"]


def test_poll_returns_with_the_first_message(sqs, queue, poll):
    url = queue()
    waiting = poll(url, MaxNumberOfMessages=10)

    sqs.send_message(QueueUrl=url, MessageBody="first")

    assert bodies_of(waiting) == ["first"]


def test_fifo_send_wakes_a_poll(sqs, fifo, poll):
    url = fifo()
    waiting = poll(url)

    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g")

    assert bodies_of(waiting) == ["x"]


def test_end_of_a_delay_wakes_a_poll(server, sqs, queue, poll):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=10)
    waiting = poll(url)
    assert not waiting.done()

    server.advance(11)  # Not to the end of the poll, which would end it, too.

    assert bodies_of(waiting) == ["later"]


def test_real_delay_wakes_a_poll(sqs, queue, poll):
    url = queue()
    # Before the send: the delay begins when the server has it, however late this process goes on.
    started = time.monotonic()
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=1)

    waiting = poll(url)

    assert bodies_of(waiting, 1 + PROMPT_S) == ["later"]
    assert time.monotonic() - started >= 0.99


def test_real_visibility_deadline_wakes_a_poll(sqs, queue, poll, receive):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert len(receive(url, VisibilityTimeout=1)) == 1

    assert bodies_of(poll(url), 1 + PROMPT_S) == ["x"]


def test_change_to_zero_wakes_a_poll(sqs, queue, poll, receive):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url)
    waiting = poll(url)

    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)

    assert bodies_of(waiting) == ["x"]


def test_unlocked_group_wakes_a_poll(sqs, fifo, poll, receive):
    url = fifo()
    for body in ("1", "2"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
    (message,) = receive(url, MaxNumberOfMessages=1)
    waiting = poll(url)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert bodies_of(waiting) == ["2"]


def test_each_message_wakes_one_poll(sqs, queue, poll):
    url = queue()
    polls = [poll(url, MaxNumberOfMessages=1) for _ in range(5)]

    for n in range(5):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))

    assert sorted(body for waiting in polls for body in bodies_of(waiting)) == list("01234")


def test_polls_are_served_in_order_of_arrival(server, sqs, queue, poll):
    url = queue()
    first = OpenPoll(server.endpoint, url)
    first.wait_until_read()
    let_park()
    second = poll(url)

    sqs.send_message(QueueUrl=url, MessageBody="for the first")
    assert first.bodies() == ["for the first"]
    assert not second.done()

    sqs.send_message(QueueUrl=url, MessageBody="for the second")
    assert bodies_of(second) == ["for the second"]


def elapsed(call, *arguments, **parameters):
    started = time.monotonic()
    assert call(*arguments, **parameters) == []
    return time.monotonic() - started


def test_poll_waits_as_long_as_it_was_told(queue, receive):
    assert 0.9 < elapsed(receive, queue(), WaitTimeSeconds=1) < 1 + PROMPT_S


def test_queue_default_holds(queue, receive):
    url = queue(ReceiveMessageWaitTimeSeconds="1")

    assert 0.9 < elapsed(receive, url) < 1 + PROMPT_S


def test_zero_in_the_call_overrides_the_queue_default(queue, receive):
    url = queue(ReceiveMessageWaitTimeSeconds="20")

    assert elapsed(receive, url, WaitTimeSeconds=0) < PROMPT_S


def test_short_poll_does_not_wait(queue, receive):
    assert elapsed(receive, queue()) < PROMPT_S


def test_poll_with_a_message_there_does_not_wait(sqs, queue, receive):
    url = queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")

    started = time.monotonic()
    assert len(receive(url, WaitTimeSeconds=20)) == 1
    assert time.monotonic() - started < PROMPT_S


@pytest.mark.parametrize("leave", ["close", "reset"])
def test_client_that_left_takes_no_message_along(server, sqs, queue, receive, leave):
    url = queue()
    poll = OpenPoll(server.endpoint, url)
    poll.wait_until_read()
    let_park()
    getattr(poll, leave)()
    server.get("/health")

    sqs.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(url, WaitTimeSeconds=2)

    assert message["Body"] == "x"


def test_many_clients_that_left_take_no_message_along(server, sqs, queue, receive):
    url = queue()
    polls = [OpenPoll(server.endpoint, url) for _ in range(50)]
    for poll in polls:
        poll.wait_until_read()
    let_park()
    for poll in polls:
        poll.close()

    sqs.send_message(QueueUrl=url, MessageBody="x")

    assert [m["Body"] for m in receive(url, WaitTimeSeconds=5)] == ["x"]


def test_many_idle_polls_let_others_work(server, sqs, queue):
    busy, idle = queue(), queue()
    polls = [OpenPoll(server.endpoint, idle) for _ in range(300)]
    let_park()

    started = time.monotonic()
    for n in range(50):
        sqs.send_message(QueueUrl=busy, MessageBody=str(n))
    took = time.monotonic() - started

    for poll in polls:
        poll.close()
    assert took < 15


def test_idle_polls_cost_no_cpu(make_server):
    server = make_server(test=False)
    pid = server.process.pid
    url = JsonApi(server.endpoint).call("CreateQueue", QueueName="idle")["QueueUrl"]
    polls = [OpenPoll(server.endpoint, url) for _ in range(200)]
    for poll in polls:
        poll.wait_until_read()
    # What the start and the polls' arrival leave to do takes as long as the machine is busy with others.
    deadline = time.monotonic() + 10
    before = None
    while before is None or wakes(pid) - before > 10:
        assert time.monotonic() < deadline, "the server has no rest"
        before = wakes(pid)
        time.sleep(0.5)

    used_before, wakes_before = cpu_s(pid), wakes(pid)
    time.sleep(2)  # The measurement itself.
    used, woken = cpu_s(pid) - used_before, wakes(pid) - wakes_before

    for poll in polls:
        poll.close()
    assert used <= 0.06, f"{used} s of CPU in 2 s for 200 idle polls"
    # However slow the machine is: not even every other poll has woken a thread once.
    assert woken <= 100, f"threads woke {woken} times in 2 s for 200 idle polls"


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def wakes(pid) -> int:
    """How often its threads have gone to sleep, and so been woken."""
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # A thread that ended meanwhile.
            (line,) = [line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt")]
            switches += int(line.split()[1])
    return switches


def test_deleting_the_queue_ends_its_polls(sqs, queue, background):
    url = queue()
    waiting = background(lambda: sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20))
    let_park()

    sqs.delete_queue(QueueUrl=url)

    try:
        assert waiting.result(timeout=PROMPT_S).get("Messages", []) == []
    except sqs.exceptions.QueueDoesNotExist:
        pass
