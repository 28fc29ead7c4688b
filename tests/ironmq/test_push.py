"""Push queues: subscribers, retries, acknowledgement, error queues, both APIs; and alerts."""

import http.server
import json
import queue as queues
import socket
import threading
import time
from urllib.parse import quote

import pytest

from support.sdk import sdk_client
from support.waiting import eventually

PROJECT = "000000000000"
CLOCK_S = 61  # Past the default pause between two rounds.


class Receiver:
    """An HTTP server that keeps what it is sent. `answers` says how it answers next, then 200:
    a status, or a callable that is given the handler."""

    def __init__(self):
        received, answers = self.received, self.answers = queues.Queue(), queues.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                received.put((self.path, dict(self.headers), body))
                answer = answers.get_nowait() if not answers.empty() else 200
                if callable(answer):
                    return answer(self)
                self.send_response(answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        return self.received.get(timeout=30)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class IronMq:
    """A project, by raw HTTP."""

    def __init__(self, server, version=3):
        self.server, self.version = server, version

    def call(self, method, path, body=None, status=200):
        url = f"/{self.version}/projects/{PROJECT}/queues/{path}"
        data = None if body is None else json.dumps(body)
        headers = {"Authorization": "OAuth t", "Content-Type": "application/json"}
        got, answer = self.server.http(method, url, data, headers)
        assert got == status, (method, path, got, answer)
        return json.loads(answer)

    def push(self, name, *subscribers, **push):
        kind = push.pop("type", "multicast")
        named = [{"name": f"s{n}", "url": url} if isinstance(url, str) else url for n, url in enumerate(subscribers)]
        body = {"queue": {"type": kind, "push": {"subscribers": named, **push}}}
        return self.call("PUT", name, body)["queue"]

    def post(self, name, *bodies, **fields):
        status = 201 if self.version == 3 else 200
        messages = [{"body": body, **fields} for body in bodies]
        return self.call("POST", f"{name}/messages", {"messages": messages}, status)["ids"]

    def size(self, name):
        answer = self.call("GET", name)
        return answer["queue"]["size"] if self.version == 3 else answer["size"]

    def reserve(self, name, wait=20):
        """The next messages of a queue that may not be there yet."""
        path = f"/3/projects/{PROJECT}/queues/{name}"
        eventually(lambda: self.server.get(path)[0] == 200, f"queue {name}")
        return self.call("POST", f"{name}/reservations", {"n": 10, "wait": wait, "delete": True})["messages"]

    def statuses(self, name, message):
        found = self.call("GET", f"{name}/messages/{message}/subscribers")["subscribers"]
        return {status.get("name") or status["url"]: status for status in found}


@pytest.fixture
def receivers():
    made = []

    def make():
        made.append(Receiver())
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture
def receiver(receivers):
    return receivers()


@pytest.fixture
def iron(server):
    return IronMq(server)


def test_each_subscriber_gets_the_body_and_the_headers(iron, receivers, new_name):
    name = new_name("a b/c")
    path = quote(name, safe="")
    first, second = receivers(), receivers()
    iron.push(
        path,
        first.url + "/x?y=1",
        {"name": "other", "url": second.url, "headers": {"Content-Type": "application/json", "X-Own": "1"}},
    )
    headers = {"X-Extra": "ö", "x-own": "2"}
    (id,) = iron.post(path, '{"ö": 1}', push_headers=headers)

    got, sent, body = first.next()
    assert (got, body) == ("/x?y=1", '{"ö": 1}')
    assert sent["User-Agent"] == "IronMQ Pusherd"
    assert sent["Content-Type"] == "text/plain; encoding=utf-8"
    assert (sent["Iron-Message-Id"], sent["Iron-Subscriber-Name"]) == (id, "s0")
    url = f"{iron.server.endpoint}/3/projects/{PROJECT}/queues/{path}/messages/{id}"
    assert sent["Iron-Subscriber-Message-Url"] == url
    assert sent["Iron-Reservation-Id"] and sent["X-Extra"] == "%C3%B6"

    _, sent, body = second.next()
    assert (sent["Iron-Message-Id"], sent["Iron-Subscriber-Name"], body) == (id, "other", '{"ö": 1}')
    assert sent["Content-Type"] == "application/json"
    assert {name.lower(): value for name, value in sent.items()}["x-own"] == "2"

    eventually(lambda: iron.size(path) == 0)
    statuses = eventually(
        lambda: (found := iron.statuses(path, id))
        and all(it["status"] == "deleted" for it in found.values())
        and found
    )
    assert {(it["tries"], it["status_code"], it["retries_remaining"]) for it in statuses.values()} == {(1, 200, 0)}
    assert all(it["last_try_at"].endswith("Z") for it in statuses.values())
    assert iron.call("GET", path)["queue"]["total_messages"] == 1


def test_messages_of_sqs_are_pushed_too(iron, sqs, receiver, new_name):
    name = new_name()
    iron.push(name, receiver.url)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    attribute = {"DataType": "String", "StringValue": "v"}
    attributes = {"IronMQ.PushHeader.X-By": attribute, "IronMQ.PushHeader.User-Agent": attribute, "a": attribute}
    sqs.send_message(QueueUrl=url, MessageBody="by sqs", MessageAttributes=attributes)

    _, headers, body = receiver.next()
    assert (body, headers["X-By"], headers["User-Agent"]) == ("by sqs", "v", "IronMQ Pusherd")
    eventually(lambda: iron.size(name) == 0)


def test_each_subscriber_is_retried_on_its_own_and_then_reported(make_server, receivers):
    server = make_server()
    iron, good, bad = IronMq(server), receivers(), receivers()
    # Refuses, stalls until the time-out, dies in the middle, refuses.
    release = threading.Event()
    bad.answers.put(404)
    bad.answers.put(lambda handler: release.wait(30))
    bad.answers.put(lambda handler: handler.connection.shutdown(socket.SHUT_RDWR))
    iron.push("q", good.url, bad.url, retries=3, retries_delay=60, error_queue="errors")
    bad.answers.put(503)
    (id,) = iron.post("q", "m", push_headers={"X-A": "b"})
    assert good.next()[2] == bad.next()[2] == "m"

    for tries in [1, 2, 3]:
        status = eventually(
            lambda: (it := iron.statuses("q", id)["s1"])["tries"] == tries and it["status"] == "retrying" and it
        )
        assert status["retries_remaining"] == 4 - tries
        assert status["status_code"] == (404 if tries == 1 else 0)
        assert iron.size("q") == 1
        server.advance(CLOCK_S)
        assert bad.next()[1]["Iron-Message-Id"] == id
    release.set()
    eventually(lambda: iron.statuses("q", id)["s1"]["status"] == "error")

    (report,) = iron.reserve("errors")
    report = json.loads(report["body"])
    assert report["subscribers"][0].pop("msg").startswith("status 503")
    assert report == {
        "source_msg_id": id,
        "body": "m",
        "headers": {"X-A": "b"},
        "subscribers": [{"name": "s1", "url": bad.url, "code": 503}],
    }
    assert (iron.statuses("q", id)["s0"]["tries"], good.received.empty()) == (1, True)
    eventually(lambda: iron.size("q") == 0)


def test_unicast_tries_one_after_the_other_and_begins_again_later(make_server, receivers):
    server = make_server()
    iron, subscribers = IronMq(server), [receivers() for _ in range(3)]
    for subscriber in subscribers:
        subscriber.answers.put(500)
    iron.push("q", *(it.url for it in subscribers), type="unicast", retries=1, error_queue="errors")
    (id,) = iron.post("q", "m")
    # Each once, at once.
    assert [it.next()[1]["Iron-Message-Id"] for it in subscribers] == [id] * 3
    eventually(lambda: all(it["status"] == "retrying" for it in iron.statuses("q", id).values()))
    assert all(it.received.empty() for it in subscribers)

    server.advance(CLOCK_S)
    eventually(lambda: iron.size("q") == 0)
    assert sum(it.received.qsize() for it in subscribers) == 1
    # Others begin with others, so that all have their share.
    iron.post("q", *"abcdefghi")
    eventually(lambda: iron.size("q") == 0)
    assert all(it.received.qsize() >= 2 for it in subscribers)

    for subscriber in subscribers:
        for _ in range(2):
            subscriber.answers.put(400)
    (id,) = iron.post("q", "lost")
    eventually(lambda: all(it["status"] == "retrying" for it in iron.statuses("q", id).values()))
    server.advance(CLOCK_S)
    report = json.loads(iron.reserve("errors")[0]["body"])
    assert (report["source_msg_id"], [it["code"] for it in report["subscribers"]]) == (id, [400] * 3)
    eventually(lambda: iron.size("q") == 0)


@pytest.mark.parametrize("kind", ["multicast", "unicast"])
def test_202_holds_a_message_until_it_is_acknowledged(make_server, receiver, kind):
    server = make_server()
    iron = IronMq(server)
    iron.push("q", receiver.url, type=kind, retries=2, error_queue="errors")
    for _ in range(4):
        receiver.answers.put(202)
    (id,) = iron.post("q", "m")
    old = receiver.next()[1]
    eventually(lambda: iron.statuses("q", id)["s0"]["status_code"] == 202)
    assert (iron.statuses("q", id)["s0"]["status"], iron.size("q")) == ("reserved", 1)
    iron.call("DELETE", f"q/messages/{id}", {"subscriber_name": "s0"}, status=400)

    server.advance(CLOCK_S)
    new = receiver.next()[1]
    assert new["Iron-Message-Id"] == id and new["Iron-Reservation-Id"] != old["Iron-Reservation-Id"]
    eventually(lambda: iron.statuses("q", id)["s0"]["tries"] == 2)
    holding = lambda headers: {  # noqa: E731
        "reservation_id": headers["Iron-Reservation-Id"],
        "subscriber_name": headers["Iron-Subscriber-Name"],
    }
    path = new["Iron-Subscriber-Message-Url"].split("/queues/")[1]
    iron.call("DELETE", path, holding(old), status=403)
    assert iron.call("DELETE", path, holding(new)) == {"msg": "Deleted"}
    assert (iron.size("q"), iron.statuses("q", id)["s0"]["status"]) == (0, "deleted")

    # Never acknowledged: the last attempt is given its time, and then it has failed.
    (id,) = iron.post("q", "n")
    for tries in [1, 2, 3]:
        receiver.answers.put(202)
        assert receiver.next()[1]["Iron-Message-Id"] == id
        eventually(lambda: iron.statuses("q", id)["s0"]["tries"] == tries)
        server.advance(CLOCK_S)
    assert json.loads(iron.reserve("errors")[0]["body"])["source_msg_id"] == id
    assert receiver.received.empty()


def test_version_1_knows_subscribers_by_url_and_acknowledges_by_link(server, receiver, new_name):
    iron, name = IronMq(server, version=1), new_name()
    iron.call("POST", name, {"push_type": "multicast", "subscribers": [{"url": receiver.url}]})
    receiver.answers.put(202)
    (id,) = iron.post(name, "m")
    headers = receiver.next()[1]
    eventually(lambda: iron.statuses(name, id)[receiver.url]["status_code"] == 202)
    status = iron.statuses(name, id)[receiver.url]

    assert (status["status"], status["id"]) == ("reserved", headers["Iron-Subscriber-Message-Id"])
    assert {"url", "retries_delay", "retries_remaining"} <= status.keys()
    link = headers["Iron-Subscriber-Message-Url"]
    assert link == f"{server.endpoint}/1/projects/{PROJECT}/queues/{name}/messages/{id}/subscribers/{status['id']}"
    assert iron.call("DELETE", link.split("/queues/")[1]) == {"msg": "Deleted"}
    assert iron.statuses(name, id)[receiver.url]["status"] == "deleted"
    iron.call("DELETE", link.split("/queues/")[1], status=404)

    other = {"url": receiver.url + "/other", "headers": {"X-A": "1"}}
    added = iron.call("POST", f"{name}/subscribers", {"subscribers": [other]})
    assert [it["url"] for it in added["subscribers"]] == [receiver.url, other["url"]]
    left = iron.call("DELETE", f"{name}/subscribers", {"subscribers": [{"url": receiver.url}]})
    assert [it["url"] for it in left["subscribers"]] == [other["url"]]
    iron.post(name, "n")
    path, headers, _ = receiver.next()
    assert (path, headers["X-A"]) == ("/other", "1")


def test_subscribers_change_while_messages_wait(make_server, receivers):
    server = make_server()
    iron, old, new = IronMq(server), receivers(), receivers()
    iron.push("q", old.url)
    old.answers.put(500)
    (id,) = iron.post("q", "m")
    old.next()
    eventually(lambda: iron.statuses("q", id)["s0"]["status"] == "retrying")

    # The same name, another place: what waits goes there.
    moved = {"subscribers": [{"name": "s0", "url": new.url}, {"name": "s1", "url": new.url + "/1"}]}
    assert iron.call("POST", "q/subscribers", moved) == {"msg": "Updated"}
    server.advance(CLOCK_S)
    path, headers, body = new.next()
    assert (path, headers["Iron-Message-Id"], body) == ("/", id, "m")
    iron.post("q", "n")
    assert {(path, body) for path, _, body in (new.next(), new.next())} == {("/", "n"), ("/1", "n")}

    assert iron.call("DELETE", "q/subscribers", {"subscribers": [{"name": "s0"}]}) == {"msg": "Updated"}
    third = receivers()
    replaced = {"subscribers": [{"name": "s3", "url": third.url}]}
    assert iron.call("PUT", "q/subscribers", replaced) == {"msg": "Updated"}
    iron.post("q", "o")
    assert third.next()[2] == "o"
    assert old.received.empty()
    # Nobody is left: messages wait for the next subscriber.
    iron.call("DELETE", "q/subscribers", {"subscribers": [{"name": "s3"}]})
    iron.post("q", "p")
    assert iron.size("q") == 1
    iron.call("POST", "q/subscribers", replaced)
    assert third.next()[2] == "p"


def test_a_queue_may_subscribe_and_endless_circles_end(iron, sqs, receiver, new_name):
    name, target = new_name(), new_name("t p")
    iron.push(name, f"ironmq:///{quote(target)}", receiver.url)
    iron.post(name, "m", push_headers={"X-A": "b"})
    assert receiver.next()[2] == "m"
    assert [it["body"] for it in iron.reserve(quote(target))] == ["m"]

    here, there = new_name(), new_name()
    errors = new_name()
    iron.push(here, f"ironmq:///{there}", type="unicast", retries=1, retries_delay=3, error_queue=errors)
    iron.push(there, f"ironmq:///{here}", retries=1, retries_delay=3, error_queue=errors)
    iron.post(here, "round")
    (report,) = iron.reserve(errors, wait=30)
    assert "went through" in json.loads(report["body"])["subscribers"][0]["msg"]
    eventually(lambda: iron.size(here) == iron.size(there) == 0)


def test_what_cannot_be_served_is_refused(iron, server, sqs, new_name):
    name = new_name()
    iron.call("PUT", name, {})
    subscriber = {"subscribers": [{"name": "a", "url": "http://127.0.0.1:1"}]}
    for method in ["POST", "PUT", "DELETE"]:
        iron.call(method, f"{name}/subscribers", subscriber, status=400)
    urls = ["ironmq://p:t@h/q", "ironmq:///a/b", "ironworker://p:t@h/c", "ftp://h", "x", "", "http://u:p@h/"]
    for url in urls:
        push = {"subscribers": [{"name": "a", "url": url}]}
        refused = iron.call("PUT", new_name(), {"queue": {"push": push}}, status=400)
        assert "url" in refused["msg"].lower(), refused
    own = new_name()
    for wrong in [
        {"subscribers": [{"name": "a", "url": f"ironmq:///{own}"}]},
        {"subscribers": [{"name": "a", "url": "http://h"}], "error_queue": own},
        {"subscribers": [{"name": "a", "url": "http://h", "headers": {"Iron-Message-Id": "1"}}]},
        {"subscribers": [{"name": "a", "url": "http://h", "headers": {"a b": "1"}}]},
        {"subscribers": [{"name": "a", "url": "http://h" + "x" * 2000}] * 2},
        {"subscribers": [{"name": f"{n}", "url": "http://h/" + "x" * 2000} for n in range(40)]},
    ]:
        iron.call("PUT", own, {"queue": {"push": wrong}}, status=400)

    iron.push(own, "http://127.0.0.1:1")
    assert "subscribers" in iron.call("POST", f"{own}/reservations", {}, status=400)["msg"]
    v1 = IronMq(server, version=1)
    v1.call("GET", f"{own}/messages", status=400)
    iron.call("GET", f"{own}/messages/1/subscribers", status=404)
    iron.call("GET", f"{name}/messages/1/subscribers", status=400)
    assert iron.call("POST", f"{own}/alerts", alerts({"trigger": 1}), status=400) == {
        "msg": "Push queues do not support alerts."
    }


def test_what_the_network_policy_refuses_is_never_called(make_server, receiver):
    server = make_server(config='[push]\nprivate_networks = "refuse"\n')
    iron = IronMq(server)
    iron.push("q", receiver.url, "ironmq:///here", retries=1, error_queue="errors")
    (id,) = iron.post("q", "m")
    assert [it["body"] for it in iron.reserve("here")] == ["m"]
    eventually(lambda: iron.statuses("q", id)["s0"]["status"] == "retrying")
    server.advance(CLOCK_S)

    report = json.loads(iron.reserve("errors")[0]["body"])
    assert (report["subscribers"][0]["url"], report["subscribers"][0]["code"]) == (receiver.url, 0)
    statuses = iron.statuses("q", id)
    assert (statuses["s0"]["status"], statuses["s1"]["status"], statuses["s1"]["status_code"]) == ("error", "deleted", 200)
    assert receiver.received.empty()


def test_delay_peek_get_take_back_and_clear(make_server, receivers):
    server = make_server()
    iron, receiver, other = IronMq(server), receivers(), receivers()
    iron.push("q", receiver.url, other.url)
    (id,) = iron.post("q", "late", delay=100)
    assert (iron.size("q"), iron.statuses("q", id)["s0"]["status"]) == (1, "queued")
    server.advance(101)
    assert receiver.next()[2] == other.next()[2] == "late"
    eventually(lambda: iron.size("q") == 0)

    receiver.answers.put(500)
    other.answers.put(500)
    (id,) = iron.post("q", "m")
    receiver.next(), other.next()
    eventually(lambda: {it["status"] for it in iron.statuses("q", id).values()} == {"retrying"})
    assert (iron.size("q"), iron.call("GET", f"q/messages/{id}")["message"]["body"]) == (1, "m")
    assert iron.call("DELETE", "q/messages", {}) == {"msg": "Cleared"}
    assert iron.size("q") == 0
    iron.call("GET", f"q/messages/{id}", status=404)

    (id,) = iron.post("q", "taken back", delay=100)
    assert [it["id"] for it in iron.call("GET", "q/messages?n=5")["messages"]] == []
    iron.call("DELETE", f"q/messages/{id}")
    server.advance(101)
    assert iron.size("q") == 0 and receiver.received.empty()


@pytest.mark.parametrize("by", ["ironmq", "sqs"])
def test_deleted_queues_post_no_more(make_server, receiver, by):
    server = make_server()
    iron, sqs = IronMq(server), sdk_client(server)
    iron.push("q", receiver.url)
    receiver.answers.put(500)
    (id,) = iron.post("q", "m")
    receiver.next()
    eventually(lambda: iron.statuses("q", id)["s0"]["status"] == "retrying")
    if by == "sqs":
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="q")["QueueUrl"])
    else:
        iron.call("DELETE", "q")

    iron.push("q", receiver.url)
    server.advance(CLOCK_S)
    iron.post("q", "new")
    assert receiver.next()[2] == "new"
    eventually(lambda: iron.size("q") == 0)
    assert receiver.received.empty()


def test_retries_and_their_state_survive_kill(make_server, receiver):
    server = make_server()
    iron = IronMq(server)
    iron.push("q", receiver.url, "http://127.0.0.1:1", retries_delay=3600)
    receiver.answers.put(500)
    (id,) = iron.post("q", "m")
    receiver.next()
    eventually(lambda: {it["status"] for it in iron.statuses("q", id).values()} == {"retrying"})
    server.restart("kill")

    status = iron.statuses("q", id)["s0"]
    assert (status["tries"], status["retries_remaining"], iron.size("q")) == (1, 3, 1)
    assert receiver.received.empty()
    server.advance(3601)
    assert receiver.next()[1]["Iron-Message-Id"] == id


def test_nothing_is_lost_when_the_server_is_killed(make_server, receivers):
    server = make_server(durability="fsync")
    iron, sqs, first, second = IronMq(server), sdk_client(server), receivers(), receivers()
    iron.push("q", first.url, second.url, retries_delay=3)
    url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    accepted, stop = [set(), set()], threading.Event()

    def post(number):
        count = 0
        while not stop.is_set():
            body = f"{number}-{count}"
            try:
                if number == 0:
                    iron.post("q", body)
                else:
                    sqs.send_message(QueueUrl=url, MessageBody=body)
            except Exception:
                if stop.is_set():
                    return
                continue
            accepted[number].add(body)
            count += 1

    threads = [threading.Thread(target=post, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    got = [set(), set()]

    def take(receiver, into):
        while not receiver.received.empty():
            into.add(receiver.received.get()[2])

    for _ in range(2):
        before = sum(map(len, accepted))
        eventually(lambda: sum(map(len, accepted)) > before + 100)
        server.kill()
        server.start()
    stop.set()
    for thread in threads:
        thread.join()
    wanted = accepted[0] | accepted[1]
    assert all(accepted)

    def is_all():
        # What was under way at the kill is held for less than that.
        server.advance(CLOCK_S)
        for receiver, into in zip([first, second], got):
            take(receiver, into)
        return all(wanted <= into for into in got)

    eventually(is_all)
    eventually(lambda: iron.size("q") == 0)


def alerts(*given):
    return {"alerts": [{"queue": "alerts", **alert} for alert in given]}


class TestAlerts:
    def test_fixed_and_progressive_alerts_by_either_api(self, make_server):
        server = make_server()
        iron, v1, sqs = IronMq(server), IronMq(server, version=1), sdk_client(server)
        iron.call("PUT", "q", {})
        fixed = {"type": "fixed", "trigger": 2}
        progressive = {"type": "progressive", "trigger": 3, "direction": "asc", "snooze": 600}
        falling = {"type": "fixed", "trigger": 1, "direction": "desc"}
        added = v1.call("POST", "q/alerts", alerts(fixed, progressive))
        assert added == {"msg": "Alerts were added."}
        twice = v1.call("POST", "q/alerts", alerts(fixed), status=400)
        assert twice == {"msg": "At least one new alert duplicates current queue alerts."}
        v1.call("POST", "q/alerts", alerts(falling))

        url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
        before = server.now()
        sqs.send_message(QueueUrl=url, MessageBody="1")
        iron.post("q", "2")
        (message,) = iron.reserve("alerts")
        alert = json.loads(message["body"])
        ids = [it["id"] for it in iron.call("GET", "q")["queue"]["alerts"]]
        assert alert.pop("created_at") >= time.strftime("%Y-%m-%dT%H:%M", time.gmtime(before))
        assert alert == {
            "source_queue": "q",
            "queue_size": 2,
            "alert_id": ids[0],
            "alert_type": "fixed",
            "alert_direction": "asc",
            "alert_trigger": 2,
        }
        iron.post("q", "3")
        (message,) = iron.reserve("alerts")
        assert json.loads(message["body"])["alert_type"] == "progressive"

        # The next multiple comes within the snooze; the one after it does not.
        iron.post("q", *"456")
        iron.call("DELETE", "q/messages", {})
        (message,) = iron.reserve("alerts")
        assert json.loads(message["body"])["alert_direction"] == "desc"
        server.advance(601)
        v1.call("PUT", "q/alerts", alerts(progressive))
        iron.post("q", *"123")
        (message,) = iron.reserve("alerts")
        assert json.loads(message["body"])["alert_type"] == "progressive"

    def test_alerts_are_replaced_and_deleted(self, iron, server, new_name):
        name, v1 = new_name(), IronMq(server, version=1)
        iron.call("PUT", name, {"queue": alerts({"trigger": 1}, {"trigger": 2}, {"trigger": 3})})
        ids = lambda: [it["id"] for it in iron.call("GET", name)["queue"].get("alerts", [])]  # noqa: E731

        first, second, third = ids()
        assert v1.call("DELETE", f"{name}/alerts/{first}") == {"msg": "Alerts were deleted."}
        v1.call("DELETE", f"{name}/alerts/{first}", status=404)
        deleted = iron.call("DELETE", f"{name}/alerts", {"queue": {"alerts": [{"id": second}]}})
        assert (deleted, ids()) == ({"msg": "Alerts were deleted."}, [third])
        assert v1.call("PUT", f"{name}/alerts", alerts({"trigger": 9})) == {"msg": "Alerts were replaced."}
        (kept,) = ids()
        assert kept != third
        v1.call("DELETE", f"{name}/alerts", {"alerts": [{"id": kept}]})
        assert ids() == []
        v1.call("POST", f"{name}/alerts", alerts(*({"trigger": n} for n in range(1, 7))), status=400)
        v1.call("POST", f"{name}/alerts", alerts({"trigger": 0}), status=400)
        v1.call("POST", f"{name}/alerts", {}, status=406)
        v1.call("PUT", f"{name}/alerts", {"alerts": []})
