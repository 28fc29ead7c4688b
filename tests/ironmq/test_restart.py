"""What a server knows again after its restart."""

import pytest

from support.ironmq import Iron, Queue, bodies

PUSH = {
    "subscribers": [{"name": "a", "url": "http://127.0.0.1:9/a", "headers": {"X-Key": "1"}}],
    "retries": 5,
    "retries_delay": 30,
    "error_queue": "errors",
}
ALERT = {"type": "progressive", "direction": "desc", "trigger": 10, "queue": "alarms", "snooze": 5}


@pytest.fixture(params=["stop", "kill"])
def restart(request, make_server, project):
    """A server, and what restarts it and gives a new connection."""
    server = make_server(durability="fsync")

    def again():
        server.restart(request.param)
        return Iron(server.endpoint, project)

    return Iron(server.endpoint, project), again


def test_queues_and_their_settings(restart):
    iron, again = restart
    letters = {"queue_name": "letters", "max_reservations": 3}
    Queue(iron, "jobs").create(message_timeout=90, message_expiration=7200, dead_letter=letters, alerts=[ALERT])
    Queue(iron, "pushed").create(type="unicast", push=PUSH)
    before = {name: Queue(iron, name).info() for name in ("jobs", "pushed", "letters")}

    iron = again()

    assert {name: Queue(iron, name).info() for name in before} == before
    assert before["pushed"]["push"] == PUSH
    assert before["jobs"]["alerts"] == [ALERT | {"id": before["jobs"]["alerts"][0]["id"]}]


def test_messages_their_ids_and_their_reservations(restart, refused):
    iron, again = restart
    jobs = Queue(iron, "jobs")
    first, second, third = jobs.post("a", "b", {"body": "c", "delay": 3600})
    [old] = jobs.reserve(timeout=3600)
    held = old | {"reservation_id": jobs.touch(old, timeout=3600)}

    jobs = Queue(again(), "jobs")

    assert [jobs.get(identifier)["body"] for identifier in (first, second, third)] == ["a", "b", "c"]
    assert bodies(jobs.peek()) == ["b"]
    assert jobs.get(first)["reserved_count"] == 2
    with refused(403, "Reservation timed out"):
        jobs.delete(old)
    with refused(400, "A reservation_id is required"):
        jobs.delete(first)
    jobs.delete(held)
    jobs.delete_many([second, third])
    assert jobs.size() == 0


def test_messages_ever_posted_are_counted_on(restart):
    iron, again = restart
    jobs = Queue(iron, "jobs")
    jobs.post("a", "b", "c")
    jobs.delete_many(jobs.reserve(n=2))

    jobs = Queue(again(), "jobs")
    jobs.post("d")

    assert jobs.info().items() >= {"size": 2, "total_messages": 4}.items()


def test_a_cleared_queue_stays_empty_and_a_deleted_one_gone(restart, refused):
    iron, again = restart
    cleared, dropped = Queue(iron, "cleared"), Queue(iron, "dropped")
    for queue in (cleared, dropped):
        queue.post("a", "b")
        queue.reserve()
    cleared.clear()
    dropped.drop()

    iron = again()

    assert Queue(iron, "cleared").size() == 0
    with refused(404, "Queue not found"):
        Queue(iron, "dropped").info()
