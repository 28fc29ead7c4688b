"""Every call of both versions once: its exact status and text. `support.ironmq` checks the form of each
answer; here also the bytes of a few, since clients compare texts to the letter.
"""

import json
import re
import socket

import pytest

from support.ironmq import Iron, Queue

SUBSCRIBERS = [{"name": "first", "url": "http://127.0.0.1:9/first", "headers": {"X-Key": "1"}}]
PUSH = {"subscribers": SUBSCRIBERS, "retries": 5, "retries_delay": 30, "error_queue": "errors"}
ALERT = {"type": "fixed", "direction": "asc", "trigger": 100, "queue": "alarms", "snooze": 5}


def raw(iron: Iron, head: str, body=b"") -> tuple[bytes, bytes]:
    """Head and body of the answer, as they are on the wire."""
    host, _, port = iron.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        lines = [head, f"Host: {iron.address}", "Authorization: OAuth token", f"Content-Length: {len(body)}"]
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
        answer = b""
        while data := connection.recv(1 << 16):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


class TestBytes:
    def test_of_a_success(self, iron, jobs):
        head, body = raw(iron, f"DELETE {iron.root}/jobs/messages HTTP/1.1", b"{}")

        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert body == b'{"msg":"Cleared"}'
        lines = [line.lower() for line in head.split(b"\r\n")]
        assert lines.count(b"content-type: application/json") == 1
        assert lines.count(b"content-length: 17") == 1
        assert not [line for line in lines if line.startswith((b"transfer-encoding", b"content-encoding"))]

    def test_of_a_post(self, iron):
        posted = b'{"messages":[{"body":"a"}]}'
        head, body = raw(iron, f"POST {iron.root}/jobs/messages HTTP/1.1", posted)

        assert head.startswith(b"HTTP/1.1 201 Created\r\n")
        assert re.fullmatch(rb'\{"ids":\["[0-9]+"\],"msg":"Messages put on queue\."\}', body)

    def test_of_a_post_in_version_1(self, iron1):
        posted = b'{"messages":[{"body":"a"}]}'
        head, body = raw(iron1, f"POST {iron1.root}/jobs/messages HTTP/1.1", posted)

        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert re.fullmatch(rb'\{"ids":\["[0-9]+"\],"msg":"Messages put on queue\."\}', body)

    def test_of_an_empty_reserve(self, iron, jobs):
        head, body = raw(iron, f"POST {iron.root}/jobs/reservations HTTP/1.1", b"{}")

        assert body == b'{"messages":[]}'

    def test_of_a_missing_queue(self, iron):
        head, body = raw(iron, f"GET {iron.root}/missing HTTP/1.1")

        assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
        assert body == b'{"msg":"Queue not found"}'

    @pytest.mark.parametrize("coding", ["gzip", "gzip/deflate", "gzip, deflate", "br", "*"])
    def test_nothing_is_ever_compressed(self, iron, jobs, coding):
        jobs.post("x" * 50_000)

        answer = iron.send("POST", "/jobs/reservations", {}, Accept_Encoding=coding)

        assert len(answer.body) > 50_000

    @pytest.mark.parametrize("accepted", ["text/html, image/gif, image/jpeg, */*; q=0.2", "text/xml", ""])
    def test_the_media_type_is_the_same_for_whatever_is_accepted(self, iron, jobs, accepted):
        assert iron.send("GET", "/jobs", Accept=accepted).status == 200

    def test_text_is_utf_8(self, iron, jobs):
        jobs.post("grüße ✓")

        _, body = raw(iron, f"GET {iron.root}/jobs/messages HTTP/1.1")

        assert json.loads(body.decode())["messages"][0]["body"] == "grüße ✓"


class TestVersion3:
    def test_queues(self, iron, project):
        created = iron.send("PUT", "/jobs", {"queue": {"message_timeout": 100, "message_expiration": 7200}})
        assert created.status == 200
        assert created.json() == {
            "queue": {
                "project_id": project,
                "name": "jobs",
                "type": "pull",
                "message_timeout": 100,
                "message_expiration": 7200,
            }
        }
        info = iron.send("GET", "/jobs")
        assert info.status == 200
        counted = created.json()["queue"] | {"size": 0, "total_messages": 0}
        assert info.json() == {"queue": counted}
        updated = iron.send("PATCH", "/jobs", {"queue": {"message_timeout": 200}})
        assert updated.status == 200
        assert updated.json()["queue"].items() >= {"message_timeout": 200, "message_expiration": 7200}.items()
        listed = iron.send("GET")
        assert (listed.status, listed.json()) == (200, {"queues": [{"name": "jobs"}]})
        dropped = iron.send("DELETE", "/jobs")
        assert (dropped.status, dropped.json()) == (200, {"msg": "Deleted."})
        assert iron.send("DELETE", "/jobs").status == 404

    def test_messages(self, iron):
        posted = iron.send("POST", "/jobs/messages", {"messages": [{"body": "a"}, {"body": "b"}]})
        assert posted.status == 201
        first, second = posted.json()["ids"]
        assert posted.json() == {"ids": [first, second], "msg": "Messages put on queue."}
        hooked = iron.send("POST", "/jobs/webhook", "raw=1&x", X_Subscribers_Foo="v")
        assert hooked.status in (200, 201)
        [third] = hooked.json()["ids"]
        assert hooked.json() == {"ids": [third], "msg": "Messages put on queue."}

        peeked = iron.send("GET", "/jobs/messages?n=2")
        views = [{"id": i, "body": b, "reserved_count": 0} for i, b in ((first, "a"), (second, "b"))]
        assert (peeked.status, peeked.json()) == (200, {"messages": views})
        one = iron.send("GET", f"/jobs/messages/{third}")
        assert one.json() == {"message": {"id": third, "body": "raw=1&x", "reserved_count": 0}}
        reserved = iron.send("POST", "/jobs/reservations", {"n": 1, "timeout": 60, "wait": 0, "delete": False})
        [message] = reserved.json()["messages"]
        assert (reserved.status, message.keys()) == (
            200,
            {"id", "body", "reserved_count", "reservation_id"},
        )
        asked = {"reservation_id": message["reservation_id"], "timeout": 120}
        touched = iron.send("POST", f"/jobs/messages/{first}/touch", asked)
        asked = {"reservation_id": touched.json()["reservation_id"], "delay": 60}
        assert (touched.status, touched.json()) == (
            200,
            {"reservation_id": asked["reservation_id"], "msg": "Touched"},
        )
        released = iron.send("POST", f"/jobs/messages/{first}/release", asked)
        assert (released.status, released.json()) == (200, {"msg": "Released"})
        deleted = iron.send("DELETE", f"/jobs/messages/{second}")
        assert (deleted.status, deleted.json()) == (200, {"msg": "Deleted"})
        deleted = iron.send("DELETE", "/jobs/messages", {"ids": [{"id": third}]})
        assert (deleted.status, deleted.json()) == (200, {"msg": "Deleted"})
        cleared = iron.send("DELETE", "/jobs/messages", {})
        assert (cleared.status, cleared.json()) == (200, {"msg": "Cleared"})

    def test_push_queues(self, iron):
        created = iron.call("PUT", "/pushed", {"queue": {"type": "unicast", "push": PUSH}})["queue"]
        assert (created["type"], created["push"]) == ("unicast", PUSH)
        second = {"name": "second", "url": "http://127.0.0.1:9/second"}
        for method, sent, names in (
            ("POST", [second], {"first", "second"}),
            ("DELETE", [{"name": "first"}], {"second"}),
            ("PUT", SUBSCRIBERS, {"first"}),
        ):
            answer = iron.send(method, "/pushed/subscribers", {"subscribers": sent})
            assert (answer.status, answer.json()) == (200, {"msg": "Updated"})
            subscribers = iron.call("GET", "/pushed")["queue"]["push"]["subscribers"]
            assert {subscriber["name"] for subscriber in subscribers} == names
        assert subscribers == SUBSCRIBERS

    def test_push_statuses(self, iron):
        iron.call("PUT", "/pushed", {"queue": {"push": PUSH}})
        [identifier] = iron.call("POST", "/pushed/messages", {"messages": [{"body": "a"}]})["ids"]

        answer = iron.send("GET", f"/pushed/messages/{identifier}/subscribers")

        assert answer.status == 200
        [status] = answer.json()["subscribers"]
        assert (status["name"], status["url"]) == ("first", "http://127.0.0.1:9/first")
        assert status.keys() >= {"retries_remaining", "tries"}

    def test_alerts(self, iron, jobs):
        [alert] = jobs.update(alerts=[ALERT])["alerts"]
        assert alert == ALERT | {"id": alert["id"]}
        assert jobs.info()["alerts"] == [alert]

        answer = iron.send("DELETE", "/jobs/alerts", {"queue": {"alerts": [{"id": alert["id"]}]}})
        assert answer.status == 200
        assert jobs.info().get("alerts", []) == []

        [alert] = jobs.update(alerts=[ALERT])["alerts"]
        assert iron.send("DELETE", f"/jobs/alerts/{alert['id']}").status == 200
        assert jobs.info().get("alerts", []) == []


class TestVersion1:
    def test_queues(self, iron1, project):
        updated = iron1.send("POST", "/jobs", {})
        info = iron1.send("GET", "/jobs")
        assert updated.status == info.status == 200
        assert (
            info.json().items()
            >= {
                "name": "jobs",
                "project_id": project,
                "size": 0,
                "total_messages": 0,
            }.items()
        )
        assert updated.json().items() >= {"name": "jobs", "project_id": project}.items()
        [listed] = iron1.call("GET")
        assert listed.items() >= {"name": "jobs", "project_id": project}.items() and listed["id"]
        cleared = iron1.send("POST", "/jobs/clear")
        assert (cleared.status, cleared.json()) == (200, {"msg": "Cleared"})
        dropped = iron1.send("DELETE", "/jobs")
        assert (dropped.status, dropped.json()) == (200, {"msg": "Deleted."})
        for method, path in (
            ("GET", "/jobs"),
            ("DELETE", "/jobs"),
            ("POST", "/jobs/clear"),
            ("GET", "/jobs/messages"),
        ):
            missing = iron1.send(method, path)
            assert (missing.status, missing.json()) == (404, {"msg": "Queue not found"})

    def test_messages(self, iron1):
        sent = {"messages": [{"body": "a", "timeout": 90}, {"body": "b"}]}
        posted = iron1.send("POST", "/jobs/messages", sent)
        first, second = posted.json()["ids"]
        assert (posted.status, posted.json()) == (200, {"ids": [first, second], "msg": "Messages put on queue."})
        hooked = iron1.send("POST", "/jobs/messages/webhook", "raw")
        [third] = hooked.json()["ids"]
        assert (hooked.status, hooked.json()) == (200, {"ids": [third], "msg": "Messages put on queue."})

        peeked = iron1.send("GET", "/jobs/messages/peek?n=5")
        assert [m["id"] for m in peeked.json()["messages"]] == [first, second, third]
        assert all(m["reserved_count"] == 0 for m in peeked.json()["messages"])
        one = iron1.send("GET", f"/jobs/messages/{first}")
        assert one.json().items() >= {"id": first, "body": "a", "timeout": 90, "reserved_count": 0}.items()
        reserved = iron1.send("GET", "/jobs/messages?n=1&timeout=0&wait=0&delete=false")
        [message] = reserved.json()["messages"]
        assert message.items() >= {"id": first, "body": "a", "timeout": 90, "reserved_count": 1}.items()
        assert "reservation_id" not in message
        touched = iron1.send("POST", f"/jobs/messages/{first}/touch")
        assert (touched.status, touched.json()) == (200, {"msg": "Touched"})
        released = iron1.send("POST", f"/jobs/messages/{first}/release", {"delay": 0})
        assert (released.status, released.json()) == (200, {"msg": "Released"})
        deleted = iron1.send("DELETE", f"/jobs/messages/{first}")
        assert (deleted.status, deleted.json()) == (200, {"msg": "Deleted"})
        deleted = iron1.send("DELETE", "/jobs/messages", {"ids": [second, third]})
        assert (deleted.status, deleted.json()) == (200, {"msg": "Deleted"})
        assert iron1.call("GET", "/jobs/messages") == {"messages": []}

    def test_push_queues(self, iron1):
        first, second = ({"url": f"http://127.0.0.1:9/{n}"} for n in (1, 2))
        sent = {"push_type": "multicast", "subscribers": [first], "retries": 4, "retries_delay": 33}
        made = iron1.call("POST", "/pushed", sent)
        assert made.items() >= {"push_type": "multicast", "retries": 4, "retries_delay": 33}.items()
        for method, changed, urls in (
            ("POST", second, {first["url"], second["url"]}),
            ("DELETE", first, {second["url"]}),
        ):
            answer = iron1.send(method, "/pushed/subscribers", {"subscribers": [changed]})
            assert answer.status == 200
            assert {subscriber["url"] for subscriber in answer.json()["subscribers"]} == urls
        [identifier] = iron1.call("POST", "/pushed/messages", {"messages": [{"body": "a"}]})["ids"]
        [status] = iron1.call("GET", f"/pushed/messages/{identifier}/subscribers")["subscribers"]
        assert status["url"] == second["url"] and status["id"]

    def test_alerts(self, iron1):
        iron1.call("POST", "/jobs", {})
        other = ALERT | {"trigger": 200}
        added = iron1.send("POST", "/jobs/alerts", {"alerts": [ALERT]})
        assert (added.status, added.json()) == (200, {"msg": "Alerts were added."})
        replaced = iron1.send("PUT", "/jobs/alerts", {"alerts": [other]})
        assert (replaced.status, replaced.json()) == (200, {"msg": "Alerts were replaced."})
        [alert] = iron1.call("GET", "/jobs")["alerts"]
        assert alert == other | {"id": alert["id"]}
        deleted = iron1.send("DELETE", "/jobs/alerts", {"alerts": [{"id": alert["id"]}]})
        assert (deleted.status, deleted.json()) == (200, {"msg": "Alerts were deleted."})
        iron1.call("POST", "/jobs/alerts", {"alerts": [ALERT]})
        [alert] = iron1.call("GET", "/jobs")["alerts"]
        deleted = iron1.send("DELETE", f"/jobs/alerts/{alert['id']}")
        assert (deleted.status, deleted.json()) == (200, {"msg": "Alerts were deleted."})
        iron1.call("POST", "/jobs/alerts", {"alerts": [ALERT]})
        assert iron1.send("PUT", "/jobs/alerts", {"alerts": []}).status == 200
        assert iron1.call("GET", "/jobs").get("alerts", []) == []


class TestQueueRefusals:
    @pytest.mark.parametrize(
        "settings",
        [
            {"message_timeout": -1},
            {"message_timeout": 86_401},
            {"message_timeout": "soon"},
            {"message_expiration": -1},
            {"message_expiration": 2_592_001},
            {"message_expiration": []},
            {"type": "other"},
            {"type": "pull", "push": PUSH},
            {"push": {}},
            {"push": {"subscribers": []}},
            {"push": PUSH | {"retries": 101}},
            {"push": PUSH | {"retries": -1}},
            {"push": PUSH | {"retries_delay": 2}},
            {"push": PUSH | {"retries_delay": 86_401}},
            {"push": PUSH, "dead_letter": {"queue_name": "letters"}},
            {"dead_letter": {"max_reservations": 3}},
            {"alerts": [ALERT | {"trigger": n} for n in range(1, 7)]},
            {"alerts": [ALERT | {"type": "other"}]},
            {"alerts": [ALERT | {"direction": "up"}]},
            {"alerts": [ALERT | {"trigger": -1}]},
            {"alerts": [ALERT | {"snooze": -1}]},
            {"alerts": [{k: v for k, v in ALERT.items() if k != "queue"}]},
        ],
    )
    def test_what_a_queue_cannot_be(self, iron, refused, settings):
        with refused(400):
            Queue(iron, "jobs").create(**settings)

        assert iron.call("GET") == {"queues": []}

    def test_a_queue_s_type_is_fixed(self, iron, jobs, refused):
        with refused(403):
            jobs.update(type="multicast")
        with refused(403):
            iron.call("PUT", "/jobs", {"queue": {"type": "unicast", "push": PUSH}})
        assert jobs.update(type="pull")["type"] == "pull"
        assert jobs.info()["type"] == "pull"

    def test_pull_queues_have_no_subscribers(self, iron, jobs, refused):
        with refused(400):
            jobs.update(push=PUSH)
        for method in ("POST", "PUT"):
            with refused(400):
                iron.call(method, "/jobs/subscribers", {"subscribers": SUBSCRIBERS})

    def test_push_queues_have_no_alerts(self, iron, refused):
        pushed = Queue(iron, "pushed")
        pushed.create(push=PUSH)

        with refused(400, "Push queues do not support alerts."):
            pushed.update(alerts=[ALERT])

    def test_alerts_differ(self, jobs, refused):
        jobs.update(alerts=[ALERT])

        with refused(400, "At least one new alert duplicates current queue alerts."):
            jobs.update(alerts=[ALERT])

    def test_a_queue_with_push_is_multicast_unless_it_says_otherwise(self, iron):
        assert Queue(iron, "pushed").create(push=PUSH)["type"] == "multicast"

    def test_an_error_queue_is_switched_off_by_an_empty_name_alone(self, iron):
        pushed = Queue(iron, "pushed")
        pushed.create(push=PUSH)
        assert pushed.update(push={"retries": 7})["push"] == PUSH | {"retries": 7}
        assert not pushed.update(push={"error_queue": ""})["push"].get("error_queue")

    def test_update_makes_a_missing_queue(self, iron):
        assert Queue(iron, "fresh").update(message_timeout=90)["message_timeout"] == 90

    def test_create_merges_into_an_existing_queue(self, iron):
        fresh = Queue(iron, "fresh")
        fresh.create(message_timeout=90)
        fresh.post("a")
        assert fresh.create(message_expiration=7200)["message_timeout"] == 90
        assert fresh.info().items() >= {"message_timeout": 90, "message_expiration": 7200, "size": 1}.items()

    @pytest.mark.parametrize(
        "method, path",
        [
            ("POST", ""),
            ("DELETE", ""),
            ("PUT", ""),
            ("POST", "/jobs"),
            ("GET", "/jobs/reservations"),
            ("PUT", "/jobs/messages"),
            ("PATCH", "/jobs/messages"),
            ("GET", "/jobs/webhook"),
            ("GET", "/jobs/messages/1000000000000000000/touch"),
            ("PUT", "/jobs/messages/1000000000000000000"),
        ],
    )
    def test_a_wrong_method(self, iron, jobs, method, path):
        assert iron.send(method, path).status == 405

    @pytest.mark.parametrize(
        "path", ["/jobs/other", "/a/b/c", "/jobs/messages/1000000000000000000/other", "/a/jobs/messages"]
    )
    def test_an_unknown_path(self, iron, jobs, path):
        for method in ("GET", "POST", "DELETE"):
            assert iron.send(method, path).status == 404

    @pytest.mark.parametrize(
        "path", ["/3", "/3/", "/3/projects", "/1/projects/x", "/3/projects/x/other", "/2/projects/x/queues"]
    )
    def test_a_path_outside_of_a_project(self, server, path):
        assert server.get(path)[0] in (400, 404)
