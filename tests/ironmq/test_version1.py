"""The rules of version 1 that differ from version 3, and both versions on one queue: there are no reservation ids, a
message's own id deletes, touches and releases it.
"""

import pytest

from support.ironmq import Iron, Queue, bodies


@pytest.fixture
def post(iron1):
    def of(*messages):
        messages = [{"body": m} if isinstance(m, str) else m for m in messages]
        return iron1.call("POST", "/jobs/messages", {"messages": messages})["ids"]

    return of


@pytest.fixture
def get(iron1):
    def of(query="") -> list[dict]:
        return iron1.call("GET", f"/jobs/messages{query}")["messages"]

    return of


def test_messages_are_reserved_by_get(post, get):
    ids = post("a", "b", "c")

    [message] = get()
    others = get("?n=10")

    assert (message["id"], message["body"], message["reserved_count"]) == (ids[0], "a", 1)
    assert bodies(others) == ["b", "c"]
    assert get("?n=10") == []


def test_a_reserved_message_is_deleted_by_its_id(server, iron1, post, get):
    [identifier] = post("a")
    get()

    assert iron1.call("DELETE", f"/jobs/messages/{identifier}") == {"msg": "Deleted"}

    server.advance(61)
    assert get() == []


def test_many_are_deleted_by_their_ids(iron1, post, get):
    ids = post("a", "b", "c")
    get("?n=2")

    assert iron1.call("DELETE", "/jobs/messages", {"ids": ids}) == {"msg": "Deleted"}

    assert iron1.call("GET", "/jobs")["size"] == 0


def test_a_message_has_its_own_timeout(server, post, get):
    post({"body": "a", "timeout": 30}, {"body": "b"}, {"body": "c", "timeout": 0})

    assert [message["timeout"] for message in get("?n=3")] == [30, 60, 60]
    server.advance(31)
    assert bodies(get("?n=3&timeout=600")) == ["a"]
    server.advance(31)

    assert sorted(bodies(get("?n=3"))) == ["b", "c"]


def test_get_may_choose_another_timeout(server, post, get):
    post({"body": "a", "timeout": 300})

    get("?timeout=30")
    server.advance(31)

    assert bodies(get("?timeout=0")) == ["a"]
    server.advance(290)
    assert get() == []
    server.advance(10.5)
    assert bodies(get()) == ["a"]


def test_touch_lasts_as_long_as_the_message_s_own_timeout(server, iron1, post, get):
    [identifier] = post({"body": "a", "timeout": 100})
    get("?timeout=30")

    server.advance(25)
    assert iron1.call("POST", f"/jobs/messages/{identifier}/touch", {}) == {"msg": "Touched"}
    server.advance(90)
    assert get() == []
    server.advance(10.5)

    assert bodies(get()) == ["a"]


@pytest.mark.parametrize("body", [None, "", {}, {"delay": 0}])
def test_release_needs_no_body(iron1, post, get, body):
    [identifier] = post("a")
    get()

    assert iron1.call("POST", f"/jobs/messages/{identifier}/release", body) == {"msg": "Released"}

    assert bodies(get()) == ["a"]


def test_release_with_delay(server, iron1, post, get):
    [identifier] = post("a")
    get()

    iron1.call("POST", f"/jobs/messages/{identifier}/release", {"delay": 60})

    server.advance(50)
    assert get() == []
    server.advance(10.5)
    assert bodies(get()) == ["a"]


@pytest.mark.parametrize("expires_in, left", [(0, ["a"]), (3600, [])])
def test_a_message_has_its_own_expiry(server, post, get, expires_in, left):
    post({"body": "a", "expires_in": expires_in})

    server.advance(3500)
    assert len(get("?timeout=1")) == 1
    server.advance(101)

    assert bodies(get()) == left


def test_delay_and_delete(server, iron1, post, get):
    post({"body": "later", "delay": 60}, "now")

    assert bodies(get("?n=10&delete=true")) == ["now"]
    server.advance(61)

    assert bodies(get()) == ["later"]
    assert iron1.call("GET", "/jobs")["size"] == 1


def test_peek_and_get_by_id_reserve_nothing(iron1, post, get):
    ids = post("a", "b")

    assert bodies(iron1.call("GET", "/jobs/messages/peek")["messages"]) == ["a"]
    assert bodies(iron1.call("GET", "/jobs/messages/peek?n=10")["messages"]) == ["a", "b"]
    assert iron1.call("GET", f"/jobs/messages/{ids[0]}")["reserved_count"] == 0

    assert bodies(get("?n=2")) == ["a", "b"]


def test_get_waits(server, iron1, post, get, background):
    iron1.call("POST", "/jobs", {})
    waiting = background(get, "?wait=30")
    other = Queue(Iron(server.endpoint, iron1.project), "jobs")

    other.post("a")

    assert bodies(waiting.result(20)) == ["a"]


@pytest.mark.parametrize(
    "message",
    [
        {"body": "a", "timeout": -1},
        {"body": "a", "timeout": 86_401},
        {"body": "a", "expires_in": 2_592_001},
        {"body": "a", "expires_in": -1},
        {"body": "a", "delay": 604_801},
    ],
    ids=str,
)
def test_a_message_s_fields_have_bounds(iron1, message):
    assert iron1.send("POST", "/jobs/messages", {"messages": [message]}).status == 400


class TestBothVersions:
    """One queue in both."""

    def test_what_one_posts_the_other_reserves_and_deletes(self, jobs, iron1, post, get):
        [old] = post("old")
        [new] = jobs.post("new")

        assert bodies(jobs.peek()) == ["old", "new"]
        [message] = jobs.reserve()
        jobs.delete(message)
        [message] = get()
        assert (message["id"], message["body"]) == (new, "new")
        iron1.call("DELETE", f"/jobs/messages/{new}")

        assert jobs.size() == iron1.call("GET", "/jobs")["size"] == 0

    def test_version_1_deletes_what_version_3_reserved(self, jobs, iron1, refused):
        """It has no reservation id to show: the message's own id is all it needs."""
        [identifier] = jobs.post("a")
        [message] = jobs.reserve()

        assert iron1.call("DELETE", f"/jobs/messages/{identifier}") == {"msg": "Deleted"}

        with refused(404):
            jobs.delete(message)

    def test_version_3_needs_a_reservation_for_what_version_1_reserved(self, jobs, post, get, refused):
        [identifier] = post("a")
        get()

        with refused(400, "A reservation_id is required"):
            jobs.delete(identifier)

    @pytest.mark.parametrize("call", ["touch", "release"])
    def test_version_1_ends_a_reservation_of_version_3(self, jobs, iron1, refused, call):
        [identifier] = jobs.post("a")
        [message] = jobs.reserve()

        iron1.call("POST", f"/jobs/messages/{identifier}/{call}", {})

        with refused(403, "Reservation timed out"):
            jobs.delete(message)

    def test_a_queue_made_by_one_is_the_other_s(self, iron, iron1):
        Queue(iron, "new").create(message_timeout=90)
        iron1.call("POST", "/old", {})

        assert [queue["name"] for queue in iron1.call("GET")] == ["new", "old"]
        assert iron.call("GET") == {"queues": [{"name": "new"}, {"name": "old"}]}
        iron1.call("DELETE", "/new")
        assert iron.send("GET", "/new").status == 404
