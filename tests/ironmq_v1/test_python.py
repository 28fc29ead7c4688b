"""iron-mq 0.7, the last official client for Python that speaks version 1."""

import uuid

import iron_mq
import pytest
import requests


@pytest.fixture
def client(server):
    address = {"host": "127.0.0.1", "port": server.port, "protocol": "http"}
    return iron_mq.IronMQ(project_id=uuid.uuid4().hex[:24], token="token", api_version=1, **address)


@pytest.fixture
def jobs(client):
    return client.queue("jobs")


def bodies(answer: dict) -> list[str]:
    return [message["body"] for message in answer["messages"]]


def test_the_client_is_the_one_of_version_1(client):
    assert iron_mq.IronMQ.VERSION == "0.7"
    assert "/1/projects/" in client.client.base_url


def test_a_message_s_life(jobs):
    posted = jobs.post("a", {"body": "b", "timeout": 90, "delay": 0, "expires_in": 3600}, "grüße ✓")
    assert posted["msg"] == "Messages put on queue."
    first, second, third = posted["ids"]
    assert bodies(jobs.peek()) == ["a"]
    assert bodies(jobs.peek(max=3)) == ["a", "b", "grüße ✓"]
    assert jobs.get_message_by_id(second)["timeout"] == 90

    [message] = jobs.get()["messages"]
    assert (message["id"], message["body"], message["reserved_count"]) == (first, "a", 1)
    assert jobs.touch(first) == {"msg": "Touched"}
    assert jobs.release(first) == {"msg": "Released"}
    [message] = jobs.get(max=1, timeout=60, wait=1)["messages"]
    assert message["id"] == first
    assert jobs.delete(first) == {"msg": "Deleted"}
    assert sorted(bodies(jobs.get(max=10))) == ["b", "grüße ✓"]
    assert jobs.delete_multiple(second, third) == {"msg": "Deleted"}
    assert jobs.get()["messages"] == []
    assert (jobs.size(), jobs.total_messages()) == (0, 3)
    assert jobs.id()


def test_time(server, jobs):
    jobs.post({"body": "a", "timeout": 30, "expires_in": 3600})

    jobs.get()
    server.advance(31)
    [message] = jobs.get()["messages"]
    assert message["reserved_count"] == 2
    jobs.release(message["id"], delay=60)
    server.advance(59)
    assert jobs.get()["messages"] == []
    server.advance(2)
    assert bodies(jobs.get(timeout=30)) == ["a"]
    server.advance(3600)

    assert jobs.get()["messages"] == []


def test_a_queue_s_life(client, jobs):
    assert jobs.update()["name"] == "jobs"
    jobs.post("a", "b")
    assert jobs.clear() == {"msg": "Cleared"}
    assert jobs.size() == 0
    # The client's own `queues()` calls a function that Python 3 has elsewhere.
    assert [queue["name"] for queue in client.client.get("queues?page=0&per_page=5")["body"]] == ["jobs"]
    assert jobs.delete_queue() == {"msg": "Deleted."}
    for call in (jobs.info, jobs.get, jobs.clear, jobs.delete_queue):
        with pytest.raises(requests.HTTPError) as caught:
            call()
        assert caught.value.response.status_code == 404


def test_subscribers(client):
    pushed = client.queue("pushed")
    made = pushed.update(subscribers=["http://127.0.0.1:9/a"], push_type="multicast", retries=5)
    assert made.items() >= {"push_type": "multicast", "retries": 5}.items()

    added = pushed.add_subscribers("http://127.0.0.1:9/b")
    assert len(added["subscribers"]) == 2
    removed = pushed.remove_subscribers("http://127.0.0.1:9/a")
    assert [subscriber["url"] for subscriber in removed["subscribers"]] == ["http://127.0.0.1:9/b"]
    pushed.delete_queue()


def test_alerts(jobs):
    alert = {"type": "fixed", "direction": "asc", "trigger": 100, "queue": "alarms"}
    jobs.update()
    assert jobs.add_alerts(alert) == {"msg": "Alerts were added."}
    others = [alert | {"trigger": trigger} for trigger in (200, 300, 400)]
    assert jobs.update_alerts(*others) == {"msg": "Alerts were replaced."}
    first, second, third = jobs.info()["alerts"]

    assert jobs.remove_alerts(first["id"]) == {"msg": "Alerts were deleted."}
    assert jobs.remove_alert(second["id"]) == {"msg": "Alerts were deleted."}

    assert jobs.info()["alerts"] == [third]
