"""What puts and deletes make of items: sets of values, their order, conditions, figures."""

import concurrent.futures
import threading

import pytest

from support.simpledb import batch, pairs
from support.wire import ApiError


def refused(call, *arguments, **options) -> str:
    with pytest.raises(ApiError) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_puts_add_values_and_replace_those_of_before(db, domain):
    db.put(domain, "i", {"a": "1", "b": "x"})
    db.put(domain, "i", {"a": "2"})
    assert db.get(domain, "i") == [("a", "1"), ("a", "2"), ("b", "x")]

    db.put(domain, "i", {"a": ["3", "4", "5"]}, replace=True)

    assert db.get(domain, "i") == [("a", "3"), ("a", "4"), ("a", "5"), ("b", "x")]
    mixed = pairs({"a": "6"}, replace=True) | pairs({"b": "y"}, start=2)
    db.call("PutAttributes", {"DomainName": domain, "ItemName": "i"} | mixed)
    assert db.get(domain, "i") == [("a", "6"), ("b", "x"), ("b", "y")]


def test_values_are_in_the_order_of_their_bytes_and_names_in_that_of_insertion(db, domain):
    db.put(domain, "i", {"name": ["Franz", "Louis", "John", "Li"], "a": ["9", "10", "11"]})
    db.put(domain, "i", {"a": "\u00e9", "name": "\U0001f600"})
    db.put(domain, "i", {"name": "\uffee", "0": ""})

    assert db.get(domain, "i") == [
        *[("name", value) for value in ("Franz", "John", "Li", "Louis", "\uffee", "\U0001f600")],
        *[("a", value) for value in ("10", "11", "9", "\u00e9")],
        ("0", ""),
    ]


def test_a_put_that_is_made_again_changes_nothing(db, domain):
    db.put(domain, "i", [("a", "1"), ("a", "1"), ("b", "2")])
    before = db.metadata(domain)
    db.put(domain, "i", [("a", "1"), ("a", "1"), ("b", "2")])

    assert db.get(domain, "i") == [("a", "1"), ("b", "2")]
    assert before | {"Timestamp": 0} == db.metadata(domain) | {"Timestamp": 0}


def test_deletes_take_pairs_names_and_whole_items(db, domain):
    db.put(domain, "i", {"a": ["1", "2"], "b": ["1", "2"], "c": "1"})

    db.delete(domain, "i", [("a", "1"), ("a", "9"), ("none", "1")])
    assert db.get(domain, "i") == [("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")]
    db.delete(domain, "i", [("b", None)])
    assert db.get(domain, "i") == [("a", "2"), ("c", "1")]
    db.delete(domain, "i", [("a", "2"), ("c", None)])
    assert db.get(domain, "i") == []
    assert db.count(domain) == 0, "an item without attributes does not exist"
    db.delete(domain, "i")
    db.put(domain, "i", {"z": "1", "a": "1"})
    db.delete(domain, "i")
    assert db.metadata(domain)["AttributeNameCount"] == 0


def test_batches_delete_in_each_way(db, domain):
    db.batch_put(domain, [(name, {"a": ["1", "2"], "b": "1"}) for name in ("x", "y", "z")])

    db.call("BatchDeleteAttributes", batch(domain, [("x", []), ("y", [("a", None)]), ("z", [("a", "2")])]))

    assert [db.get(domain, name) for name in ("x", "y", "z")] == [[], [("b", "1")], [("a", "1"), ("b", "1")]]


def test_figures_are_those_of_what_is_there(db, domain):
    db.put(domain, "it\u00e9m", {"n\u00e4me": ["1", "22"], "b": ""})
    db.put(domain, "j", {"b": ["333"]})

    def figures():
        shown = db.metadata(domain)
        assert shown.pop("Timestamp") > 1_700_000_000
        return tuple(shown.values())

    assert figures() == (2, 6, 2, 6, 4, 6)
    db.put(domain, "j", {"b": "4"}, replace=True)
    assert figures() == (2, 6, 2, 6, 4, 4)
    db.delete(domain, "it\u00e9m")
    assert figures() == (1, 1, 1, 1, 1, 1)
    db.delete(domain, "j")
    assert figures() == (0, 0, 0, 0, 0, 0)


def test_a_domain_that_is_made_again_is_empty(db, domain):
    db.put(domain, "i", {"a": "1"})
    db.create(domain)
    assert db.get(domain, "i") == [("a", "1")]

    db.call("DeleteDomain", {"DomainName": domain})
    assert refused(db.get, domain, "i") == "NoSuchDomain"
    db.create(domain)

    assert db.get(domain, "i") == []
    assert db.metadata(domain)["ItemCount"] == 0


def test_conditions(db, domain):
    db.put(domain, "i", {"a": "1"}, expected={"Name": "a", "Exists": "false"})
    assert refused(db.put, domain, "i", {"b": "1"}, expected={"Name": "a", "Exists": "false"}) == (
        "ConditionalCheckFailed"
    )
    db.put(domain, "i", {"a": "2"}, replace=True, expected={"Name": "a", "Value": "1", "Exists": "true"})
    assert refused(db.put, domain, "i", {"a": "3"}, expected={"Name": "a", "Value": "1"}) == "ConditionalCheckFailed"
    assert refused(db.put, domain, "new", {"a": "3"}, expected={"Name": "a", "Value": "1"}) == "AttributeDoesNotExist"
    assert db.get(domain, "i") == [("a", "2")]
    db.put(domain, "i", {"a": "3"})
    assert refused(db.delete, domain, "i", expected={"Name": "a", "Value": "2"}) == "MultiValuedAttribute"
    assert refused(db.delete, domain, "i", expected={"Name": "a", "Exists": "false"}) == "ConditionalCheckFailed"
    db.delete(domain, "i", [("a", "3")])
    db.delete(domain, "i", expected={"Name": "a", "Value": "2"})
    assert db.get(domain, "i") == []
    db.delete(domain, "i", expected={"Name": "a", "Exists": "false"})


def test_of_writers_that_race_one_wins(db, domain):
    """A counter that each raises by one, if nobody else did in between."""
    writers, rounds = 8, 12
    db.put(domain, "counter", {"n": "000"})
    start = threading.Barrier(writers)

    def write() -> int:
        start.wait()
        won = 0
        while won < rounds:
            [(_, seen)] = db.get(domain, "counter")
            try:
                new = {"n": f"{int(seen) + 1:03}"}
                db.put(domain, "counter", new, replace=True, expected={"Name": "n", "Value": seen})
                won += 1
            except ApiError as error:
                assert error.code == "ConditionalCheckFailed", error
        return won

    with concurrent.futures.ThreadPoolExecutor(writers) as pool:
        won = sum(future.result() for future in [pool.submit(write) for _ in range(writers)])

    assert won == writers * rounds
    assert db.get(domain, "counter") == [("n", f"{won:03}")]


def test_the_largest_texts_are_taken(db, domain):
    text = "\u00e9" * 512
    db.put(domain, text, {text: [text, ""]})
    assert db.get(domain, text, text) == [(text, ""), (text, text)]
    assert db.select(f"select * from `{domain}`").names == [text]


def test_figures_for_prometheus(make_server):
    from support.simpledb import SimpleDb

    server = make_server()
    db = SimpleDb(server.endpoint)
    for name in ("one", "two"):
        db.create(name)
    assert refused(db.get, "none", "i") == "NoSuchDomain"

    text = server.get("/metrics")[1].decode()

    assert "millrace_simpledb_domains 2\n" in text
    succeeded = 'millrace_requests_total{service="simpledb",action="CreateDomain",outcome="success"} 2'
    assert succeeded in text
    assert 'service="simpledb",action="GetAttributes",outcome="client_error"} 1' in text
