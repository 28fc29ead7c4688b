"""`millrace domain`: SimpleDB's domains and items."""

import json

import pytest


@pytest.fixture
def domain(millrace, new_name):
    name = new_name("cli")
    assert millrace("domain", "create", name).stdout == f"{name}\n"
    yield name
    millrace("domain", "delete", name, "--yes")


def test_domains_are_listed_and_shown(millrace, lines, domain):
    millrace("domain", "put", domain, "i", "a=1", "a=2", "b=x=y")

    rows = [line.split() for line in lines("domain", "list")]
    assert rows[0] == ["NAME", "ITEMS", "VALUES"]
    assert [domain, "1", "3"] in rows
    shown = dict(line.split() for line in lines("domain", "show", domain)[1:])
    assert (shown["ItemCount"], shown["AttributeNameCount"]) == ("1", "2")


def test_items_are_put_and_selected(millrace, lines, domain):
    millrace("domain", "put", domain, "i", "a=1", "a=2", "b=x=y")
    millrace("domain", "put", domain, "j", "a=3", "--if-absent", "a")
    refused = millrace("domain", "put", domain, "j", "a=4", "--if-absent", "a", expect=1)
    assert "ConditionalCheckFailed" in refused.stderr
    millrace("domain", "put", domain, "j", "a=4", "--replace", "--if-value", "a=3")

    query = f"select * from `{domain}` where a > '0' order by a"
    assert [line.split() for line in lines("domain", "select", query)] == [
        ["ITEM", "a", "b"], ["i", "1,", "2", "x=y"], ["j", "4"],
    ]
    found = [json.loads(line) for line in lines("domain", "select", query, "--json")]
    assert found == [
        {"name": "i", "attributes": {"a": ["1", "2"], "b": ["x=y"]}}, {"name": "j", "attributes": {"a": ["4"]}},
    ]
    wrong = millrace("domain", "select", "select", expect=1)
    assert "InvalidQueryExpression" in wrong.stderr


def test_csv_goes_in_and_out(millrace, domain, tmp_path):
    rows = [f"2009-07-{day:02},JAVA,{day}.20,\"{day},000\"" for day in range(1, 31)]
    prices = tmp_path / "prices.csv"
    prices.write_text("\n".join(["Date,Ticker,Close,Volume", *rows]) + "\n")

    wrong = millrace("domain", "import", domain, str(prices), "--csv", "--item", "Date", expect=2)
    assert "columns stand in braces: {Date}" in wrong.stderr
    done = millrace("domain", "import", domain, str(prices), "--csv", "--item", "{Date}_{Ticker}")
    assert "30 items put" in done.stderr
    out = tmp_path / "out.csv"
    millrace("domain", "export", domain, "--columns", "Date,Ticker,Close,Volume", "--output", str(out))

    head, *lines = out.read_text().splitlines()
    assert head == "item,Date,Ticker,Close,Volume"
    assert sorted(lines) == [f"{row[:10]}_JAVA,{row}" for row in rows]


def test_lines_of_json_go_in_and_out(millrace, lines, domain):
    items = [{"name": f"i{n}", "attributes": {"n": [str(n)], "\u00e4": ["1", "\u0001"]}} for n in range(60)]
    items.append({"name": "i0", "attributes": {"more": ["x"]}})
    stdin = "\n".join(json.dumps(item) for item in items)

    assert "61 items put" in millrace("domain", "import", domain, stdin=stdin).stderr
    found = {item["name"]: item["attributes"] for item in map(json.loads, lines("domain", "export", domain))}

    assert len(found) == 60
    assert found["i0"] == {"n": ["0"], "\u00e4": ["\u0001", "1"], "more": ["x"]}
    broken = millrace("domain", "import", domain, stdin='{"name":"a","attributes":{}}\nx', expect=1)
    assert "line 2" in broken.stderr


def test_all_pages_are_printed_on_demand(millrace, lines, domain):
    stdin = "\n".join(json.dumps({"name": f"i{n:03}", "attributes": {"a": "1"}}) for n in range(150))
    millrace("domain", "import", domain, stdin=stdin)
    query = f"select itemName() from `{domain}`"

    first = millrace("domain", "select", query, "--json")
    assert len(first.stdout.splitlines()) == 100 and "--all" in first.stderr
    assert len(lines("domain", "select", query, "--json", "--all")) == 150


def test_nothing_is_deleted_unasked(millrace, domain):
    refused = millrace("domain", "delete", domain, expect=2)
    assert "--yes" in refused.stderr
    assert "NoSuchDomain" in millrace("domain", "show", "no-such-domain", expect=1).stderr
