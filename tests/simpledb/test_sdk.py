"""The main job with a real SDK, and all actions."""

import pytest
from botocore.exceptions import ClientError

from support.sdk import sdk_client

STOCK = [(f"2009-07-{day:02}_JAVA", f"{day:02}.{day:02}") for day in range(1, 26)]


def attribute(name, value, **more):
    return {"Name": name, "Value": value} | more


def test_a_batch_is_there_again_after_a_kill(make_server):
    server = make_server(durability="fsync")
    sdb = sdk_client(server, service="sdb")
    sdb.create_domain(DomainName="StockPrices")
    items = [
        {"Name": name, "Attributes": [attribute("Ticker", "JAVA"), attribute("Close", close, Replace=True)]}
        for name, close in STOCK
    ]
    sdb.batch_put_attributes(DomainName="StockPrices", Items=items)
    query = "select * from StockPrices where Close > '20' order by Close desc limit 3"

    before = sdb.select(SelectExpression=query)["Items"]
    server.restart("kill")
    after = sdb.select(SelectExpression=query)["Items"]

    assert [item["Name"] for item in after] == ["2009-07-25_JAVA", "2009-07-24_JAVA", "2009-07-23_JAVA"]
    assert after[0]["Attributes"] == [attribute("Ticker", "JAVA"), attribute("Close", "25.25")]
    assert after == before
    assert sdb.list_domains()["DomainNames"] == ["StockPrices"]
    assert sdb.domain_metadata(DomainName="StockPrices")["ItemCount"] == 25


def test_all_actions(sdb, new_name):
    domain = new_name("sdk")
    of_item = {"DomainName": domain, "ItemName": "one"}

    sdb.create_domain(DomainName=domain)
    assert domain in sdb.list_domains()["DomainNames"]
    sdb.put_attributes(**of_item, Attributes=[attribute("a", "2"), attribute("a", "1"), attribute("b", "x")])
    sdb.put_attributes(**of_item, Attributes=[attribute("b", "y", Replace=True)])
    assert sdb.get_attributes(**of_item, ConsistentRead=True)["Attributes"] == [
        attribute("a", "1"), attribute("a", "2"), attribute("b", "y"),
    ]
    assert sdb.get_attributes(**of_item, AttributeNames=["b", "c"])["Attributes"] == [attribute("b", "y")]
    more = [{"Name": f"item{n}", "Attributes": [attribute("n", str(n))]} for n in range(3)]
    sdb.batch_put_attributes(DomainName=domain, Items=more)
    counted = sdb.select(SelectExpression=f"select count(*) from `{domain}`")["Items"]
    assert counted == [{"Name": "Domain", "Attributes": [attribute("Count", "4")]}]
    page = sdb.select(SelectExpression=f"select itemName() from `{domain}` limit 3", ConsistentRead=True)
    rest = sdb.select(SelectExpression=f"select itemName() from `{domain}`", NextToken=page["NextToken"])
    assert {item["Name"] for item in page["Items"] + rest["Items"]} == {"one", "item0", "item1", "item2"}
    figures = sdb.domain_metadata(DomainName=domain)
    assert (figures["ItemCount"], figures["AttributeNameCount"], figures["AttributeValueCount"]) == (4, 3, 6)
    sdb.delete_attributes(**of_item, Attributes=[attribute("a", "1")], Expected={"Name": "b", "Value": "y"})
    assert sdb.get_attributes(**of_item)["Attributes"] == [attribute("a", "2"), attribute("b", "y")]
    gone = [{"Name": "item0"}, {"Name": "item1", "Attributes": [attribute("n", "1")]}]
    sdb.batch_delete_attributes(DomainName=domain, Items=gone)
    assert "Attributes" not in sdb.get_attributes(DomainName=domain, ItemName="item1")
    sdb.delete_attributes(**of_item)
    assert sdb.domain_metadata(DomainName=domain)["ItemCount"] == 1
    sdb.delete_domain(DomainName=domain)
    with pytest.raises(sdb.exceptions.NoSuchDomain):
        sdb.domain_metadata(DomainName=domain)


def test_a_condition_that_does_not_hold(sdb, new_name):
    domain = new_name("sdk")
    sdb.create_domain(DomainName=domain)
    put = {"DomainName": domain, "ItemName": "i", "Attributes": [attribute("version", "1", Replace=True)]}
    sdb.put_attributes(**put, Expected={"Name": "version", "Exists": False})

    with pytest.raises(ClientError) as refused:
        sdb.put_attributes(**put, Expected={"Name": "version", "Value": "2", "Exists": True})

    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailed"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 409
    with pytest.raises(sdb.exceptions.AttributeDoesNotExist):
        sdb.put_attributes(**put, Expected={"Name": "other", "Value": "2"})


def test_queues_and_domains_live_beside_each_other(sdb, sqs, new_name):
    name = new_name("both")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sdb.create_domain(DomainName=name)

    sqs.send_message(QueueUrl=url, MessageBody="m")
    sdb.put_attributes(DomainName=name, ItemName="i", Attributes=[attribute("a", "1")])

    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "m"
    assert sdb.get_attributes(DomainName=name, ItemName="i")["Attributes"] == [attribute("a", "1")]


def test_a_reset_deletes_all_domains(make_server):
    server = make_server()
    sdb = sdk_client(server, service="sdb")
    sdb.create_domain(DomainName="gone")

    assert server.http("POST", "/_localstack/state/reset")[0] == 200

    assert "DomainNames" not in sdb.list_domains()
