"""Scripts in the form of clients that do not run here: .NET (of 2012, and IronSharp), Ruby, PHP and Java.
Each sends what its client sends, and holds an answer to what that client checks.
"""

import contextlib
import http.client
import json

import pytest

from support.ironmq import Iron, Queue, bodies


class Client:
    """Sends requests with a client's own headers over one connection; the answers' statuses and bodies."""

    def __init__(self, iron: Iron, headers: dict):
        self.connection = http.client.HTTPConnection(iron.address, timeout=20)
        self.root = iron.root
        self.headers = {"Authorization": "OAuth token"} | headers
        self.sockets = set()

    def __call__(self, method, path, body=None, **headers) -> tuple[int, str]:
        if body is not None and not isinstance(body, str):
            body = json.dumps(body, separators=(",", ":"))
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, self.root + path, body, self.headers | headers)
        self.sockets.add(self.connection.sock)
        answer = self.connection.getresponse()
        assert answer.getheader("Content-Type") == "application/json"
        return answer.status, answer.read().decode()

    def close(self):
        self.connection.close()


@pytest.fixture
def client(iron):
    with contextlib.ExitStack() as clients:

        def make(iron=iron, **headers):
            client = Client(iron, {name.replace("_", "-"): value for name, value in headers.items()})
            clients.callback(client.close)
            return client

        yield make


class TestDotNetOf2012:
    """Version 1. Whatever is not 200 is an exception; keys begin with capitals, every value is sent, and a body waits
    for leave to come."""

    @pytest.fixture
    def dotnet(self, client, iron1):
        send = client(iron1, Content_Type="application/json", User_Agent="IronMQ .Net Client", Expect="100-continue")

        def call(method, path, body=None):
            status, text = send(method, path, body)
            assert status == 200, (method, path, status, text)
            return json.loads(text)

        yield call
        assert len(send.sockets) == 1, "a connection was not kept"

    def post(self, dotnet, *texts):
        messages = [{"Id": None, "Body": text, "Timeout": 0, "Delay": 0, "Expires_In": 0} for text in texts]
        return dotnet("POST", "/jobs/messages", {"messages": messages})

    def test_a_queue_s_life(self, dotnet):
        assert self.post(dotnet, "a", "", "c")["msg"] == "Messages put on queue."
        assert [queue["name"] for queue in dotnet("GET", "?page=0")] == ["jobs"]
        assert dotnet("GET", "/jobs")["size"] == 3

        [message] = dotnet("GET", "/jobs/messages")["messages"]
        assert (message["body"], message["timeout"]) == ("a", 60)
        assert dotnet("DELETE", f"/jobs/messages/{message['id']}") == {"msg": "Deleted"}
        messages = dotnet("GET", "/jobs/messages?n=30")["messages"]
        assert bodies(messages) == ["", "c"]
        for message in messages:
            dotnet("DELETE", f"/jobs/messages/{message['id']}")
        assert dotnet("GET", "/jobs/messages?n=30") == {"messages": []}

        self.post(dotnet, "d")
        assert dotnet("POST", "/jobs/clear", "{}") == {"msg": "Cleared"}
        assert dotnet("GET", "/jobs")["size"] == 0

    def test_a_message_s_own_timeout_and_expiry(self, dotnet, server):
        messages = [{"Body": "a", "Timeout": 30, "Delay": 5, "Expires_In": 100}]
        dotnet("POST", "/jobs/messages", {"messages": messages})

        assert dotnet("GET", "/jobs/messages") == {"messages": []}
        server.advance(6)
        assert bodies(dotnet("GET", "/jobs/messages")["messages"]) == ["a"]
        server.advance(20)
        assert dotnet("GET", "/jobs/messages") == {"messages": []}
        server.advance(10.5)
        assert bodies(dotnet("GET", "/jobs/messages")["messages"]) == ["a"]
        server.advance(70)
        assert dotnet("GET", "/jobs/messages") == {"messages": []}


class TestIronSharp:
    """Version 3. Compares texts to the letter, and takes those alone for successes."""

    @pytest.fixture
    def sharp(self, client):
        headers = {"Accept": "application/json", "Content_Type": "application/json; charset=utf-8"}
        return client(**headers)

    def test_texts(self, sharp):
        status, text = sharp("POST", "/jobs/messages", {"messages": [{"body": b} for b in "abcd"]})
        assert status in (200, 201)
        ids = json.loads(text)["ids"]
        assert json.loads(text)["msg"] == "Messages put on queue."

        def reserve():
            asked = {"n": 1, "timeout": 0, "wait": 0, "delete": False}
            return json.loads(sharp("POST", "/jobs/reservations", asked)[1])["messages"][0]

        message = reserve()
        asked = {"reservation_id": message["reservation_id"], "subscriber_name": None}
        assert sharp("DELETE", f"/jobs/messages/{message['id']}", asked) == (200, '{"msg":"Deleted"}')
        message = reserve()
        asked = {"reservation_id": message["reservation_id"]}
        status, text = sharp("POST", f"/jobs/messages/{message['id']}/touch", asked)
        assert (status, json.loads(text)["msg"]) == (200, "Touched")
        asked = {"reservation_id": json.loads(text)["reservation_id"], "delay": 0}
        assert sharp("POST", f"/jobs/messages/{message['id']}/release", asked) == (200, '{"msg":"Released"}')
        asked = {"ids": [{"id": ids[2], "reservation_id": None}]}
        assert sharp("DELETE", "/jobs/messages", asked) == (200, '{"msg":"Deleted"}')
        assert sharp("DELETE", "/jobs/messages", "{}") == (200, '{"msg":"Cleared"}')
        assert sharp("DELETE", "/jobs") == (200, '{"msg":"Deleted."}')

    def test_update_of_a_queue_that_is_not_there(self, sharp):
        status, text = sharp("PATCH", "/fresh", {"queue": {"message_timeout": 90}})

        assert (status, json.loads(text)["queue"]["message_timeout"]) == (200, 90)


class TestRuby:
    """Version 3."""

    @pytest.fixture
    def ruby(self, client):
        return client(Content_Type="application/json", Accept="application/json", User_Agent="iron_mq_ruby-6.0.5")

    def test_a_queue_made_of_an_empty_body(self, ruby):
        assert ruby("PUT", "/jobs", "{}")[0] == 200
        assert ruby("PUT", "/others", "")[0] == 200

    def test_a_list_with_a_page(self, ruby, iron):
        Queue(iron, "jobs").create()

        assert ruby("GET", "?page=1&per_page=30") == (200, '{"queues":[{"name":"jobs"}]}')

    def test_a_post_with_fields_of_old(self, ruby, server, jobs):
        sent = {"messages": [{"body": "a", "timeout": 30, "expires_in": 60}]}
        assert ruby("POST", "/jobs/messages", sent)[0] == 201

        server.advance(61)
        assert bodies(jobs.reserve()) == ["a"]

    def test_bare_ids(self, ruby, jobs):
        ids = jobs.post("a", "b", "c")

        assert ruby("DELETE", "/jobs/messages", {"ids": ids[:2]}) == (200, '{"msg":"Deleted"}')

        assert bodies(jobs.peek()) == ["c"]

    def test_a_touch_whose_answer_is_not_read(self, ruby, jobs):
        """Its message keeps the old reservation, which deletes nothing any more."""
        jobs.post("a")
        [message] = jobs.reserve()
        asked = {"reservation_id": message["reservation_id"]}
        path = f"/jobs/messages/{message['id']}"

        assert ruby("POST", f"{path}/touch", asked)[0] == 200
        assert ruby("DELETE", path, asked) == (403, '{"msg":"Reservation timed out"}')

        assert jobs.size() == 1

    def test_a_webhook_with_its_token_in_the_query(self, ruby, jobs):
        ruby.headers = {}

        assert ruby("POST", "/jobs/webhook?oauth=token", "raw body")[0] in (200, 201)

        assert bodies(jobs.peek()) == ["raw body"]


class TestPhp:
    """Version 3: a JSON body on each DELETE, and 200, 201 and 202 for successes."""

    @pytest.fixture
    def php(self, client):
        return client(
            Accept="application/json",
            Accept_Encoding="gzip, deflate",
            Content_Type="application/json",
            Connection="Keep-Alive",
            Keep_Alive="300",
        )

    def test_a_queue_s_life(self, php, jobs):
        ids = jobs.post(*"abcd")
        asked = {"n": 2, "timeout": 60, "wait": 0, "delete": False}
        status, text = php("POST", "/jobs/reservations", asked)
        first, second = json.loads(text)["messages"]

        asked = {"reservation_id": first["reservation_id"], "subscriber_name": None}
        assert php("DELETE", f"/jobs/messages/{first['id']}", asked) == (200, '{"msg":"Deleted"}')
        assert php("DELETE", f"/jobs/messages/{ids[2]}", "[]")[0] in (200, 400)
        assert php("DELETE", "/jobs/messages", {"ids": [ids[3]]}) == (200, '{"msg":"Deleted"}')
        assert php("DELETE", "/jobs/messages", {"ids": [second["id"]]}) == (
            400,
            '{"msg":"A reservation_id is required"}',
        )
        assert php("DELETE", "/jobs/messages", "{}") == (200, '{"msg":"Cleared"}')
        assert php("DELETE", "/jobs", "{}") == (200, '{"msg":"Deleted."}')
        assert php("GET", "/jobs") == (404, '{"msg":"Queue not found"}')


class TestJava:
    """Version 3, as the client and its Apache of old send it."""

    @pytest.fixture
    def java(self, client):
        return client(
            Content_Type="application/json",
            Accept="text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
            Encoding="UTF-8",
            User_Agent="IronMQ Java Client",
            Connection="keep-alive",
        )

    def test_verbs_in_a_header(self, java, jobs):
        ids = jobs.post("a", "b", "c")
        [message] = jobs.reserve()

        def tunnelled(verb, path, body):
            return java("POST", path, body, X_HTTP_Method_Override=verb)

        asked = {"reservation_id": message["reservation_id"]}
        assert tunnelled("DELETE", f"/jobs/messages/{message['id']}", asked) == (200, '{"msg":"Deleted"}')
        assert tunnelled("DELETE", "/jobs/messages", {"ids": [{"id": ids[1]}]}) == (200, '{"msg":"Deleted"}')
        assert bodies(jobs.peek()) == ["c"]
        assert tunnelled("DELETE", "/jobs/messages", "{}") == (200, '{"msg":"Cleared"}')
        assert tunnelled("PATCH", "/jobs", {"queue": {"message_timeout": 90}})[0] == 200
        assert jobs.info()["message_timeout"] == 90
        assert tunnelled("DELETE", "/jobs", "{}") == (200, '{"msg":"Deleted."}')
        assert java("GET", "?") == (200, '{"queues":[]}')

    def test_an_error_keeps_its_text(self, java, jobs):
        assert java("POST", "/missing/reservations", "{}") == (404, '{"msg":"Queue not found"}')
        assert len(java.sockets) == 1
