"""A server that takes SimpleDB's writes, finds them by one value and checks signatures, for `millrace bench sdb-csv`."""

import base64
import hashlib
import hmac
import re
from urllib.parse import parse_qsl, quote

from support.fake import FakeService


SECRET = "secret"


class FakeSimpleDb(FakeService):
    def __init__(self):
        self.domains = {}
        self.actions = []
        self.refused = []
        super().__init__()

    def take(self, method, _target, headers, body):
        if method != "POST":
            return 404, "text/plain", b"no metrics here"
        self.found = 0
        status = self.act(dict(parse_qsl(body.decode())), headers["Host"])
        return status, "text/xml", b"<Response>" + b"<Item></Item>" * self.found + b"</Response>"

    def act(self, parameters: dict, host: str) -> int:
        if parameters.pop("Signature", "") != signature(parameters, host):
            self.refused.append(parameters)
            return 403
        action, domain = parameters["Action"], parameters.get("DomainName")
        self.actions.append(action)
        match action:
            case "Select":
                self.found = self.count(parameters["SelectExpression"])
            case "CreateDomain":
                self.domains[domain] = {}
            case "DeleteDomain":
                pass
            case "PutAttributes":
                self.domains[domain][parameters["ItemName"]] = values(parameters, "")
            case "BatchPutAttributes":
                numbers = [key.split(".")[1] for key in parameters if key.endswith(".ItemName")]
                assert len(numbers) <= 25
                for number in numbers:
                    name = parameters[f"Item.{number}.ItemName"]
                    self.domains[domain][name] = values(parameters, f"Item.{number}.")
            case _:
                return 400
        return 200

    def count(self, expression: str) -> int:
        query = re.fullmatch(r"select \* from `(.+)` where `(.+)` = '(.+)' limit (\d+)", expression)
        domain, name, value, limit = query.groups()
        rows = self.domains[domain].values()
        return min(int(limit), sum(row.get(name) == value for row in rows))


def values(parameters: dict, front: str) -> dict:
    found = {}
    for key, name in parameters.items():
        if key.startswith(f"{front}Attribute.") and key.endswith(".Name"):
            found[name] = parameters[key.removesuffix("Name") + "Value"]
    return found


def signature(parameters: dict, host: str) -> str:
    """Signature Version 2, written down independently of the client."""
    pairs = [f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in parameters.items()]
    text = f"POST\n{host.lower()}\n/\n" + "&".join(sorted(pairs))
    digest = hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
