"""The bytes of answers, the parameters of clients in the field, and what answers report as used."""

import json
import re

import boto3
import pytest
from botocore.exceptions import ClientError

from support.simpledb import NAMESPACE, batch, error_of, pairs
from support.wire import request

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def matches(answer, action, result, usage):
    inside = rf"<{action}Result>{result}</{action}Result>" if result is not None else ""
    expected = (
        rf'<\?xml version="1\.0"\?>\n<{action}Response xmlns="{re.escape(NAMESPACE)}">{inside}<ResponseMetadata>'
        rf"<RequestId>{UUID}</RequestId><BoxUsage>{re.escape(usage)}</BoxUsage></ResponseMetadata></{action}Response>"
    )
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/xml"
    assert re.fullmatch(expected, answer.text), answer.text


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_every_action_answers_as_the_real_service(db, new_name, verb):
    name = new_name("answers")
    domain, item = {"DomainName": name}, {"DomainName": name, "ItemName": "i"}

    def check(action, parameters, result, usage):
        matches(db.ask(action, parameters, verb=verb), action, result, usage)

    check("CreateDomain", domain, None, "0.0055590278")
    check("CreateDomain", domain, None, "0.0055590278")
    check("PutAttributes", item | pairs({"b": ["2", "1"], "a": "<&>"}), None, "0.0000219961")
    attributes = "".join(
        f"<Attribute><Name>{name}</Name><Value>{value}</Value></Attribute>"
        for name, value in [("b", "1"), ("b", "2"), ("a", "&lt;&amp;&gt;")]
    )
    check("GetAttributes", item, attributes, "0.0000093204")
    check("GetAttributes", item | {"ItemName": "none"}, "", "0.0000093202")
    check("BatchPutAttributes", batch(name, [("i", {"c": "3"}), ("j", {"a": "4"})]), None, "0.0000307872")
    check("Select", {"SelectExpression": f"select a from `{name}` where itemName() = 'j'"},
          "<Item><Name>j</Name><Attribute><Name>a</Name><Value>4</Value></Attribute></Item>", "0.0000140080")
    check("Select", {"SelectExpression": f"select itemName() from `{name}` where a = '4'"},
          "<Item><Name>j</Name></Item>", "0.0000140080")
    check("Select", {"SelectExpression": f"select count(*) from `{name}`"},
          "<Item><Name>Domain</Name><Attribute><Name>Count</Name><Value>2</Value></Attribute></Item>", "0.0000140224")
    check("Select", {"SelectExpression": f"select * from `{name}` where a = 'none'"}, "", "0.0000140000")
    figures = {"ItemCount": 2, "ItemNamesSizeBytes": 2, "AttributeNameCount": 3, "AttributeNamesSizeBytes": 3}
    figures |= {"AttributeValueCount": 5, "AttributeValuesSizeBytes": 7}
    shown = "".join(f"<{tag}>{number}</{tag}>" for tag, number in figures.items())
    check("DomainMetadata", domain, shown + r"<Timestamp>\d{10}</Timestamp>", "0.0000071759")
    check("BatchDeleteAttributes", batch(name, [("j", []), ("i", {"b": ["1", "9"]})]), None, "0.0000307881")
    check("DeleteAttributes", item, None, "0.0000219907")
    check("ListDomains", {"MaxNumberOfDomains": "1"}, r"<DomainName>[^<]+</DomainName>(<NextToken>[^<]+</NextToken>)?",
          "0.0000071759")
    check("DeleteDomain", domain, None, "0.0055590278")
    check("DeleteDomain", domain, None, "0.0055590278")


def test_what_changes_report_as_used(db, domain):
    """Figures of recorded answers of the real service."""
    used = {}
    for count in (1, 3, 4, 9):
        used[count] = db.put(domain, "i", [(f"a{n}", "x") for n in range(count)])

    assert used == {1: "0.0000219909", 3: "0.0000219961", 4: "0.0000220035", 9: "0.0000221365"}
    three = {"a": "1", "b": "2", "c": "3"}
    assert db.batch_put(domain, [("x", three)]) == "0.0000219961"
    assert db.batch_put(domain, [(f"x{n}", three) for n in range(3)]) == "0.0000461918"
    assert db.batch_put(domain, [(f"x{n}", three) for n in range(25)]) == "0.0003849317"
    db.put(domain, "five", [("a", str(n)) for n in range(5)])
    answer = db.ask("GetAttributes", {"DomainName": domain, "ItemName": "five"})
    assert "<BoxUsage>0.0000093222</BoxUsage>" in answer.text


def test_an_answer_is_xml_whatever_a_client_accepts(db, domain):
    db.headers = {"Accept": "application/json"}
    try:
        answer = db.ask("GetAttributes", {"DomainName": domain, "ItemName": "i"})
        refusal = db.ask("GetAttributes", {"DomainName": "none", "ItemName": "i"})
    finally:
        db.headers = {}

    matches(answer, "GetAttributes", "", "0.0000093202")
    assert error_of(refusal).code == "NoSuchDomain"


def test_indices_begin_anywhere_and_have_gaps(db, domain):
    item = {"DomainName": domain, "ItemName": "i"}
    db.call("PutAttributes", item | {"Attribute.0.Name": "a", "Attribute.0.Value": "1"})
    db.call("PutAttributes", item | pairs({"b": "2"}, start=7) | pairs({"c": "3"}, start=12))

    assert db.get(domain, "i") == [("a", "1"), ("b", "2"), ("c", "3")]
    db.batch_put(domain, [("j", {"a": "1"}), ("k", {"a": "2"})], start=0)
    named = {"AttributeName.0": "c", "AttributeName.3": "a"}
    root = db.call("GetAttributes", item | named)
    assert [it.text for it in root.iter(f"{{{NAMESPACE}}}Name")] == ["a", "c"]
    gapped = batch(domain, [("l", {"a": "1"})], start=3) | batch(domain, [("m", {"a": "2"})], start=30)
    db.call("BatchPutAttributes", gapped)
    assert db.count(domain) == 5


@pytest.mark.parametrize("prefix", ["Expected.", "Expected.0.", "Expected.1."])
def test_conditions_are_numbered_or_not(db, domain, prefix):
    put = {"DomainName": domain, "ItemName": "i"} | pairs({"a": "1"}, replace=True)
    absent = {f"{prefix}Name": "a", f"{prefix}Exists": "false"}

    db.call("PutAttributes", put | absent)

    assert error_of(db.ask("PutAttributes", put | absent)).code == "ConditionalCheckFailed"
    db.call("PutAttributes", put | {f"{prefix}Name": "a", f"{prefix}Value": "1", f"{prefix}Exists": "true"})
    answer = db.ask("PutAttributes", put | {f"{prefix}Name": "a", f"{prefix}Value": "2"})
    assert error_of(answer).code == "ConditionalCheckFailed"


def test_names_of_members_may_be_in_lower_case(db, domain):
    """So a sample of the developer guide has them."""
    lower = {"Item.1.itemname": "i", "Item.1.Attribute.1.name": "a", "Item.1.Attribute.1.value": "1"}
    db.call("BatchPutAttributes", {"DomainName": domain} | lower)
    assert db.get(domain, "i") == [("a", "1")]

    db.call("BatchDeleteAttributes", {"DomainName": domain} | lower)
    assert db.get(domain, "i") == []


def test_what_xml_cannot_carry_is_base64(db, domain):
    name, item, value = "bell\x07", "item\x01", "value\x00\uffff"
    db.put(domain, item, [(name, value), ("plain", "tab\tline\nreturn\r \u00e9 \U0001f600")])

    answer = db.ask("GetAttributes", {"DomainName": domain, "ItemName": item})
    assert '<Name encoding="base64">YmVsbAc=</Name><Value encoding="base64">dmFsdWUA77+/</Value>' in answer.text
    assert "<Name>plain</Name><Value>tab\tline\nreturn&#xD; \u00e9 \U0001f600</Value>" in answer.text
    page = db.select(f"select * from `{domain}`")
    assert page.items == [(item, [(name, value), ("plain", "tab\tline\nreturn\r \u00e9 \U0001f600")])]


def test_domains_come_in_pages(make_server):
    from support.simpledb import SimpleDb

    db = SimpleDb(make_server().endpoint)
    names = sorted(f"page.{n}-X_{n}" for n in range(7))
    for name in reversed(names):
        db.create(name)

    shown, token = [], None
    for expected in (3, 3, 1):
        page, token = db.domains(MaxNumberOfDomains="3", NextToken=token)
        assert len(page) == expected
        shown += page

    assert (shown, token) == (names, None)
    assert db.domains(MaxNumberOfDomains="7") == (names, None), "no token behind the last"
    assert db.domains() == (names, None)


def test_exports_are_refused(server):
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    exports = boto3.client("simpledbv2", endpoint_url=server.endpoint, **keys)

    for call in (exports.list_exports, lambda: exports.start_domain_export(domainName="abc", s3Bucket="bucket")):
        with pytest.raises(ClientError) as refused:
            call()
        error = refused.value.response
        assert error["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert error["Error"]["Code"] == "UnsupportedOperationException"
        assert "not offered" in error["Error"]["Message"]
    answer = request(server.endpoint, "GET", "/v2/ListExports")
    assert (answer.status, list(json.loads(answer.body))) == (400, ["message"])
