"""The data of the developer guide and many queries on it, through the real binary: `corpus.json`.

Each query has what is expected: `items` (`in_order`: in that order), a `count`, or an `error`."""

import json
from pathlib import Path

import pytest

from support.server import Server
from support.simpledb import SimpleDb
from support.wire import ApiError

CORPUS = json.loads((Path(__file__).parent / "corpus.json").read_text())


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("corpus")).start()
    db = SimpleDb(server.endpoint)
    db.create(CORPUS["domain"])
    for item in CORPUS["items"]:
        db.put(CORPUS["domain"], item["name"], item["attributes"])
    yield db
    server.close()


@pytest.mark.parametrize("query", CORPUS["queries"], ids=[query["expression"] for query in CORPUS["queries"]])
def test_query(guide, query):
    expression = query["expression"]
    if "error" in query:
        with pytest.raises(ApiError) as refused:
            guide.select(expression)
        assert refused.value.code == query["error"]
        return
    page = guide.select(expression)
    if "count" in query:
        assert page.items == [("Domain", [("Count", str(query["count"]))])]
        return
    names, expected = page.names, query["items"]
    assert names == expected if query.get("in_order") else sorted(names) == sorted(expected)
    assert page.token is None or "limit" in expression.lower()
