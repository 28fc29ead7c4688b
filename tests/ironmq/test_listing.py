"""Lists of queues, by name in version 3 and by page in version 1."""

import pytest

from support.ironmq import Queue


@pytest.fixture
def named(iron):
    def create(names):
        for name in names:
            Queue(iron, name).create()

    return create


def names(iron, query="") -> list[str]:
    return [queue["name"] for queue in iron.call("GET", query)["queues"]]


def test_queues_are_listed_by_name(iron, named):
    named(["b", "a", "C", "a1", "ü"])

    assert names(iron) == sorted(["b", "a", "C", "a1", "ü"], key=str.encode)


def test_thirty_a_page_unless_asked_otherwise(iron, named):
    all_names = [f"q{n:03}" for n in range(35)]
    named(all_names)

    assert names(iron) == all_names[:30]
    assert names(iron, "?per_page=100") == all_names
    assert names(iron, f"?previous={all_names[29]}") == all_names[30:]


def test_pages_go_on_behind_a_name(iron, named):
    named("a" * n for n in range(1, 9))

    assert names(iron, "?previous=aa&per_page=4") == ["a" * n for n in range(3, 7)]
    assert names(iron, "?previous=aaaaaaaa") == []


def test_the_name_need_not_exist(iron, named):
    named(["a", "c", "e"])

    assert names(iron, "?previous=b") == ["c", "e"]
    assert names(iron, "?previous=z") == []


def test_a_prefix_filters(iron, named):
    named(["abba", "abbca", "abbcb", "abbcd", "abbdd"])

    assert names(iron, "?prefix=abbc") == ["abbca", "abbcb", "abbcd"]
    assert names(iron, "?prefix=abbc&per_page=1") == ["abbca"]
    assert names(iron, "?prefix=abbc&previous=abbca") == ["abbcb", "abbcd"]
    assert names(iron, "?prefix=abbc&previous=a") == ["abbca", "abbcb", "abbcd"]
    assert names(iron, "?prefix=x") == []


def test_queries_are_decoded(iron, named):
    named(["a b", "a+b", "a&b"])

    assert names(iron, "?prefix=a%20b") == names(iron, "?prefix=a+b") == ["a b"]
    assert names(iron, "?prefix=a%2Bb") == ["a+b"]
    assert names(iron, "?prefix=a%26") == ["a&b"]


def test_a_page_number_is_ignored(iron, named):
    named(["a", "b"])

    assert names(iron, "?page=1&per_page=30") == ["a", "b"]


@pytest.mark.parametrize("per_page", [-1, 1.5, "x"])
def test_a_page_has_a_number_of_queues(iron, refused, per_page):
    with refused(400):
        iron.call("GET", f"?per_page={per_page}")


def test_a_page_has_a_hundred_at_most(iron, iron1, named):
    all_names = [f"q{n:03}" for n in range(105)]
    named(all_names)

    assert names(iron, "?per_page=1000") == all_names[:100]
    assert len(iron1.call("GET", "?per_page=1000")) == 100


def test_pages_by_number_in_version_1(iron1, named):
    all_names = [f"q{n:03}" for n in range(35)]
    named(all_names)

    def page(query=""):
        return [queue["name"] for queue in iron1.call("GET", query)]

    assert page() == page("?page=0") == all_names[:30]
    assert page("?page=1") == all_names[30:]
    assert page("?page=2") == []
    assert page("?page=3&per_page=10") == all_names[30:]
    assert page("?per_page=100") == all_names


@pytest.mark.parametrize("query", ["?page=-1", "?page=101", "?per_page=x"])
def test_pages_have_bounds_in_version_1(iron1, refused, query):
    with refused(400):
        iron1.call("GET", query)
