"""A run that was recorded against the real service, by its client for PHP: 105 batches of 25 items,
their count, pages and tokens, the order of values, conditions, and what each answer reported as
used. Indices begin at 0, as that client's do."""

import pytest

from support.wire import ApiError

WHOLE = "0.0000219907"


@pytest.fixture(scope="module")
def loaded(db):
    name = db.create("recorded")
    for first in range(0, 2625, 25):
        items = [
            (f"Item{n}", {"a1": str(n), "a2": str(2 * n), "a3": str(3 * n)}) for n in range(first, first + 25)
        ]
        assert db.batch_put(name, items, start=0) == "0.0003849317"
    yield name
    db.call("DeleteDomain", {"DomainName": name})


def test_count_and_pages(db, loaded):
    counted = db.select(f"select count(*) from `{loaded}`")
    assert (counted.items, counted.token) == ([("Domain", [("Count", "2625")])], None)
    assert counted.usage == "0.0000434338"

    page = db.select(f"select itemName() from `{loaded}`")
    assert (len(page.items), page.usage, bool(page.token)) == (100, "0.0000148000", True)
    page = db.select(f"select itemName() from `{loaded}` limit 2500")
    assert (len(page.items), page.usage, bool(page.token)) == (2500, "0.0000340000", True)
    rest = db.select(f"select itemName() from `{loaded}` limit 2500", page.token)
    assert (len(rest.items), rest.token) == (125, None)
    assert {*page.names, *rest.names} == {f"Item{n}" for n in range(2625)}


def test_the_limit_of_a_token_may_change(db, loaded):
    """That client makes of `limit 2502` a page of 2,500 and one of 2."""
    page = db.select(f"select itemName() from `{loaded}` limit 2500")
    two = db.select(f"select itemName() from `{loaded}` limit 2", page.token)

    assert (len(two.items), two.usage, bool(two.token)) == (2, "0.0000140160", True)
    rest = db.select(f"select itemName() from `{loaded}`", two.token)
    assert (len(rest.items), bool(rest.token)) == (100, True)
    assert not {*page.names} & {*two.names, *rest.names}


def test_a_page_has_2500_items_at_most(db, loaded):
    with pytest.raises(ApiError) as refused:
        db.select(f"select itemName() from `{loaded}` limit 2501")
    assert (refused.value.code, refused.value.status) == ("InvalidParameterValue", 400)


def test_26_items_are_too_many(db, loaded):
    with pytest.raises(ApiError) as refused:
        db.batch_put(loaded, [(f"x{n}", {"a": "1"}) for n in range(26)], start=0)
    error = refused.value
    assert (error.code, error.status) == ("NumberSubmittedItemsExceeded", 409)
    assert error.message == "Too many items in a single call. Up to 25 items per call allowed."


def test_24_values_are_too_many(db, loaded):
    values = ", ".join(f"'{n}'" for n in range(24))
    with pytest.raises(ApiError) as refused:
        db.select(f"select * from `{loaded}` where a1 in ({values})")
    error = refused.value
    assert (error.code, error.status) == ("InvalidNumberValueTests", 400)
    assert error.message == "Too many value tests per predicate in the query expression."
    assert "<BoxUsage>0.0000137200</BoxUsage>" in error.answer.text


def test_put_append_replace(db, domain):
    assert db.put(domain, "Item1", {"a1": "1"}) == "0.0000219909"
    db.put(domain, "Item1", {"a1": "2"})
    assert db.get(domain, "Item1") == [("a1", "1"), ("a1", "2")]

    names = ["Franz", "Louis", "John", "Li"]
    assert db.put(domain, "Item2", {"name": names}, replace=True) == "0.0000220035"
    assert db.get(domain, "Item2") == [("name", name) for name in ("Franz", "John", "Li", "Louis")]
    numbers = {"n": ["9", "10", "11"]}
    assert db.put(domain, "Item2", numbers) == "0.0000219961"
    assert db.get(domain, "Item2", "n") == [("n", "10"), ("n", "11"), ("n", "9")]


def test_conditions(db, domain):
    db.put(domain, "Item1", {"a1": "7"}, expected={"0.Name": "a1", "0.Exists": "false"})
    with pytest.raises(ApiError) as refused:
        db.put(domain, "Item1", {"a1": "8"}, expected={"0.Name": "a1", "0.Value": "6"})
    assert refused.value.message == "Conditional check failed. Attribute (a1) value is (7) but was expected (6)"
    assert f"<BoxUsage>{WHOLE}</BoxUsage>" in refused.value.answer.text
    assert db.put(domain, "Item1", {"a1": "8"}, replace=True, expected={"0.Name": "a1", "0.Value": "7"}) == (
        "0.0000219909"
    )
    assert db.delete(domain, "Item1", expected={"0.Name": "a1", "0.Value": "8"}) == WHOLE
    assert db.get(domain, "Item1") == []
