"""SimpleDB by boto 2: single operations by GET, batches by POST, signatures of version 2, lists that
begin at 0 or have gaps, conditions with a number."""

import urllib.parse

import boto
import pytest
from boto.exception import SDBResponseError
from boto.regioninfo import RegionInfo
from boto.sdb.connection import SDBConnection

KEYS = '[[credentials]]\naccess_key = "AKIDONE"\nsecret_key = "secret-one"\naccount = "111111111111"\n'


@pytest.fixture
def sdb(make_server):
    server = make_server(config=KEYS, test=False)
    boto.config.add_section("Boto") if not boto.config.has_section("Boto") else None
    boto.config.set("Boto", "num_retries", "0")
    address = urllib.parse.urlsplit(server.endpoint)

    def connect(secret="secret-one"):
        region = RegionInfo(name="local", endpoint=address.hostname)
        return SDBConnection("AKIDONE", secret, is_secure=False, port=address.port, region=region)

    return connect


def test_all_actions(sdb):
    connection = sdb()
    with pytest.raises(SDBResponseError) as refused:
        connection.create_domain("bad:domain:name")
    assert (refused.value.status, refused.value.error_code) == (400, "InvalidParameterValue")
    domain = connection.create_domain("test-domain")
    assert [it.name for it in connection.get_all_domains()] == ["test-domain"]

    # Several values make gaps between the numbers.
    domain.put_attributes("item_1", {"name1": ["one", "two"], "name2": "x +&=~*'\u00e4", "name3": "3"})
    assert dict(domain.get_attributes("item_1", consistent_read=True)) == {
        "name1": ["one", "two"], "name2": "x +&=~*'\u00e4", "name3": "3",
    }
    assert dict(domain.get_attributes("item_1", ["name3"])) == {"name3": "3"}
    domain.put_attributes("item_1", {"name3": "4"}, replace=True, expected_value=["name3", "3"])
    with pytest.raises(SDBResponseError) as refused:
        domain.put_attributes("item_1", {"name3": "5"}, replace=True, expected_value=["name3", "3"])
    assert (refused.value.status, refused.value.error_code) == (409, "ConditionalCheckFailed")
    with pytest.raises(SDBResponseError) as refused:
        domain.put_attributes("item_1", {"name3": "5"}, expected_value=["name3", False])
    assert refused.value.error_code == "ConditionalCheckFailed"

    items = {f"batch_{n}": {"number": str(n), "all": ["a", "b"]} for n in range(5)}
    domain.batch_put_attributes(items)
    found = domain.select("select * from `test-domain` where number > \"2\"", consistent_read=True)
    assert {item.name: dict(item) for item in found} == {name: items[name] for name in ("batch_3", "batch_4")}
    metadata = connection.domain_metadata(domain)
    assert (metadata.item_count, metadata.attr_name_count, metadata.attr_value_count) == (6, 5, 19)

    domain.delete_attributes("item_1", {"name1": ["one"]})
    assert domain.get_attributes("item_1")["name1"] == "two"
    domain.delete_attributes("item_1", ["name1", "name2"])
    assert dict(domain.get_attributes("item_1")) == {"name3": "4"}
    domain.batch_delete_attributes({"batch_0": None, "batch_1": {"all": "a"}})
    assert [item.name for item in domain.select("select itemName() from `test-domain` where all = 'a'")] == [
        "batch_2", "batch_3", "batch_4",
    ]
    domain.delete_item(domain.get_item("item_1"))
    assert domain.get_item("item_1") is None
    connection.delete_domain(domain)
    assert connection.get_all_domains() == []


def test_more_items_than_a_page_has(sdb):
    domain = sdb().create_domain("pages")
    for first in range(0, 250, 25):
        domain.batch_put_attributes({f"i{n:03}": {"a": "1"} for n in range(first, first + 25)})

    found = [item.name for item in domain.select("select itemName() from pages")]

    assert sorted(found) == [f"i{n:03}" for n in range(250)]


def test_another_secret_is_refused(sdb):
    with pytest.raises(SDBResponseError) as refused:
        sdb("wrong").get_all_domains()
    assert (refused.value.status, refused.value.error_code) == (403, "SignatureDoesNotMatch")
