"""Signature version 4, header and presigned form, written from its definition.

Independent of botocore's signer, so that the server is checked against two.
"""

import datetime
import hashlib
import hmac
import urllib.parse
from dataclasses import dataclass

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass
class Signer:
    access_key: str
    secret_key: str
    region: str = "us-east-1"
    service: str = "sqs"
    token: str | None = None

    def headers(self, method, url, headers=None, body=b"", at=None) -> dict[str, str]:
        """`headers` with X-Amz-Date, Host and Authorization added."""
        url, stamp = urllib.parse.urlsplit(url), timestamp(at)
        signed = {name.lower(): value for name, value in (headers or {}).items()}
        signed |= {"host": url.netloc, "x-amz-date": stamp}
        if self.token:
            signed["x-amz-security-token"] = self.token
        query = urllib.parse.parse_qsl(url.query, keep_blank_values=True)
        signature = self.sign(method, url.path or "/", query, signed, body, stamp)
        names = ";".join(sorted(signed))
        signed["authorization"] = (
            f"{ALGORITHM} Credential={self.access_key}/{self.scope(stamp)}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return signed

    def presigned(self, method, url, expires_s=300, at=None) -> str:
        """`url` with the signature in its query string."""
        url, stamp = urllib.parse.urlsplit(url), timestamp(at)
        query = urllib.parse.parse_qsl(url.query, keep_blank_values=True)
        query += [
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", f"{self.access_key}/{self.scope(stamp)}"),
            ("X-Amz-Date", stamp),
            ("X-Amz-Expires", str(expires_s)),
            ("X-Amz-SignedHeaders", "host"),
        ]
        signature = self.sign(method, url.path or "/", query, {"host": url.netloc}, b"", stamp)
        query.append(("X-Amz-Signature", signature))
        return urllib.parse.urlunsplit(url._replace(query=encode(query)))

    def scope(self, stamp: str) -> str:
        return f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"

    def sign(self, method, path, query, headers, body, stamp) -> str:
        body = body.encode() if isinstance(body, str) else body
        lines = [method, urllib.parse.quote(path, safe="/-_.~"), encode(sorted(query))]
        lines += [f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)]
        lines += ["", ";".join(sorted(headers)), hashlib.sha256(body).hexdigest()]
        canonical = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        to_sign = "\n".join([ALGORITHM, stamp, self.scope(stamp), canonical])
        key = f"AWS4{self.secret_key}".encode()
        for part in (stamp[:8], self.region, self.service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, to_sign.encode(), "sha256").hex()


def encode(query: list[tuple[str, str]]) -> str:
    return urllib.parse.urlencode(query, quote_via=urllib.parse.quote, safe="-_.~")


def timestamp(at: datetime.datetime | None) -> str:
    at = at or datetime.datetime.now(datetime.UTC)
    return at.strftime("%Y%m%dT%H%M%SZ")
