"""The judge is judged first: each broken promise is seen, each kept one is not."""

import time

import pytest

from crash.ledger import FifoLedger, QueueLedger


def sent(ledger, *bodies):
    ledger.send_begins(bodies)
    ledger.send_acknowledged(bodies)
    return ledger


def delete(ledger, *bodies):
    ledger.delete_begins(bodies)
    ledger.delete_acknowledged(bodies)


def receive(ledger, *bodies):
    ledger.received(list(bodies), time.monotonic())


def test_lost_message():
    ledger = sent(QueueLedger(), "a", "b")
    receive(ledger, "a")
    ledger.check_drained(["a"])

    assert ledger.errors == ["b was acknowledged and is lost"]


def test_cut_calls_leave_both_ends_open():
    ledger = sent(QueueLedger(), "a")
    ledger.send_begins(["maybe sent"])
    ledger.delete_begins(["a"])

    ledger.check_drained([])
    receive(ledger, "a", "maybe sent")

    assert ledger.errors == []


@pytest.mark.parametrize(
    ("seen", "left", "is_whole"),
    [("", "", True), ("abc", "", True), ("ab", "c", True), ("", "abc", True), ("a", "", False), ("a", "b", False)],
)
def test_batch_that_was_cut_is_there_whole_or_not_at_all(seen, left, is_whole):
    ledger = QueueLedger()
    ledger.send_begins(["a", "b", "c"])
    receive(ledger, *seen)
    delete(ledger, *seen)

    ledger.check_drained(list(left))

    torn = f"only {', '.join(seen + left)} of the batch a to c was accepted"
    assert ledger.errors == ([] if is_whole else [torn])


@pytest.mark.parametrize("comes_again", [False, True])
def test_part_of_a_batch_may_be_received_before_the_crash_that_takes_all_of_it(comes_again):
    ledger = QueueLedger()
    ledger.send_begins(["a", "b"])
    receive(ledger, "a")
    ledger.server_restarts()
    if comes_again:
        receive(ledger, "a")
        ledger.delete_begins(["a"])

    ledger.check_drained([])

    assert bool(ledger.errors) == comes_again, ledger.errors


def test_deleted_message_that_returns():
    ledger = sent(QueueLedger(), "a")
    before = time.monotonic()
    delete(ledger, "a")

    ledger.received(["a"], before)  # Asked before the delete was acknowledged: allowed.
    assert ledger.errors == []
    receive(ledger, "a")
    assert ledger.errors == ["a came back after its delete was acknowledged"]


def test_refused_delete_is_none():
    ledger = sent(QueueLedger(), "a", "b")
    ledger.delete_begins(["a", "b"])
    ledger.delete_refused(["a", "b"])
    delete(ledger, "b")

    ledger.check_drained([])

    assert ledger.errors == ["a was acknowledged and is lost"]


def test_refused_delete_does_not_hide_another():
    ledger = sent(QueueLedger(), "a")
    ledger.delete_begins(["a"])
    ledger.delete_begins(["a"])
    ledger.delete_refused(["a"])

    ledger.check_drained([])

    assert ledger.errors == []


@pytest.mark.parametrize("comes_again", [False, True])
def test_cut_delete_did_not_happen_if_the_message_outlived_the_crash(comes_again):
    ledger = sent(QueueLedger(), "a")
    ledger.delete_begins(["a"])
    ledger.delete_cut(["a"])
    asked_before = time.monotonic()
    ledger.server_restarts()

    ledger.received(["a"], asked_before)
    assert ledger.is_deleting("a")
    if comes_again:
        receive(ledger, "a")
    ledger.check_drained([])

    assert ledger.errors == (["a was acknowledged and is lost"] if comes_again else [])


def test_delete_cut_after_the_restart_may_have_happened():
    ledger = sent(QueueLedger(), "a")
    ledger.server_restarts()
    ledger.delete_begins(["a"])
    ledger.delete_cut(["a"])

    receive(ledger, "a")
    ledger.check_drained([])

    assert ledger.errors == []


def test_body_that_changed():
    ledger = sent(QueueLedger(), "a~filled", "b~filled")

    receive(ledger, "a~filled", "b~fillec")

    assert ledger.errors == ["b came with another body"]


def test_unknown_message():
    ledger = QueueLedger()
    receive(ledger, "ghost")

    assert ledger.errors == ["ghost was never sent"]


@pytest.mark.parametrize(
    ("answers", "broken"),
    [
        ([["g:0:0", "g:1:0", "g:2:0"]], False),
        ([["g:0:0", "h:0:0", "g:1:0", "h:1:0"]], False),
        ([["g:0:0"], ["g:0:0", "g:1:0"]], False),
        ([["g:1:0"]], True),
        ([["g:0:0", "g:2:0"]], True),
        ([["g:0:0"], ["g:1:0"]], True),
        ([["g:0:0", "g:2:0", "g:1:0"]], True),
    ],
)
def test_order_within_a_group(answers, broken):
    ledger = sent(FifoLedger(), *[f"{group}:{n}:0" for group in "gh" for n in range(3)])

    for answer in answers:
        receive(ledger, *answer)

    assert bool(ledger.errors) == broken


def test_deleted_messages_make_way():
    ledger = sent(FifoLedger(), "g:0:0", "g:1:0", "g:2:0")
    receive(ledger, "g:0:0", "g:1:0")
    delete(ledger, "g:0:0", "g:1:0")

    receive(ledger, "g:2:0")

    assert ledger.errors == []


def test_one_deduplication_id_accepted_twice():
    ledger = FifoLedger()
    ledger.send_begins(["g:0:0"])  # Cut by a crash, then tried again:
    sent(ledger, "g:0:1")

    receive(ledger, "g:0:0")
    receive(ledger, "g:0:1")

    assert ledger.errors == ["g:0:1 and g:0:0 share a deduplication id"]


def test_retry_counts_as_the_same_message():
    ledger = FifoLedger()
    ledger.send_begins(["g:0:0"])
    sent(ledger, "g:0:1")

    ledger.check_drained(["g:0:0"])

    assert ledger.errors == []
