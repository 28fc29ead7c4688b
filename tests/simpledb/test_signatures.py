"""Signatures: version 2 with both digests, version 4, and what is refused. Errors are in SimpleDB's
form, and report no use: nobody knows whose it would be."""

import shutil
import urllib.parse

import pytest
from botocore.exceptions import ClientError

from support.sdk import sdk_client
from support.server import Server
from support.sigv4 import Signer
from support.simpledb import SigV2, SimpleDb, error_of, pairs, quote
from support.wire import FORM_TYPE, request

KEYS = """
[[credentials]]
access_key = "AKIDONE"
secret_key = "secret-one/+"
account = "111111111111"

[[credentials]]
access_key = "AKIDTWO"
secret_key = "secret-two"
account = "222222222222"
"""
ONE = SigV2("AKIDONE", "secret-one/+")
LIST = "Action=ListDomains&Version=2009-04-15"
UNKNOWN_KEY = "The AWS Access Key Id you provided does not exist in our records."
CREDENTIALS_MISSING = "AWS was not able to authenticate the request: access credentials are missing"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("guarded"), config=KEYS, test=False).start()
    yield server
    server.close()
    shutil.rmtree(server.data)


@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize("method", ["HmacSHA256", "HmacSHA1"])
def test_both_digests_sign(guarded, verb, method):
    db = SimpleDb(guarded.endpoint, SigV2("AKIDONE", "secret-one/+", method), verb)
    db.create("signed")

    db.put("signed", "i \u00e4 +&=~*'", {"a b": "x/y?z \U0001f600"})

    assert db.get("signed", "i \u00e4 +&=~*'") == [("a b", "x/y?z \U0001f600")]


def test_the_same_request_may_be_sent_again(guarded):
    """As SDKs do that retry: with the same signature."""
    db = SimpleDb(guarded.endpoint, ONE)
    form = db.signer.signed("POST", guarded.endpoint, {"Action": "ListDomains", "Version": "2009-04-15"})
    body = urllib.parse.urlencode(form)
    for _ in range(2):
        assert request(guarded.endpoint, "POST", "/", body, {"Content-Type": FORM_TYPE}).status == 200


def test_accounts_see_their_own_domains(guarded):
    one, two = SimpleDb(guarded.endpoint, ONE), SimpleDb(guarded.endpoint, SigV2("AKIDTWO", "secret-two"))
    one.create("of-one")

    assert "of-one" in one.domains()[0]
    assert "of-one" not in two.domains()[0]
    assert error_of(two.ask("DomainMetadata", {"DomainName": "of-one"})).code == "NoSuchDomain"


def test_a_large_form_is_read_before_its_signature(guarded):
    """It is in the body."""
    db = SimpleDb(guarded.endpoint, ONE)
    db.create("large")
    values = [("a", f"{n:03}" + "x" * 1000) for n in range(250)]

    db.put("large", "i", values)

    assert db.get("large", "i") == values
    answer = SimpleDb(guarded.endpoint, SigV2("AKIDONE", "wrong")).ask(
        "PutAttributes", {"DomainName": "large", "ItemName": "j"} | pairs(values)
    )
    assert error_of(answer).code == "SignatureDoesNotMatch"
    assert db.get("large", "j") == []


MATCH = (
    "The request signature we calculated does not match the signature you provided. "
    "Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
)


@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize(
    ("signer", "changes", "code", "status", "text"),
    [
        (None, {}, "AuthMissingFailure", 403, CREDENTIALS_MISSING),
        (SigV2("AKIDONE", "wrong"), {}, "SignatureDoesNotMatch", 403, MATCH),
        (SigV2("AKIDNONE", "x"), {}, "InvalidClientTokenId", 403, UNKNOWN_KEY),
        (ONE, {"SecurityToken": "token"}, "InvalidClientTokenId", 403, UNKNOWN_KEY),
        (ONE, {"Timestamp": "2020-01-02T03:04:05Z"}, "RequestExpired", 400, "Request has expired."),
        (ONE, {"Timestamp": "2120-01-02T03:04:05.000Z"}, "RequestExpired", 400, "Request has expired."),
        (ONE, {"Timestamp": None, "Expires": "2020-01-02T03:04:05Z"}, "RequestExpired", 400, "Request has expired."),
    ],
    ids=["none", "other secret", "other key", "token", "old", "of the future", "expired"],
)
def test_refusals(guarded, verb, signer, changes, code, status, text):
    answer = SimpleDb(guarded.endpoint, signer, verb).ask("ListDomains", **changes)

    error = error_of(answer)
    assert (error.code, error.status, error.message) == (code, status, text)
    assert "BoxUsage" not in answer.text


def test_malformed_signatures(guarded):
    for changes, code, text in [
        ({"AWSAccessKeyId": None}, "MissingParameter", "The request must contain the parameter AWSAccessKeyId"),
        ({"SignatureMethod": None}, "MissingParameter", "The request must contain the parameter SignatureMethod"),
        ({"SignatureMethod": "HmacMD5"}, "InvalidParameterValue",
         "Value (HmacMD5) for parameter SignatureMethod is invalid."),
        ({"SignatureVersion": "1"}, "InvalidParameterValue", "Value (1) for parameter SignatureVersion is invalid."),
        ({"Timestamp": "yesterday"}, "InvalidParameterValue", "Value (yesterday) for parameter Timestamp is invalid."),
        ({"Timestamp": None}, "MissingParameter", "The request must contain the parameter Timestamp or Expires"),
        ({"Expires": "2120-01-02T03:04:05Z"}, "InvalidParameterCombination",
         "Request must contain Timestamp or Expires, not both."),
    ]:
        error = error_of(SimpleDb(guarded.endpoint, ONE).ask("ListDomains", **changes))
        assert (error.code, error.status, error.message) == (code, 400, text)


def test_expires_instead_of_a_timestamp(guarded):
    answer = SimpleDb(guarded.endpoint, ONE).ask("ListDomains", Timestamp=None, Expires="2120-01-02T03:04:05Z")
    assert answer.status == 200


def test_a_changed_request_is_refused(guarded):
    form = ONE.signed("POST", guarded.endpoint, {"Action": "ListDomains", "Version": "2009-04-15"})
    for change in ({"Action": "CreateDomain"}, {"MaxNumberOfDomains": "1"}):
        body = "&".join(f"{quote(name)}={quote(value)}" for name, value in (form | change).items())
        answer = request(guarded.endpoint, "POST", "/", body, {"Content-Type": FORM_TYPE})
        assert error_of(answer).code == "SignatureDoesNotMatch"


def test_signatures_of_version_4(guarded):
    keys = {"access_key": "AKIDONE", "secret_key": "secret-one/+", "service": "sdb"}
    sdb = sdk_client(guarded, signature_version="v4", **keys)
    sdb.create_domain(DomainName="of-v4")
    sdb.put_attributes(DomainName="of-v4", ItemName="i", Attributes=[{"Name": "a", "Value": "\u00e4 +"}])

    found = sdb.get_attributes(DomainName="of-v4", ItemName="i")["Attributes"]

    assert found == [{"Name": "a", "Value": "\u00e4 +"}]
    with pytest.raises(ClientError) as refused:
        sdk_client(guarded, signature_version="v4", **keys | {"secret_key": "wrong"}).list_domains()
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    headers = Signer("AKIDONE", "secret-one/+", service="sqs").headers(
        "POST", f"{guarded.endpoint}/", {"Content-Type": FORM_TYPE}, LIST
    )
    answer = request(guarded.endpoint, "POST", "/", LIST, headers)
    assert answer.status == 400, "a signature for SQS is none for SimpleDB"


def test_regions_are_those_of_version_4(guarded):
    """A signature of version 2 names none: it means the server's own."""
    keys = {"access_key": "AKIDONE", "secret_key": "secret-one/+", "service": "sdb"}
    sdk_client(guarded, signature_version="v4", region="eu-west-1", **keys).create_domain(DomainName="far-away")

    assert "far-away" not in SimpleDb(guarded.endpoint, ONE).domains()[0]
    far = sdk_client(guarded, signature_version="v4", region="eu-west-1", **keys).list_domains()
    assert far["DomainNames"] == ["far-away"]


def test_without_credentials_a_key_of_twelve_digits_is_the_account(server):
    one, two = (SimpleDb(server.endpoint, SigV2(account, "x")) for account in ("123456789012", "210987654321"))
    one.create("of-an-account")

    assert one.domains()[0] == ["of-an-account"]
    assert two.domains()[0] == []
