"""The life of a message in version 3. The rules are those that the Java and Ruby clients' own tests
expected of the service; time is moved, not waited for.
"""

import contextlib
import socket

import pytest

from support.ironmq import Iron, Queue, bodies
from support.polls import let_park
from support.waiting import eventually

FOREIGN = "0" * 32


def test_messages_come_in_the_order_of_their_post(jobs):
    ids = jobs.post("a", "b", "c")

    messages = jobs.reserve(n=10)

    assert bodies(messages) == ["a", "b", "c"]
    assert [message["id"] for message in messages] == ids


@pytest.mark.parametrize(
    "body", ["", " ", "\n", '"quoted"', "{}", "null", "grüße ✓ \U0001f680", "a\u0000b", "x" * 60_000]
)
def test_a_body_comes_back_as_it_was_sent(jobs, body):
    [identifier] = jobs.post(body)

    assert jobs.get(identifier)["body"] == body
    assert bodies(jobs.peek()) == [body]
    assert bodies(jobs.reserve()) == [body]


def test_reserve_gives_one_by_default_and_n_at_most(jobs):
    jobs.post(*"abcdefgh")

    assert bodies(jobs.reserve()) == ["a"]
    assert bodies(jobs.reserve(n=3)) == ["b", "c", "d"]
    assert bodies(jobs.reserve(n=100)) == ["e", "f", "g", "h"]
    assert jobs.reserve(n=100) == []


def test_a_hundred_are_reserved_and_deleted_at_once(jobs):
    jobs.post(*(str(n) for n in range(150)))

    messages = jobs.reserve(n=100)
    jobs.delete_many(messages)

    assert len(messages) == 100
    assert jobs.size() == 50


def test_a_reserved_message_shows_id_body_count_and_reservation(jobs):
    [identifier] = jobs.post("a")

    [message] = jobs.reserve()

    assert message == {
        "id": identifier,
        "body": "a",
        "reserved_count": 1,
        "reservation_id": message["reservation_id"],
    }


def test_peek_and_get_reserve_nothing_and_count_nothing(jobs):
    [identifier] = jobs.post("a")
    seen = {"id": identifier, "body": "a", "reserved_count": 0}

    for _ in range(2):
        assert jobs.peek() == [seen]
        assert jobs.get(identifier) == seen


def test_peek_skips_reserved_and_delayed_messages_and_get_finds_them(jobs):
    first, second, third = jobs.post("a", "b", {"body": "c", "delay": 60})

    jobs.reserve()

    assert bodies(jobs.peek()) == ["b"]
    assert jobs.get(first) == {"id": first, "body": "a", "reserved_count": 1}
    assert jobs.get(third)["body"] == "c"


def test_peek_gives_one_by_default_and_n_at_most(jobs):
    jobs.post(*"abcd")

    assert bodies(jobs.iron.call("GET", "/jobs/messages")["messages"]) == ["a"]
    assert bodies(jobs.peek(3)) == ["a", "b", "c"]


def test_a_reservation_ends_with_its_own_timeout(server, jobs):
    jobs.post("a")

    jobs.reserve(timeout=5)
    server.advance(2)
    assert jobs.reserve() == []
    server.advance(3.5)

    assert bodies(jobs.reserve()) == ["a"]


@pytest.mark.parametrize("asked", [{}, {"timeout": 0}, {"timeout": None}])
def test_a_reservation_without_timeout_has_that_of_the_queue(server, jobs, asked):
    jobs.update(message_timeout=100)
    jobs.post("a")

    jobs.reserve(**asked)
    server.advance(90)
    assert jobs.reserve() == []
    server.advance(10.5)

    assert bodies(jobs.reserve()) == ["a"]


def test_a_queue_s_reservations_end_after_a_minute_unless_it_says_otherwise(server, jobs):
    jobs.post("a")

    jobs.reserve()
    server.advance(50)
    assert jobs.reserve() == []
    server.advance(10.5)

    assert bodies(jobs.reserve()) == ["a"]


def test_each_reservation_and_each_touch_is_counted(server, jobs):
    [identifier] = jobs.post("a")

    [message] = jobs.reserve(timeout=5)
    assert message["reserved_count"] == 1
    server.advance(6)
    [message] = jobs.reserve(timeout=5)
    assert message["reserved_count"] == 2
    jobs.touch(message)
    assert jobs.get(identifier)["reserved_count"] == 3
    server.advance(61)

    assert jobs.reserve()[0]["reserved_count"] == 4


def test_size_has_reserved_and_delayed_messages_until_they_are_deleted(jobs):
    jobs.post("a", "b", {"body": "c", "delay": 60})
    assert jobs.size() == 3

    [message] = jobs.reserve()
    assert jobs.size() == 3
    jobs.delete(message)

    assert jobs.size() == 2


def test_total_messages_counts_all_that_was_ever_posted(jobs):
    jobs.post("a", "b")
    jobs.delete(jobs.reserve()[0])
    jobs.post("c")
    jobs.clear()

    assert jobs.info()["total_messages"] == 3


def test_a_message_is_deleted_by_its_reservation(server, jobs):
    [identifier] = jobs.post("a")
    [message] = jobs.reserve(timeout=5)

    assert jobs.delete(message) == {"msg": "Deleted"}

    server.advance(6)
    assert jobs.reserve() == []
    assert jobs.size() == 0


def test_a_message_that_is_not_reserved_is_deleted_by_its_id(jobs):
    first, second = jobs.post("a", "b")

    assert jobs.delete(first) == {"msg": "Deleted"}

    assert bodies(jobs.peek()) == ["b"]


def test_a_delayed_message_is_deleted_by_its_id(server, jobs):
    [identifier] = jobs.post({"body": "a", "delay": 60})

    jobs.delete(identifier)

    server.advance(61)
    assert jobs.reserve() == []


@pytest.mark.parametrize("asked", [None, "", {}, {"reservation_id": ""}, {"reservation_id": None}])
def test_a_reserved_message_is_not_deleted_without_its_reservation(jobs, refused, asked):
    [identifier] = jobs.post("a")
    jobs.reserve()

    with refused(400, "A reservation_id is required"):
        jobs.iron.call("DELETE", f"/jobs/messages/{identifier}", asked)

    assert jobs.size() == 1


@pytest.mark.parametrize("reservation", [FOREIGN, "nonsense", "ü"])
def test_a_message_is_not_deleted_by_another_reservation(jobs, refused, reservation):
    jobs.post("a")
    [message] = jobs.reserve()

    with refused(403, "Reservation timed out"):
        jobs.delete(message | {"reservation_id": reservation})

    assert jobs.size() == 1


def test_a_reservation_of_another_message_deletes_nothing(jobs, refused):
    jobs.post("a", "b")
    first, second = jobs.reserve(n=2)

    with refused(403, "Reservation timed out"):
        jobs.delete(first | {"reservation_id": second["reservation_id"]})

    assert jobs.size() == 2


def test_a_reservation_that_timed_out_deletes_nothing_even_if_nobody_has_reserved_since(server, jobs, refused):
    jobs.post("a")
    [message] = jobs.reserve(timeout=3)

    server.advance(3.5)
    with refused(403, "Reservation timed out"):
        jobs.delete(message)

    assert bodies(jobs.reserve()) == ["a"]


def test_a_message_that_timed_out_is_deleted_by_its_id(server, jobs):
    jobs.post("a")
    [message] = jobs.reserve(timeout=3)

    server.advance(3.5)
    jobs.delete(message["id"])

    assert jobs.size() == 0


@pytest.mark.parametrize("call", ["delete", "touch", "release"])
def test_a_reservation_ends_when_another_begins(server, jobs, refused, call):
    jobs.post("a")
    [first] = jobs.reserve(timeout=3)
    server.advance(3.5)
    [second] = jobs.reserve()

    assert first["reservation_id"] != second["reservation_id"]
    with refused(403, "Reservation timed out"):
        getattr(jobs, call)(first)
    getattr(jobs, call)(second)


@pytest.mark.parametrize("call", ["touch", "release"])
def test_a_reservation_that_timed_out_can_neither_be_touched_nor_released(server, jobs, refused, call):
    jobs.post("a")
    [message] = jobs.reserve(timeout=3)

    server.advance(3.5)
    with refused(403, "Reservation timed out"):
        getattr(jobs, call)(message)

    assert bodies(jobs.reserve()) == ["a"]


def test_touch_makes_a_new_reservation_and_ends_the_old_one(jobs, refused):
    jobs.post("a")
    [message] = jobs.reserve()

    second = jobs.touch(message)
    third = jobs.touch(message | {"reservation_id": second})

    assert len({message["reservation_id"], second, third}) == 3
    for old in (message["reservation_id"], second):
        for call in (jobs.delete, jobs.touch, jobs.release):
            with refused(403, "Reservation timed out"):
                call(message | {"reservation_id": old})
    jobs.delete(message | {"reservation_id": third})


def test_touch_lasts_as_long_as_it_says(server, jobs):
    jobs.post("a")
    [message] = jobs.reserve(timeout=5)

    jobs.touch(message, timeout=200)
    server.advance(190)
    assert jobs.reserve() == []
    server.advance(10.5)

    assert bodies(jobs.reserve()) == ["a"]


def test_touch_without_timeout_lasts_as_long_as_the_queue_says(server, jobs):
    jobs.post("a")
    [message] = jobs.reserve(timeout=5)

    again = jobs.touch(message)
    server.advance(30)  # Beyond the first reservation's own five seconds.
    jobs.touch(message | {"reservation_id": again})
    server.advance(50)
    assert jobs.reserve() == []
    server.advance(10.5)

    assert bodies(jobs.reserve()) == ["a"]


@pytest.mark.parametrize("call", ["touch", "release"])
def test_touch_and_release_need_a_reservation(jobs, refused, call):
    [identifier] = jobs.post("a")
    jobs.reserve()

    with refused(400, "A reservation_id is required"):
        jobs.iron.call("POST", f"/jobs/messages/{identifier}/{call}", {})


def test_release_makes_a_message_visible_at_once(jobs, refused):
    jobs.post("a")
    [message] = jobs.reserve()

    assert jobs.release(message) == {"msg": "Released"}

    [again] = jobs.reserve()
    assert (again["id"], again["reserved_count"]) == (message["id"], 2)
    with refused(403, "Reservation timed out"):
        jobs.delete(message)


def test_a_released_message_s_reservation_deletes_nothing(jobs, refused):
    jobs.post("a")
    [message] = jobs.reserve()
    jobs.release(message)

    with refused(403, "Reservation timed out"):
        jobs.delete(message)

    assert bodies(jobs.peek()) == ["a"]


@pytest.mark.parametrize("delay", [30, 86_400, 604_800])
def test_release_with_delay_hides_a_message_so_long(server, jobs, delay):
    jobs.update(message_expiration=2_592_000)
    jobs.post("a")
    [message] = jobs.reserve()

    jobs.release(message, delay=delay)
    assert jobs.size() == 1
    server.advance(delay - 10)
    assert jobs.reserve() == [] and jobs.peek() == []
    server.advance(10.5)

    assert bodies(jobs.reserve()) == ["a"]


@pytest.mark.parametrize("delay", [30, 86_400, 604_800])
def test_a_delayed_message_comes_when_its_delay_is_over(server, jobs, delay):
    jobs.update(message_expiration=2_592_000)
    jobs.post({"body": "later", "delay": delay}, "now")

    assert bodies(jobs.reserve(n=10, timeout=86_400, delete=True)) == ["now"]
    server.advance(delay - 10)
    assert jobs.reserve() == []
    server.advance(10.5)

    assert bodies(jobs.reserve()) == ["later"]


def test_reserve_with_delete_removes_at_once(server, jobs):
    jobs.post("a", "b")

    assert bodies(jobs.reserve(n=1, delete=True)) == ["a"]

    assert jobs.size() == 1
    server.advance(61)
    assert bodies(jobs.reserve(n=10)) == ["b"]


def test_many_are_deleted_by_reservation_and_by_id_in_one_call(jobs):
    ids = jobs.post("a", "b", "c")
    reserved = jobs.reserve(n=2)

    assert jobs.delete_many([*reserved, ids[2]]) == {"msg": "Deleted"}

    assert jobs.size() == 0


def test_many_are_deleted_straight_after_their_post(jobs):
    ids = jobs.post("a", "b", "c")

    jobs.delete_many(ids[:2])

    assert bodies(jobs.peek()) == ["c"]


def test_a_reserved_message_without_its_reservation_fails_the_whole_batch(jobs, refused):
    ids = jobs.post("a", "b")
    jobs.reserve()

    with refused(400, "A reservation_id is required"):
        jobs.delete_many([ids[1], ids[0]])

    assert jobs.size() == 2


def test_a_stale_reservation_fails_the_whole_batch(jobs, refused):
    jobs.post("a", "b")
    first, second = jobs.reserve(n=2)

    with refused(403, "Reservation timed out"):
        jobs.delete_many([first, second | {"reservation_id": FOREIGN}])

    assert jobs.size() == 2


def test_clear_removes_all_and_reservations_with_it(server, jobs):
    jobs.post("a", "b", {"body": "c", "delay": 60})
    jobs.reserve()

    assert jobs.clear() == {"msg": "Cleared"}
    assert jobs.clear() == {"msg": "Cleared"}

    assert jobs.size() == 0
    server.advance(61)
    assert jobs.reserve(n=10) == []


def test_messages_vanish_when_they_expire(server, jobs):
    jobs.update(message_expiration=100)
    [identifier] = jobs.post("a")

    server.advance(90)
    assert bodies(jobs.peek()) == ["a"]
    server.advance(10.5)

    assert jobs.peek() == [] and jobs.reserve() == []
    assert jobs.size() == 0


def test_messages_expire_after_a_week_unless_the_queue_says_otherwise(server, jobs):
    jobs.post("a")

    server.advance(604_700)
    assert bodies(jobs.peek()) == ["a"]
    server.advance(101)

    assert jobs.peek() == []


def test_an_old_message_s_own_timeout_and_expiry_are_ignored(server, jobs):
    jobs.post({"body": "a", "timeout": 10, "expires_in": 30})

    jobs.reserve()
    server.advance(40)
    assert jobs.reserve() == []
    server.advance(21)

    assert bodies(jobs.reserve()) == ["a"]


def test_a_missing_message_is_not_found(jobs, refused):
    [identifier] = jobs.post("a")
    missing = {"id": str(int(identifier) + 1_000_000), "reservation_id": FOREIGN}

    for call in (jobs.touch, jobs.release, jobs.delete):
        with refused(404):
            call(missing)
    for nonsense in (missing["id"], "1", "9" * 19, "9" * 40, "x", "%C3%BC", "-1"):
        with refused(404):
            jobs.get(nonsense)


def test_a_deleted_message_is_not_found(jobs, refused):
    [identifier] = jobs.post("a")
    jobs.delete(identifier)

    for call in (jobs.get, jobs.delete):
        with refused(404):
            call(identifier)


def test_what_reads_a_missing_queue_finds_none(iron, refused):
    missing = Queue(iron, "missing")
    message = {"id": "1" * 19, "reservation_id": FOREIGN}

    for call in (missing.info, missing.reserve, missing.peek, missing.clear, missing.drop):
        with refused(404, "Queue not found"):
            call()
    for call in (missing.touch, missing.release, missing.delete):
        with refused(404):
            call(message)
    with refused(404):
        missing.get("1" * 19)
    assert iron.call("GET") == {"queues": []}


def test_a_message_of_a_deleted_queue_is_none_of_its_successor_s(jobs, refused):
    [identifier] = jobs.post("a")
    jobs.drop()
    jobs.post("b")

    for call in (jobs.get, jobs.delete):
        with refused(404):
            call(identifier)

    assert bodies(jobs.peek()) == ["b"]


def test_a_wait_ends_with_its_queue(server, jobs, background, refused):
    other = Queue(Iron(server.endpoint, jobs.iron.project), "jobs")
    waiting = background(other.reserve, wait=30)
    let_park()

    jobs.drop()

    with refused(404, "Queue not found"):
        waiting.result(20)


def test_a_post_makes_the_queue(iron):
    fresh = Queue(iron, "fresh")

    fresh.post("a")

    assert fresh.info() | {"project_id": ""} == {
        "project_id": "",
        "name": "fresh",
        "size": 1,
        "total_messages": 1,
        "type": "pull",
        "message_timeout": 60,
        "message_expiration": 604_800,
    }


def test_a_deleted_queue_is_gone_and_a_post_makes_a_fresh_one(jobs, refused):
    jobs.update(message_timeout=100)
    jobs.post("a")
    assert jobs.drop() == {"msg": "Deleted."}
    with refused(404, "Queue not found"):
        jobs.info()

    jobs.post("b")

    assert bodies(jobs.peek()) == ["b"]
    assert (jobs.info()["total_messages"], jobs.info()["message_timeout"]) == (1, 60)


def test_reserve_waits_for_a_message(server, jobs, background):
    with_wait = Queue(Iron(server.endpoint, jobs.iron.project), "jobs")
    waiting = background(with_wait.reserve, wait=30)
    let_park()
    assert not waiting.done()

    jobs.post("a")

    assert bodies(waiting.result(20)) == ["a"]


def test_reserve_waits_for_a_release(server, jobs, background):
    jobs.post("a")
    [message] = jobs.reserve()
    with_wait = Queue(Iron(server.endpoint, jobs.iron.project), "jobs")
    waiting = background(with_wait.reserve, n=10, wait=30)
    let_park()

    jobs.release(message)

    assert bodies(waiting.result(20)) == ["a"]


def test_reserve_gives_what_there_is_instead_of_waiting_for_n(jobs):
    jobs.post("a")

    assert bodies(jobs.reserve(n=10, wait=30)) == ["a"]


def test_reserve_gives_nothing_when_its_wait_is_over(jobs):
    assert jobs.reserve(wait=1) == []


def test_a_client_that_went_away_while_it_waited_reserves_nothing(server, jobs):
    address = ("127.0.0.1", server.port)
    asked = b'{"wait":30,"timeout":3600}'
    head = f"POST {jobs.iron.root}/jobs/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: {len(asked)}\r\n\r\n"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head.encode() + asked)
        let_park()

    [identifier] = jobs.post("a")

    # If it was handed out before the server saw the end of the connection, it is given back.
    [message] = eventually(jobs.reserve)
    assert message["id"] == identifier


def test_many_who_wait_get_one_each(server, jobs, background):
    def reserve():
        with contextlib.closing(Iron(server.endpoint, jobs.iron.project)) as iron:
            return Queue(iron, "jobs").reserve(wait=30)

    waiting = [background(reserve) for _ in range(10)]
    let_park()

    jobs.post(*"abcdefghij")

    assert sorted(sum((bodies(one.result(20)) for one in waiting), [])) == list("abcdefghij")


class TestDeadLetters:
    @pytest.fixture
    def letters(self, iron):
        return Queue(iron, "letters")

    def fail(self, server, queue, times):
        for n in range(times):
            [message] = queue.reserve(timeout=5)
            assert message["reserved_count"] == n + 1
            server.advance(6)

    def test_reserve_moves_what_was_reserved_often_enough(self, server, jobs, letters):
        jobs.update(dead_letter={"queue_name": "letters", "max_reservations": 3})
        jobs.post("a")

        self.fail(server, jobs, 3)
        assert jobs.reserve() == []

        assert jobs.size() == 0
        # An id is of one queue: the service kept it, here the message has another.
        [message] = letters.peek()
        assert message == {"id": message["id"], "body": "a", "reserved_count": 3}
        assert letters.get(message["id"]) == message
        assert letters.info()["type"] == "pull"

    def test_one_delivery_at_most(self, server, jobs, letters):
        jobs.update(dead_letter={"queue_name": "letters", "max_reservations": 1})
        jobs.post("a", "b")

        self.fail(server, jobs, 1)
        # Where it would move after others were found, the next reserve moves it.
        assert bodies(jobs.reserve(n=10) + jobs.reserve(n=10)) == ["b"]

        assert bodies(letters.peek()) == ["a"]

    def test_ten_deliveries_unless_the_queue_says_otherwise(self, jobs):
        jobs.update(dead_letter={"queue_name": "letters"})

        assert jobs.info()["dead_letter"] == {"queue_name": "letters", "max_reservations": 10}

    def test_neither_peek_nor_touch_moves(self, server, jobs, letters):
        jobs.update(dead_letter={"queue_name": "letters", "max_reservations": 1})
        [identifier] = jobs.post("a")

        [message] = jobs.reserve()
        message["reservation_id"] = jobs.touch(message)
        jobs.release(message)
        assert jobs.peek() == [{"id": identifier, "body": "a", "reserved_count": 2}]
        assert jobs.reserve() == []

        assert bodies(letters.peek()) == ["a"]

    def test_a_moved_message_s_time_starts_again(self, server, jobs, letters):
        jobs.update(message_expiration=100, dead_letter={"queue_name": "letters", "max_reservations": 1})
        letters.create(message_expiration=200)
        jobs.post("a")

        server.advance(50)
        self.fail(server, jobs, 1)
        jobs.reserve()
        server.advance(190)
        assert bodies(letters.peek()) == ["a"]
        server.advance(11)

        assert letters.peek() == []

    def test_a_moved_message_is_reserved_and_deleted_as_any(self, server, jobs, letters):
        jobs.update(dead_letter={"queue_name": "letters", "max_reservations": 1})
        jobs.post("a")
        self.fail(server, jobs, 1)
        jobs.reserve()

        [message] = letters.reserve()
        letters.delete(message)

        assert letters.size() == 0

    def test_an_empty_name_switches_it_off(self, server, jobs):
        jobs.update(dead_letter={"queue_name": "letters", "max_reservations": 1})
        assert "dead_letter" not in jobs.update(dead_letter={"queue_name": ""})
        jobs.post("a")

        self.fail(server, jobs, 3)

        assert "dead_letter" not in jobs.info()
        assert bodies(jobs.reserve()) == ["a"]

    @pytest.mark.parametrize("max_reservations", [-1, 1001, "many", 1.5])
    def test_its_number_has_bounds(self, jobs, refused, max_reservations):
        with refused(400):
            jobs.update(dead_letter={"queue_name": "letters", "max_reservations": max_reservations})

        assert "dead_letter" not in jobs.info()
