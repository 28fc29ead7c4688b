"""SimpleDB by hand: parameters in, XML out, signatures of version 2. No SDK."""

import base64
import datetime
import hashlib
import hmac
import itertools
import urllib.parse
from dataclasses import dataclass, field

from support.wire import FORM_TYPE, Answer, ApiError, request

VERSION = "2009-04-15"
NAMESPACE = f"http://sdb.amazonaws.com/doc/{VERSION}/"


@dataclass
class SigV2:
    """Signs as SDKs do; `now` and `changes` are for what must be refused."""

    access_key: str
    secret_key: str
    method: str = "HmacSHA256"

    def signed(self, verb: str, endpoint: str, parameters: dict, **changes) -> dict:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        signed = parameters | {"AWSAccessKeyId": self.access_key, "SignatureVersion": "2"}
        signed |= {"SignatureMethod": self.method, "Timestamp": now} | changes
        signed = {name: value for name, value in signed.items() if value is not None}
        quoted = sorted((quote(name), quote(value)) for name, value in signed.items())
        host = urllib.parse.urlsplit(endpoint).netloc.lower()
        text = "\n".join([verb, host, "/", "&".join(f"{name}={value}" for name, value in quoted)])
        digest = hashlib.sha1 if self.method == "HmacSHA1" else hashlib.sha256
        signature = hmac.digest(self.secret_key.encode(), text.encode(), digest)
        return signed | {"Signature": base64.b64encode(signature).decode()}


def quote(text: str | bytes) -> str:
    return urllib.parse.quote(text, safe="-_.~")


@dataclass
class Page:
    """Items in order, each with its pairs in order."""

    items: list[tuple[str, list[tuple[str, str]]]]
    token: str | None
    usage: str

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.items]


@dataclass
class SimpleDb:
    endpoint: str
    signer: SigV2 | None = None
    verb: str = "POST"
    headers: dict = field(default_factory=dict)

    def ask(self, action: str | None, parameters: dict | None = None, /, verb=None, **signing) -> Answer:
        verb = verb or self.verb
        form = {"Version": VERSION} | (parameters or {})
        if action is not None:
            form = {"Action": action} | form
        if self.signer:
            form = self.signer.signed(verb, self.endpoint, form, **signing)
        text = "&".join(f"{quote(name)}={quote(value)}" for name, value in form.items() if value is not None)
        if verb == "GET":
            return request(self.endpoint, "GET", f"/?{text}", headers=self.headers)
        return request(self.endpoint, verb, "/", text, {"Content-Type": FORM_TYPE} | self.headers)

    def call(self, action: str, parameters: dict | None = None, /, **options):
        """The root element of a success."""
        answer = self.ask(action, parameters, **options)
        if answer.status != 200:
            raise error_of(answer)
        return answer.xml()

    def create(self, domain: str) -> str:
        self.call("CreateDomain", {"DomainName": domain})
        return domain

    def put(self, domain: str, item: str, attributes, replace=False, expected=None) -> str:
        """`attributes`: a dictionary of values or lists of values, or pairs. Returns the box usage."""
        parameters = {"DomainName": domain, "ItemName": item} | pairs(attributes, replace=replace)
        parameters |= {f"Expected.{name}": value for name, value in (expected or {}).items()}
        return usage(self.call("PutAttributes", parameters))

    def batch_put(self, domain: str, items, replace=False, start=1) -> str:
        """`items`: pairs of a name and attributes as `put` has them."""
        return usage(self.call("BatchPutAttributes", batch(domain, items, replace, start)))

    def delete(self, domain: str, item: str, attributes=(), expected=None) -> str:
        parameters = {"DomainName": domain, "ItemName": item} | pairs(attributes)
        parameters |= {f"Expected.{name}": value for name, value in (expected or {}).items()}
        return usage(self.call("DeleteAttributes", parameters))

    def get(self, domain: str, item: str, *names: str) -> list[tuple[str, str]]:
        parameters = {"DomainName": domain, "ItemName": item, "ConsistentRead": "true"}
        parameters |= {f"AttributeName.{n}": name for n, name in enumerate(names, 1)}
        return pairs_of(self.call("GetAttributes", parameters).find("{*}GetAttributesResult"))

    def select(self, expression: str, token: str | None = None) -> Page:
        parameters = {"SelectExpression": expression, "ConsistentRead": "true", "NextToken": token}
        root = self.call("Select", parameters)
        found = root.findall("{*}SelectResult/{*}Item")
        items = [(text(item.find("{*}Name")), pairs_of(item)) for item in found]
        return Page(items, root.findtext("{*}SelectResult/{*}NextToken"), usage(root))

    def select_all(self, expression: str) -> list[tuple[str, list[tuple[str, str]]]]:
        """The items of all pages."""
        page = self.select(expression)
        items = page.items
        while page.token is not None:
            page = self.select(expression, page.token)
            items += page.items
        return items

    def count(self, domain: str, where="") -> int:
        counted = self.select(f"select count(*) from `{domain}` {where}").items
        assert [name for name, _ in counted] == ["Domain"], counted
        return int(dict(counted[0][1])["Count"])

    def metadata(self, domain: str) -> dict[str, int]:
        root = self.call("DomainMetadata", {"DomainName": domain})
        return {it.tag.rpartition("}")[2]: int(it.text) for it in root.find("{*}DomainMetadataResult")}

    def domains(self, **parameters) -> tuple[list[str], str | None]:
        root = self.call("ListDomains", parameters)
        names = [it.text for it in root.findall("{*}ListDomainsResult/{*}DomainName")]
        return names, root.findtext("{*}ListDomainsResult/{*}NextToken")


def pairs(attributes, replace=False, start=1, prefix="") -> dict[str, str | None]:
    """The parameters `Attribute.N.…`. A value of None is left out."""
    if isinstance(attributes, dict):
        attributes = [
            (name, value)
            for name, values in attributes.items()
            for value in (values if isinstance(values, list) else [values])
        ]
    form = {}
    for number, (name, value) in zip(itertools.count(start), attributes):
        form |= {f"{prefix}Attribute.{number}.Name": name, f"{prefix}Attribute.{number}.Value": value}
        form |= {f"{prefix}Attribute.{number}.Replace": "true"} if replace else {}
    return form


def batch(domain: str, items, replace=False, start=1) -> dict[str, str | None]:
    form = {"DomainName": domain}
    for number, (name, attributes) in zip(itertools.count(start), items):
        form[f"Item.{number}.ItemName"] = name
        form |= pairs(attributes, replace, start, f"Item.{number}.")
    return form


def error_of(answer: Answer) -> ApiError:
    root = answer.xml()
    assert root.tag == "Response" and root.findtext("RequestID"), answer.text
    (error,) = root.findall("Errors/Error")
    return ApiError(answer.status, error.findtext("Code"), error.findtext("Message"), None, answer)


def usage(root) -> str:
    assert root.findtext("{*}ResponseMetadata/{*}RequestId"), "no request id"
    return root.findtext("{*}ResponseMetadata/{*}BoxUsage")


def pairs_of(parent) -> list[tuple[str, str]]:
    found = parent.findall("{*}Attribute")
    return [(text(it.find("{*}Name")), text(it.find("{*}Value"))) for it in found]


def text(element) -> str:
    content = element.text or ""
    return base64.b64decode(content).decode() if element.get("encoding") == "base64" else content
