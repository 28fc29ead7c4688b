"""What is taken as it comes, and what is refused: real clients send a good deal that no document allows."""

import json
import socket
import urllib.parse

import pytest

from support.ironmq import Iron, Queue, bodies, new_project

MISSING = "1000000000000000000"  # Of no queue.


class TestLenient:
    @pytest.mark.parametrize("body", [None, "", " ", "\n", "{}", '{"unknown":1}'])
    def test_a_get_may_have_a_body(self, iron, jobs, body):
        jobs.post("a")

        for path in ("/jobs", "/jobs/messages"):
            assert iron.send("GET", path, body).status == 200

    @pytest.mark.parametrize("body", [None, "", " ", "{}", '{"unknown":1}', '{"queue":{}}', '{"queue":null}'])
    def test_a_queue_is_made_without_settings(self, iron, body):
        for method in ("PUT", "PATCH"):
            assert iron.call(method, "/jobs", body)["queue"]["message_timeout"] == 60

    @pytest.mark.parametrize("body", [None, "", "{}", '{"unknown":[]}'])
    def test_a_queue_is_deleted_with_or_without_a_body(self, iron, jobs, body):
        assert iron.call("DELETE", "/jobs", body) == {"msg": "Deleted."}

    @pytest.mark.parametrize(
        "body", [None, "", "{}", '{"n":null}', '{"timeout":0,"wait":0,"delete":false}', '{"N":1,"x":2}']
    )
    def test_a_reserve_without_a_number_gives_one(self, iron, jobs, body):
        jobs.post("a", "b")

        assert bodies(iron.call("POST", "/jobs/reservations", body)["messages"]) == ["a"]

    @pytest.mark.parametrize("body", [None, "", " ", "{}"])
    def test_a_delete_without_ids_clears(self, iron, jobs, body):
        jobs.post("a")

        assert iron.call("DELETE", "/jobs/messages", body) == {"msg": "Cleared"}

        assert jobs.size() == 0

    @pytest.mark.parametrize("body", ['{"other":1}', '{"reservation_id":"a"}', "null"])
    def test_a_delete_that_says_something_else_clears_nothing(self, iron, jobs, body):
        jobs.post("a")

        assert iron.send("DELETE", "/jobs/messages", body).status == 400

        assert jobs.size() == 1

    @pytest.mark.parametrize("identifier", ["", "/"])
    def test_a_delete_of_a_message_without_an_id_clears_nothing(self, iron, jobs, identifier):
        """As the clients for Python and Node send it if they are given an empty id."""
        jobs.post("a")

        assert iron.send("DELETE", f"/jobs/messages/{identifier}").status == 404

        assert jobs.size() == 1

    @pytest.mark.parametrize(
        "query, names",
        [
            ("?", ["a", "b"]),
            ("?&per_page=1", ["a"]),
            ("?per_page=1&", ["a"]),
            ("?x=1", ["a", "b"]),
            ("?page=1", ["a", "b"]),
            ("?per_page=0", ["a", "b"]),
            ("?per_page=&previous=&prefix=", ["a", "b"]),
        ],
    )
    def test_queries_may_be_empty_or_odd(self, iron, query, names):
        for name in "ab":
            Queue(iron, name).create()

        assert iron.call("GET", query) == {"queues": [{"name": name} for name in names]}

    @pytest.mark.parametrize("query, count", [("?", 1), ("?&n=5", 5), ("?n=5&n2=7", 5), ("?n=", 1)])
    def test_so_may_those_of_a_peek(self, iron, jobs, query, count):
        jobs.post(*"abcdefgh")

        assert len(iron.call("GET", f"/jobs/messages{query}")["messages"]) == count

    def test_a_path_may_end_in_a_slash(self, iron, jobs):
        assert iron.call("GET", "/") == {"queues": [{"name": "jobs"}]}

    def test_keys_are_read_in_any_case(self, iron, server):
        jobs = Queue(iron, "jobs")
        iron.call(
            "PUT",
            "/jobs",
            {"Queue": {"Message_Timeout": 90, "DEAD_LETTER": {"Queue_Name": "x", "MAX_RESERVATIONS": 2}}},
        )
        assert (
            jobs.info().items()
            >= {
                "message_timeout": 90,
                "dead_letter": {"queue_name": "x", "max_reservations": 2},
            }.items()
        )
        [identifier] = iron.call("POST", "/jobs/messages", {"Messages": [{"Body": "a", "Delay": 5}]})["ids"]
        server.advance(6)
        [message] = iron.call("POST", "/jobs/reservations", {"N": 1, "TIMEOUT": 30})["messages"]
        reservation = message["reservation_id"]
        iron.call("DELETE", f"/jobs/messages/{identifier}", {"Reservation_Id": reservation})
        assert jobs.size() == 0

    def test_zero_empty_and_null_are_not_given(self, iron):
        Queue(iron, "jobs").create(message_timeout=90, message_expiration=7200)
        zero = {
            "name": "",
            "size": 0,
            "total_messages": 0,
            "message_expiration": 0,
            "message_timeout": 0,
            "type": "",
            "push": None,
            "alerts": None,
            "dead_letter": None,
        }

        for method in ("PATCH", "PUT"):
            queue = iron.call(method, "/jobs", {"queue": zero})["queue"]
            assert queue.items() >= {"name": "jobs", "message_timeout": 90, "message_expiration": 7200}.items()

    def test_a_message_s_zeros_are_not_given(self, iron, jobs):
        zero = {
            "body": "a",
            "id": "",
            "delay": 0,
            "timeout": 0,
            "expires_in": 0,
            "reserved_count": 0,
            "reserved_until": "0001-01-01T00:00:00Z",
            "push_headers": None,
        }
        iron.call("POST", "/jobs/messages", {"messages": [zero]})

        assert bodies(jobs.reserve()) == ["a"]

    def test_ids_are_texts_or_objects(self, jobs, iron):
        first, second, third = jobs.post("a", "b", "c")

        iron.call("DELETE", "/jobs/messages", {"ids": [first, {"id": second}, {"id": third, "reservation_id": ""}]})

        assert jobs.size() == 0

    def test_ids_in_capitals_delete_what_they_name(self, jobs, iron):
        first, second = jobs.post("a", "b")

        iron.call("DELETE", "/jobs/messages", {"IDS": [{"ID": first}]})

        assert bodies(jobs.peek()) == ["b"]

    @pytest.mark.parametrize(
        "media", ["application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", ""]
    )
    def test_a_request_s_media_type_is_no_matter(self, iron, media):
        sent = {"messages": [{"body": "a"}]}

        assert iron.send("POST", "/jobs/messages", sent, Content_Type=media).status == 201

    def test_text_may_be_escaped_or_not(self, iron, jobs):
        for ascii_only in (True, False):
            sent = json.dumps({"messages": [{"body": "ü✓\U0001f680"}]}, ensure_ascii=ascii_only)
            iron.call("POST", "/jobs/messages", sent)

        assert bodies(jobs.peek()) == ["ü✓\U0001f680"] * 2

    @pytest.mark.parametrize("authorization", ["OAuth token", "oauth token", "OAUTH token", "OAuth  token"])
    def test_the_token_s_scheme_is_read_in_any_case(self, iron, authorization):
        assert iron.send("GET", Authorization=authorization).status == 200

    def test_the_token_may_stand_in_the_query(self, iron, server):
        answer = server.http("POST", f"{iron.root}/jobs/webhook?oauth=token", b"raw")
        assert answer[0] in (200, 201)

        assert bodies(Queue(iron, "jobs").peek()) == ["raw"]
        assert "oauth=token" not in server.log.read_text()

    @pytest.mark.parametrize("name", ["a b", "a%2Fb", "ü", "a.b", "a_b-c", "a:b", "x" * 200, "!*'();@=+$,[]"])
    def test_names_are_any_text(self, iron, name):
        queue = Queue(iron, urllib.parse.unquote(name))
        queue.post("a")

        assert queue.info()["name"] == queue.name
        assert iron.call("GET") == {"queues": [{"name": queue.name}]}
        [message] = queue.reserve()
        queue.delete(message)
        queue.drop()

    def test_a_post_may_have_neither_body_nor_length(self, iron1, jobs):
        [identifier] = jobs.post("a")
        host, _, port = iron1.address.partition(":")
        iron1.call("GET", "/jobs/messages")

        for path in (f"messages/{identifier}/touch", f"messages/{identifier}/release", "clear"):
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                lines = [
                    f"POST {iron1.root}/jobs/{path} HTTP/1.1",
                    f"Host: {iron1.address}",
                    "Connection: close",
                    "",
                    "",
                ]
                connection.sendall("\r\n".join(lines).encode())
                assert connection.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n", path

    def test_a_body_may_come_in_chunks(self, iron):
        """As the Go client of version 1 sends all of its own."""
        chunks = iter([b'{"messages":', b'[{"body":', b'"a"}]}'])
        headers = {"Authorization": "OAuth token", "Content-Type": "application/json"}
        iron.connection.request("POST", f"{iron.root}/jobs/messages", chunks, headers, encode_chunked=True)
        assert iron.connection.getresponse().status == 201


class TestOverride:
    """Java's client sends DELETE, PATCH and PUT as POST."""

    def test_of_post(self, iron, jobs):
        jobs.post("a", "b", "c")
        assert (
            iron.call("POST", "/jobs", {"queue": {"message_timeout": 90}}, X_HTTP_Method_Override="PATCH")[
                "queue"
            ].items()
            >= {"message_timeout": 90}.items()
        )
        [message] = jobs.reserve()
        asked = {"reservation_id": message["reservation_id"]}
        path = f"/jobs/messages/{message['id']}"
        assert iron.call("POST", path, asked, X_HTTP_Method_Override="DELETE") == {"msg": "Deleted"}
        [message] = jobs.reserve()
        ids = {"ids": [{"id": message["id"], "reservation_id": message["reservation_id"]}]}
        assert iron.call("POST", "/jobs/messages", ids, X_HTTP_Method_Override="DELETE") == {"msg": "Deleted"}
        assert jobs.size() == 1
        assert iron.call("POST", "/jobs/messages", {}, X_HTTP_Method_Override="DELETE") == {"msg": "Cleared"}
        assert jobs.size() == 0
        assert iron.call("POST", "/fresh", {}, X_HTTP_Method_Override="PUT")["queue"]["name"] == "fresh"
        assert iron.call("POST", "/fresh", {}, X_HTTP_Method_Override="DELETE") == {"msg": "Deleted."}

    def test_counts_on_post_alone(self, iron, jobs):
        jobs.post("a")

        assert iron.send("GET", "/jobs", X_HTTP_Method_Override="DELETE").status == 200
        assert iron.send("PUT", "/jobs", {}, X_HTTP_Method_Override="DELETE").status == 200

        assert jobs.size() == 1

    def test_a_post_without_it_neither_clears_nor_deletes(self, iron, jobs):
        [identifier] = jobs.post("a")

        for body in ({}, {"ids": [{"id": identifier}]}):
            assert iron.send("POST", "/jobs/messages", body).status == 400

        assert bodies(jobs.peek()) == ["a"]


BROKEN = [
    "{",
    "}",
    "nonsense",
    '{"ids":[',
    '{"ids":["1"]',
    "{'ids':[]}",
    '{"ids":[]}x',
    b'{"a":"\xff"}',
    b"\xff\xfe{",
    "[" * 100_000,
    '{"a":1e999999}x',
]


class TestStrict:
    @pytest.mark.parametrize("body", BROKEN, ids=lambda body: str(body[:12]))
    def test_broken_json(self, iron, jobs, body):
        [identifier] = jobs.post("a")

        for method, path in (
            ("POST", "/jobs/messages"),
            ("DELETE", "/jobs/messages"),
            ("POST", "/jobs/reservations"),
            ("PUT", "/jobs"),
            ("PATCH", "/jobs"),
            ("DELETE", f"/jobs/messages/{identifier}"),
            ("POST", f"/jobs/messages/{identifier}/touch"),
            ("POST", f"/jobs/messages/{identifier}/release"),
        ):
            assert iron.send(method, path, body).status == 400, (method, path)

        assert jobs.peek() == [{"id": identifier, "body": "a", "reserved_count": 0}]

    @pytest.mark.parametrize("body", ["[]", "1", '"text"', "true", "[{}]"])
    def test_json_that_is_no_object(self, iron, jobs, body):
        jobs.post("a")

        for method, path in (
            ("POST", "/jobs/messages"),
            ("DELETE", "/jobs/messages"),
            ("POST", "/jobs/reservations"),
        ):
            assert iron.send(method, path, body).status == 400, (method, path)

        assert jobs.size() == 1

    @pytest.mark.parametrize(
        "ids", [1, "1", True, {}, {"id": "1"}, [1.5], [[]], [{}], [True], [{"id": {}}], [{"reservation_id": "x"}]]
    )
    def test_ids_that_are_no_list_of_ids_never_clear(self, iron, jobs, ids):
        jobs.post("a")

        assert iron.send("DELETE", "/jobs/messages", {"ids": ids}).status == 400

        assert jobs.size() == 1

    def test_an_empty_list_of_ids_deletes_nothing(self, iron, jobs):
        jobs.post("a")

        assert iron.send("DELETE", "/jobs/messages", {"ids": []}).status in (200, 400)

        assert jobs.size() == 1

    def test_an_empty_list_of_ids_deletes_nothing_in_version_1(self, iron1, jobs):
        jobs.post("a")

        for body in ({"ids": []}, {}, None, "{"):
            assert iron1.send("DELETE", "/jobs/messages", body).status in (200, 400, 406)

        assert jobs.size() == 1

    def test_more_ids_than_a_hundred(self, jobs, refused):
        ids = jobs.post(*(str(n) for n in range(101)))

        with refused(400):
            jobs.delete_many(ids)

        assert jobs.size() == 101
        jobs.delete_many(ids[:100])
        assert jobs.size() == 1

    def test_a_batch_with_a_missing_message_deletes_nothing(self, jobs, refused):
        ids = jobs.post("a", "b")

        with refused(404):
            jobs.delete_many([*ids, MISSING])

        assert jobs.size() == 2

    def test_a_batch_may_be_deleted_again(self, jobs):
        """The first answer may have been lost."""
        ids = jobs.post("a", "b", "c")
        reserved = jobs.reserve(n=2)

        for _ in range(2):
            assert jobs.delete_many(reserved) == {"msg": "Deleted"}

        assert jobs.peek()[0]["id"] == ids[2]
        assert jobs.size() == 1

    @pytest.mark.parametrize("n", [-1, 101, 1000, 1.5, "many", True, [], 2**63])
    def test_a_number_out_of_range(self, iron, iron1, jobs, refused, n):
        jobs.post("a")
        with refused(400):
            jobs.reserve(n=n)
        if isinstance(n, int):
            for where, path in ((iron, "/jobs/messages"), (iron1, "/jobs/messages"), (iron1, "/jobs/messages/peek")):
                with refused(400):
                    where.call("GET", f"{path}?n={int(n) if n is not True else 'true'}")

        assert bodies(jobs.peek()) == ["a"]

    @pytest.mark.parametrize(
        "option",
        [
            {"wait": 31},
            {"wait": -1},
            {"wait": "x"},
            {"timeout": -1},
            {"timeout": 86_401},
            {"timeout": "x"},
            {"delete": "maybe"},
        ],
        ids=str,
    )
    def test_other_options_of_a_reserve_out_of_range(self, iron1, jobs, refused, option):
        jobs.post("a")

        with refused(400):
            jobs.reserve(**option)
        [(name, value)] = option.items()
        with refused(400):
            iron1.call("GET", f"/jobs/messages?{name}={value}")

        assert bodies(jobs.peek()) == ["a"]

    @pytest.mark.parametrize("timeout", [2, 3, 29, 30, 86_400])
    def test_short_and_long_timeouts_are_taken(self, server, jobs, timeout):
        jobs.update(message_expiration=2_592_000)
        jobs.post("a")

        jobs.reserve(timeout=timeout)
        server.advance(timeout / 2)
        assert jobs.reserve() == []
        server.advance(timeout / 2 + 0.5)

        assert bodies(jobs.reserve()) == ["a"]

    @pytest.mark.parametrize("delay", [-1, 604_801, "x", 1.5, []])
    def test_delays_out_of_range(self, jobs, refused, delay):
        with refused(400):
            jobs.post({"body": "a", "delay": delay})
        jobs.post("b")
        [message] = jobs.reserve()
        with refused(400):
            jobs.release(message, delay=delay)

        assert jobs.size() == 1
        jobs.delete(message)

    @pytest.mark.parametrize("timeout", [-1, 86_401, "x", []])
    def test_timeouts_of_a_touch_out_of_range(self, jobs, refused, timeout):
        jobs.post("a")
        [message] = jobs.reserve()

        with refused(400):
            jobs.touch(message, timeout=timeout)

        jobs.delete(message)

    @pytest.mark.parametrize(
        "messages",
        [
            None,
            {},
            "a",
            [],
            ["a"],
            [None],
            [{}],
            [{"body": None}],
            [{"body": 1}],
            [{"body": ["a"]}],
            [{"body": "a"}, {}],
        ],
        ids=str,
    )
    def test_a_post_without_bodies(self, iron, messages):
        assert iron.send("POST", "/jobs/messages", {"messages": messages}).status == 400
        assert iron.call("GET") == {"queues": []}

    @pytest.mark.parametrize("body", [None, "{}", '{"messages":[{}]}'])
    def test_a_post_without_a_required_field_in_version_1(self, iron1, body):
        assert iron1.send("POST", "/jobs/messages", body).status == 406

    def test_messages_may_be_large(self, jobs):
        large = "x" * (256 * 1024 - 100)
        jobs.post(large)

        assert bodies(jobs.reserve()) == [large]

    def test_and_not_larger_than_the_server_takes(self, iron, jobs):
        assert iron.send("POST", "/jobs/messages", {"messages": [{"body": "x" * (2 << 20)}]}).status == 400
        assert jobs.size() == 0

    def test_a_hundred_messages_in_a_post_keep_their_order(self, jobs):
        ids = jobs.post(*(str(n) for n in range(100)))

        assert len(set(ids)) == 100
        assert [m["id"] for m in jobs.peek(100)] == ids
        assert bodies(jobs.reserve(n=100)) == [str(n) for n in range(100)]

    @pytest.mark.parametrize(
        "headers",
        [
            {f"X-{n}": "v" for n in range(6)},
            {"X": "v" * 1025},
            {"X" * 65: "v"},
            {"": "v"},
            {"X": ""},
            {"X": 1},
            {"Content-Type": "a/b"},
            {"user-agent": "x"},
            {"Iron-Message-Id": "1"},
            {"Iron-Reservation-Id": "1"},
            {"Iron-Subscriber-Name": "1"},
            {"IRON-SUBSCRIBER-MESSAGE-URL": "1"},
            {"X": "a\nb"},
        ],
        ids=lambda headers: next(iter(headers))[:30],
    )
    def test_push_headers_out_of_bounds(self, iron, headers):
        sent = {"messages": [{"body": "a", "push_headers": headers}]}

        assert iron.send("POST", "/jobs/messages", sent).status == 400

    def test_push_headers_at_their_bounds(self, jobs):
        jobs.post({"body": "a", "push_headers": {f"{n}".ljust(64, "x"): "v" * 1024 for n in range(5)}})

        assert bodies(jobs.peek()) == ["a"]

    def test_a_webhook_drops_bad_push_headers(self, iron, jobs):
        answer = iron.send(
            "POST", "/jobs/webhook", "a", X_Subscribers_Content_Type="a/b", X_Subscribers_Long="v" * 1025
        )

        assert answer.status in (200, 201)
        assert bodies(jobs.peek()) == ["a"]


def test_a_project_sees_nothing_of_another(server, jobs):
    [identifier] = jobs.post("a")
    other = Iron(server.endpoint, new_project())

    assert other.call("GET") == {"queues": []}
    assert other.send("GET", "/jobs").status == 404
    assert other.send("GET", f"/jobs/messages/{identifier}").status == 404
    Queue(other, "jobs").post("b")

    assert bodies(jobs.peek()) == ["a"]
    other.close()


def test_a_queue_finds_no_message_of_another(iron, jobs, refused):
    [identifier] = jobs.post("a")
    other = Queue(iron, "other")
    other.post("b")

    for call in (other.get, other.delete):
        with refused(404):
            call(identifier)

    assert bodies(jobs.peek()) == ["a"]


class TestTokens:
    """With credentials in its configuration a server asks for a project's token."""

    @pytest.fixture
    def closed(self, make_server):
        keys = '[[credentials]]\naccess_key = "AKIDONE"\nsecret_key = "SECRETONE"\n'
        return make_server(config=keys)

    @pytest.mark.parametrize("version", [3, 1])
    def test_no_token_and_a_wrong_one_are_refused(self, closed, version):
        iron = Iron(closed.endpoint, "000000000000", version, token="not-the-token")

        for authorization in ("OAuth not-the-token", "OAuth", "", "Basic AKIDONE"):
            assert iron.send("GET", Authorization=authorization).status == 401
            assert (
                iron.send("POST", "/jobs/messages", {"messages": [{"body": "a"}]}, Authorization=authorization).status
                == 401
            )
        assert iron.send("GET", "?oauth=not-the-token", Authorization="").status == 401
        iron.close()
        assert "not-the-token" not in closed.log.read_text()
