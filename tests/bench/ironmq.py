"""IronMQ, versions 3 and 1, as far as `millrace bench` speaks it: queues in memory, tokens checked."""

import json
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit

from support.fake import FakeService


PROJECT, TOKEN = "53a3b3bd5e8edd1245000001", "token"
ACCESS = ["--iron-project", PROJECT, "--iron-token", TOKEN]


class FakeIronMq(FakeService):
    def __init__(self):
        self.queues = {}
        self.removed = []
        self.calls = []
        self.changed = threading.Condition()
        self.ids = 0
        super().__init__()

    def take(self, method, target, headers, body):
        status, answer = self.answer(method, target, headers, body)
        return status, "application/json", json.dumps(answer).encode()

    def answer(self, method, target, headers, body):
        if headers["Authorization"] != f"OAuth {TOKEN}":
            return 401, {"msg": "Not authorized"}
        url = urlsplit(target)
        _, version, projects, project, queues, name, *rest = url.path.split("/")
        assert (projects, project, queues) == ("projects", PROJECT, "queues"), target
        asked = json.loads(body) if body else {}
        asked |= {key: int(value) for key, [value] in parse_qs(url.query).items()}
        with self.changed:
            return self.act(int(version), method, unquote(name), rest, asked)

    def act(self, version, method, name, rest, asked):
        self.calls.append((version, method, *(part if part.isalpha() else "ID" for part in rest)))
        match version, method, rest:
            case (3, "PUT", []) | (1, "POST", []):
                self.queues[name] = {}
                return 200, {"queue": {"name": name}}
            case _, "DELETE", []:
                self.removed.append(self.queues.pop(name))
                return 200, {"msg": "Deleted."}
            case _ if name not in self.queues:
                return 404, {"msg": "Queue not found"}
            case _, "POST", ["messages"]:
                ids = [self.put(name, message["body"]) for message in asked["messages"]]
                self.changed.notify_all()
                return (201 if version == 3 else 200), {"ids": ids, "msg": "Messages put on queue."}
            case (3, "POST", ["reservations"]) | (1, "GET", ["messages"]):
                return 200, {"messages": self.reserve(version, name, asked)}
            case _, "DELETE", ["messages"]:
                return self.delete(version, name, asked["ids"])
            case _, "DELETE", ["messages", identifier]:
                entry = {"id": identifier, **asked} if version == 3 else identifier
                return self.delete(version, name, [entry])
        return 404, {"msg": "Not found"}

    def put(self, name, body):
        self.ids += 1
        identifier = f"{self.ids:019}"
        self.queues[name][identifier] = {"body": body, "count": 0, "reservation": None}
        return identifier

    def reserve(self, version, name, asked):
        assert 1 <= asked["n"] <= 100 and asked["wait"] <= 30
        deadline = time.monotonic() + asked["wait"]
        while True:
            ready = [item for item in self.queues.get(name, {}).items() if not item[1]["reservation"]]
            if ready or not self.changed.wait(deadline - time.monotonic()):
                break
        found = []
        for identifier, message in ready[: asked["n"]]:
            message["count"] += 1
            message["reservation"] = f"{message['count']:032x}"
            found.append({"id": identifier, "body": message["body"], "reserved_count": message["count"]})
            if version == 3:
                found[-1]["reservation_id"] = message["reservation"]
        return found

    def delete(self, version, name, entries):
        queue = self.queues[name]
        for entry in entries:
            identifier = entry["id"] if version == 3 else entry
            if identifier not in queue:
                return 404, {"msg": "Message not found"}
            if version == 3 and entry["reservation_id"] != queue[identifier]["reservation"]:
                return 403, {"msg": "Reservation timed out"}
        for entry in entries:
            del queue[entry["id"] if version == 3 else entry]
        return 200, {"msg": "Deleted"}
