"""iron-mq 0.9, the official client for Python, which speaks version 3."""

import iron_mq
import pytest
import requests

from support.ironmq import MESSAGE_ID, RESERVATION_ID, bodies


@pytest.fixture
def client(server, project):
    return iron_mq.IronMQ(host="127.0.0.1", port=server.port, protocol="http", project_id=project, token="token")


@pytest.fixture
def jobs(client):
    queue = client.queue("jobs")
    client.create_queue("jobs")
    return queue


def status_of(call, *arguments, **options) -> int:
    with pytest.raises(requests.HTTPError) as caught:
        call(*arguments, **options)
    return caught.value.response.status_code


def test_the_client_is_the_one_of_version_3():
    assert (iron_mq.IronMQ.VERSION, iron_mq.IronMQ.API_VERSION) == ("0.9", 3)


def test_a_message_s_life(jobs):
    posted = jobs.post("a", {"body": "b", "delay": 0}, "grüße ✓")
    assert posted["msg"] == "Messages put on queue."
    first, second, third = posted["ids"]
    assert MESSAGE_ID.fullmatch(first)
    assert bodies(jobs.peek()["messages"]) == ["a"]
    assert bodies(jobs.peek(max=3)["messages"]) == ["a", "b", "grüße ✓"]
    assert jobs.get_message_by_id(third)["body"] == "grüße ✓"

    [message] = jobs.reserve()["messages"]
    assert (message["id"], message["body"], message["reserved_count"]) == (first, "a", 1)
    assert RESERVATION_ID.fullmatch(message["reservation_id"])
    touched = jobs.touch(first, message["reservation_id"], timeout=120)
    assert touched["msg"] == "Touched"
    assert status_of(jobs.delete, first, message["reservation_id"]) == 403
    assert status_of(jobs.delete, first) == 400
    assert jobs.release(first, touched["reservation_id"]) == {"msg": "Released"}
    [message] = jobs.get(max=1, timeout=60, wait=1)["messages"]
    assert jobs.delete(first, message["reservation_id"]) == {"msg": "Deleted"}
    assert status_of(jobs.get_message_by_id, first) == 404


def test_many_are_deleted_by_id_or_as_reserved(jobs):
    ids = jobs.post(*"abcd")["ids"]

    reserved = jobs.reserve(max=2)
    assert jobs.delete_multiple(messages=reserved) == {"msg": "Deleted"}
    assert jobs.delete_multiple(ids=ids[2:]) == {"msg": "Deleted"}

    assert jobs.size() == 0
    assert jobs.total_messages() == 4


def test_reserve_with_all_options(jobs):
    jobs.post("a", "b")

    assert bodies(jobs.reserve(max=1, timeout=60, wait=1, delete=True)["messages"]) == ["a"]

    assert jobs.size() == 1


def test_release_with_delay(server, jobs):
    jobs.post("a")
    [message] = jobs.reserve()["messages"]

    jobs.release(message["id"], message["reservation_id"], delay=60)
    assert jobs.reserve()["messages"] == []
    server.advance(61)

    assert bodies(jobs.reserve()["messages"]) == ["a"]


def test_a_queue_s_life(client):
    options = {"message_timeout": 90, "message_expiration": 7200}
    made = client.create_queue("made", options)
    assert made.items() >= ({"name": "made", "type": "pull"} | options).items()
    queue = client.queue("made")
    assert queue.update({"message_timeout": 100})["message_timeout"] == 100
    assert client.update_queue("made")["message_timeout"] == 100
    queue.post("a", "b")
    assert queue.info().items() >= {"size": 2, "total_messages": 2, "message_expiration": 7200}.items()
    assert queue.clear() == {"msg": "Cleared"}
    assert queue.size() == 0
    assert queue.delete_queue() == {"msg": "Deleted."}
    assert status_of(queue.info) == status_of(queue.delete_queue) == status_of(queue.reserve) == 404


def test_queues_are_listed_by_the_client_s_core(client):
    """Its own `queues()` calls a function that Python 3 has elsewhere."""
    for name in "abc":
        client.create_queue(name)

    found = client.client.get("queues?per_page=2&previous=a")

    assert found["body"] == {"queues": [{"name": "b"}, {"name": "c"}]}


def test_a_name_with_a_slash_is_not_found(client):
    """The client sends it as it is, which makes another path of it."""
    assert status_of(client.create_queue, "a/b") == 404
    assert status_of(client.queue("a/b").post, "x") == 404


def test_a_name_with_a_space(client):
    client.queue("a b").post("x")

    assert client.queue("a b").info()["name"] == "a b"


def test_dead_letters(client, jobs):
    jobs.update({"dead_letter": {"queue_name": "letters", "max_reservations": 1}})
    jobs.post("a")

    [message] = jobs.reserve()["messages"]
    jobs.release(message["id"], message["reservation_id"])
    assert jobs.reserve()["messages"] == []

    assert bodies(client.queue("letters").peek()["messages"]) == ["a"]


def test_subscribers(client):
    subscribers = [{"name": n, "url": f"http://127.0.0.1:9/{n}"} for n in "ab"]
    push = {"subscribers": subscribers[:1], "retries": 5}
    made = client.create_queue("pushed", {"type": "multicast", "push": push})
    assert made["push"].items() >= push.items()
    pushed = client.queue("pushed")

    def names():
        return {subscriber["name"] for subscriber in pushed.info()["push"]["subscribers"]}

    assert pushed.add_subscribers(subscribers[1]) == {"msg": "Updated"}
    assert names() == {"a", "b"}
    assert pushed.remove_subscribers("a") == {"msg": "Updated"}
    assert names() == {"b"}
    assert pushed.replace_subscribers(subscribers[0]) == {"msg": "Updated"}
    assert names() == {"a"}
    [identifier] = pushed.post("x")["ids"]
    [status] = pushed.get_message_push_statuses(identifier)["subscribers"]
    assert status["name"] == "a"
    pushed.delete_queue()


def test_alerts(jobs):
    alert = {"type": "fixed", "direction": "asc", "trigger": 100, "queue": "alarms"}
    [added] = jobs.add_alerts(alert)["alerts"]
    assert added.items() >= alert.items() and added["id"]
    [first, second] = jobs.update_alerts(alert, alert | {"trigger": 200})["alerts"]

    jobs.remove_alerts({"id": first["id"]})

    assert jobs.info()["alerts"] == [second]
