"""IronMQ's two interfaces by hand, without a client. Every answer is checked for the form that the
official clients need: they break on form long before they break on meaning.
"""

import http.client
import json
import re
import urllib.parse
import uuid

from support.wire import Answer

# The service's had 19 digits, and its reservation ids 32 hexadecimal ones; no client looks at them.
MESSAGE_ID = re.compile(r"[1-9][0-9]{0,38}")
RESERVATION_ID = re.compile(r"[A-Za-z0-9._-]{32,200}")
LISTS = {"messages", "ids", "queues", "subscribers", "alerts"}
IDS = {"id", "ids", "reservation_id", "project_id"}


def new_project() -> str:
    """Project ids have 24 hexadecimal digits."""
    return uuid.uuid4().hex[:24]


class IronError(Exception):
    """A refused call: its status, and the text of its body."""

    def __init__(self, answer: Answer):
        self.status = answer.status
        self.message = answer.json()["msg"]
        super().__init__(f"{self.status}: {self.message}")


class Iron:
    """One connection to one project, in version 3 or 1."""

    def __init__(self, endpoint: str, project: str, version=3, token="token", timeout=60):
        self.address = urllib.parse.urlsplit(endpoint).netloc
        self.project = project
        self.token = token
        self.root = f"/{version}/projects/{project}/queues"
        self.timeout = timeout
        self.connection = http.client.HTTPConnection(self.address, timeout=timeout)

    def send(self, method: str, path="", body=None, **headers) -> Answer:
        """`path`: below `queues`. Bytes and texts are sent as they are, all else as JSON; `None` sends no body."""
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        sent = {"Authorization": f"OAuth {self.token}"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, self.root + path, body, sent)
        answer = self.connection.getresponse()
        answer = well_formed(Answer(answer.status, answer.headers, answer.read()))
        assert self.connection.sock, f"the connection was closed: {method} {path}: {answer.status}"
        return answer

    def call(self, method: str, path="", body=None, **headers):
        """The body of a success, else `IronError`."""
        answer = self.send(method, path, body, **headers)
        if answer.status in (200, 201):
            return answer.json()
        raise IronError(answer)

    def close(self):
        self.connection.close()


class Queue:
    """A queue in version 3, by its short names."""

    def __init__(self, iron: Iron, name: str):
        self.iron = iron
        self.name = name
        self.path = "/" + urllib.parse.quote(name, safe="")

    def create(self, **settings):
        return self.iron.call("PUT", self.path, {"queue": settings})["queue"]

    def update(self, **settings):
        return self.iron.call("PATCH", self.path, {"queue": settings})["queue"]

    def info(self):
        return self.iron.call("GET", self.path)["queue"]

    def size(self) -> int:
        return self.info()["size"]

    def drop(self):
        return self.iron.call("DELETE", self.path)

    def post(self, *messages) -> list[str]:
        """Of bodies, or of whole messages."""
        messages = [{"body": m} if isinstance(m, str) else m for m in messages]
        return self.iron.call("POST", f"{self.path}/messages", {"messages": messages})["ids"]

    def reserve(self, **options) -> list[dict]:
        return self.iron.call("POST", f"{self.path}/reservations", options)["messages"]

    def peek(self, n=100) -> list[dict]:
        return self.iron.call("GET", f"{self.path}/messages?n={n}")["messages"]

    def get(self, identifier) -> dict:
        return self.iron.call("GET", f"{self.path}/messages/{identifier}")["message"]

    def touch(self, message: dict, **options) -> str:
        asked = {"reservation_id": message["reservation_id"]} | options
        return self.iron.call("POST", f"{self.path}/messages/{message['id']}/touch", asked)["reservation_id"]

    def release(self, message: dict, **options):
        asked = {"reservation_id": message["reservation_id"]} | options
        return self.iron.call("POST", f"{self.path}/messages/{message['id']}/release", asked)

    def delete(self, message: dict | str):
        """A message as it was reserved; or its id alone, with no reservation."""
        if isinstance(message, str):
            return self.iron.call("DELETE", f"{self.path}/messages/{message}", {})
        asked = {"reservation_id": message["reservation_id"]}
        return self.iron.call("DELETE", f"{self.path}/messages/{message['id']}", asked)

    def delete_many(self, entries: list):
        """Of ids, or of messages as they were reserved."""
        named = ("id", "reservation_id")
        entries = [e if isinstance(e, str) else {k: e[k] for k in named if k in e} for e in entries]
        return self.iron.call("DELETE", f"{self.path}/messages", {"ids": entries})

    def clear(self):
        return self.iron.call("DELETE", f"{self.path}/messages", {})


def bodies(messages: list[dict]) -> list[str]:
    return [message["body"] for message in messages]


def well_formed(answer: Answer) -> Answer:
    """A status that clients know, the media type to the letter, a length, nothing encoded, a body always; lists are
    never null and ids are always texts."""
    assert answer.headers.get_all("Content-Type") == ["application/json"], answer.headers.items()
    assert answer.headers.get_all("Content-Length") == [str(len(answer.body))], answer.headers.items()
    assert "Transfer-Encoding" not in answer.headers and "Content-Encoding" not in answer.headers
    assert answer.status in (200, 201, 400, 401, 403, 404, 405, 406, 500, 503), answer.status
    body = json.loads(answer.body)
    if answer.status >= 400:
        assert body.keys() == {"msg"} and isinstance(body["msg"], str) and body["msg"], body
    check_values(body)
    return answer


def check_values(value):
    if isinstance(value, list):
        for item in value:
            check_values(item)
    if isinstance(value, dict):
        for name, item in value.items():
            assert item is not None, f"{name} is null"
            if name in LISTS:
                assert isinstance(item, list), f"{name} is no list"
            if name in IDS:
                texts = item if name == "ids" else [item]
                assert all(isinstance(text, str) for text in texts), f"{name} is no text"
            check_values(item)
        for message in value.get("messages", []):
            assert MESSAGE_ID.fullmatch(message["id"]), message
            assert RESERVATION_ID.fullmatch(message.get("reservation_id", "0" * 32)), message
        assert all(map(MESSAGE_ID.fullmatch, value.get("ids", []))), value
