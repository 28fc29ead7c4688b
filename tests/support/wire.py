"""The two SQS protocols by hand, without an SDK.

`JsonApi` and `QueryApi` take the parameters of the AWS model and give back the same dictionary,
so that one test checks both protocols. Binary values are base64 text in both.
"""

import http.client
import json
import urllib.parse
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

JSON_TYPE = "application/x-amz-json-1.0"
FORM_TYPE = "application/x-www-form-urlencoded"
XML_NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self):
        return json.loads(self.body) if self.body else {}

    def xml(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.body)


@dataclass
class ApiError(Exception):
    """A refused call. `code` is the legacy code in both protocols; `shape` exists in JSON only."""

    status: int
    code: str
    message: str | None
    shape: str | None = None
    answer: Answer | None = field(default=None, repr=False)


def request(endpoint, method, path="/", body=None, headers=None, timeout=30) -> Answer:
    host = urllib.parse.urlsplit(endpoint).netloc
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        if isinstance(body, str):
            body = body.encode()
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


def string(value: str, data_type="String") -> dict:
    """A message attribute that is a text."""
    return {"DataType": data_type, "StringValue": value}


def scope_header(region: str, access_key="test", service="sqs") -> str:
    """An Authorization header whose signature nobody checks: it only names key and region."""
    scope = f"{access_key}/20260102/{region}/{service}/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={'0' * 64}"


class JsonApi:
    """AWS JSON 1.0."""

    protocol = "json"

    def __init__(self, endpoint: str, path="/", headers=None):
        self.endpoint = endpoint
        self.path = path
        self.headers = headers or {}

    def post(self, action: str, body, **headers) -> Answer:
        if not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {
            "Content-Type": JSON_TYPE,
            "X-Amz-Target": f"AmazonSQS.{action}",
            "x-amzn-query-mode": "true",
        }
        sent = sent | self.headers | headers
        return request(self.endpoint, "POST", self.path, body, sent)

    def call(self, action: str, /, **parameters) -> dict:
        answer = self.post(action, parameters)
        if answer.status == 200:
            return answer.json()
        raise json_error(answer)


def json_error(answer: Answer) -> ApiError:
    body = answer.json()
    shape = body.get("__type", "")
    header = answer.headers.get("x-amzn-query-error", "")
    return ApiError(answer.status, header.split(";")[0], body.get("message"), shape, answer)


class QueryApi:
    """Query with XML answers."""

    protocol = "query"

    def __init__(self, endpoint: str, path="/", headers=None):
        self.endpoint = endpoint
        self.path = path
        self.headers = headers or {}

    def post(self, action: str, parameters: dict, **headers) -> Answer:
        form = {"Action": action, "Version": "2012-11-05"} | flatten(action, parameters)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"Content-Type": f"{FORM_TYPE}; charset=utf-8"} | self.headers | headers
        return request(self.endpoint, "POST", self.path, urllib.parse.urlencode(form), sent)

    def call(self, action: str, /, **parameters) -> dict:
        answer = self.post(action, parameters)
        if answer.status == 200:
            return parse_result(action, answer.xml())
        raise xml_error(answer)


def xml_error(answer: Answer) -> ApiError:
    root = answer.xml()
    error = root.find("{*}Error")
    assert error is not None, answer.text
    return ApiError(answer.status, error.findtext("{*}Code"), error.findtext("{*}Message"), None, answer)


LIST_NAMES = {
    "AttributeNames": "AttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "TagKeys": "TagKey",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "StringListValues": "StringListValue",
    "BinaryListValues": "BinaryListValue",
}
MAP_NAMES = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "tags": ("Tag", "Key"),
    "Tags": ("Tag", "Key"),
}


def flatten(action: str, parameters: dict, prefix="") -> dict[str, str]:
    """Model parameters to form parameters, flattened as SQS wants them."""
    form = {}
    for name, value in parameters.items():
        if value is None:
            continue
        if name == "Entries":
            items = {f"{action}RequestEntry.{n}.": e for n, e in enumerate(value, 1)}
            for entry_prefix, entry in items.items():
                form |= flatten(action, entry, prefix + entry_prefix)
            if not items:
                form[f"{action}RequestEntry"] = ""
        elif name in MAP_NAMES:
            item_name, key_name = MAP_NAMES[name]
            for n, (key, item) in enumerate(value.items(), 1):
                form[f"{prefix}{item_name}.{n}.{key_name}"] = key
                item = {"Value": item}
                form |= flatten(action, item, f"{prefix}{item_name}.{n}.")
        elif name in LIST_NAMES:
            for n, item in enumerate(value, 1):
                form[f"{prefix}{LIST_NAMES[name]}.{n}"] = item
        elif isinstance(value, dict):
            form |= flatten(action, value, f"{prefix}{name}.")
        else:
            form[prefix + name] = str(value)
    return form


NUMBERS = {
    "ApproximateNumberOfMessagesMoved",
    "ApproximateNumberOfMessagesToMove",
    "MaxNumberOfMessagesPerSecond",
    "StartedTimestamp",
}


def local_name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def parse_result(action: str, root: ElementTree.Element) -> dict:
    """The XML of a success as the dictionary that the JSON protocol gives."""
    assert root.tag == f"{{{XML_NAMESPACE}}}{action}Response", root.tag
    assert root.findtext("{*}ResponseMetadata/{*}RequestId"), "no request id"
    result = root.find(f"{{*}}{action}Result")
    return {} if result is None else parse_members(action, result)


def parse_members(action: str, parent: ElementTree.Element) -> dict:
    members = {}
    for element in parent:
        name = local_name(element)
        text = element.text or ""
        if name in ("Attribute", "MessageAttribute"):
            value = element.find("{*}Value")
            key = element.findtext("{*}Name")
            typed = name == "MessageAttribute"
            value = parse_members(action, value) if typed else value.text or ""
            members.setdefault(f"{name}s", {})[key] = value
        elif name == "Tag":
            tags = members.setdefault("Tags", {})
            tags[element.findtext("{*}Key")] = element.findtext("{*}Value") or ""
        elif name == "QueueUrl" and action == "ListQueues":
            members.setdefault("QueueUrls", []).append(text)
        elif name == "QueueUrl" and action == "ListDeadLetterSourceQueues":
            members.setdefault("queueUrls", []).append(text)
        elif name == "Message" and action == "ReceiveMessage":
            members.setdefault("Messages", []).append(parse_members(action, element))
        elif name == "BatchResultErrorEntry":
            entry = parse_members(action, element)
            entry["SenderFault"] = entry["SenderFault"] == "true"
            members.setdefault("Failed", []).append(entry)
        elif name == f"{action}ResultEntry":
            listed = "Results" if action == "ListMessageMoveTasks" else "Successful"
            members.setdefault(listed, []).append(parse_members(action, element))
        else:
            members[name] = int(text) if name in NUMBERS else text
    return members


def received(api, url: str, **parameters) -> dict:
    """The one message that can be received, with all that can be asked for."""
    asked = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    (message,) = api.call("ReceiveMessage", QueueUrl=url, **(asked | parameters))["Messages"]
    return message
