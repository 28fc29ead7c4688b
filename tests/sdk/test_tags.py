"""Queue tags."""

import pytest

from support.expect import refused


def tags(api, url):
    return api.call("ListQueueTags", QueueUrl=url).get("Tags")


ROUND_TRIPS = [
    {"a": "1"},
    {"empty": ""},
    {"case": "1", "CASE": "2"},
    {"k" * 128: "v" * 256},
    {"\u00e9\u5b57": "\u0434\u0661"},
    {"a b+c-d=e._:/@": "+ -=._:/@"},
    {f"key{n}": f"value{n}" for n in range(50)},
]


@pytest.mark.parametrize("given", ROUND_TRIPS, ids=range(len(ROUND_TRIPS)))
def test_tags_round_trip(api, url, new_name, given):
    created = api.call("CreateQueue", QueueName=new_name(), tags=given)["QueueUrl"]
    api.call("TagQueue", QueueUrl=url, Tags=given)

    assert tags(api, created) == tags(api, url) == given


def test_tagging_overwrites_and_adds(api, url):
    api.call("TagQueue", QueueUrl=url, Tags={"a": "1", "b": "2"})

    api.call("TagQueue", QueueUrl=url, Tags={"b": "3", "c": "4"})

    assert tags(api, url) == {"a": "1", "b": "3", "c": "4"}


def test_untagging_unknown_keys_is_fine(api, url):
    api.call("TagQueue", QueueUrl=url, Tags={"a": "1", "b": "2"})

    api.call("UntagQueue", QueueUrl=url, TagKeys=["a", "unknown"])

    assert tags(api, url) == {"b": "2"}


def test_queue_without_tags_has_no_tags_member(api, url):
    assert tags(api, url) is None


BAD = [
    {"k" * 129: "v"},
    {"k": "v" * 257},
    {"aws:reserved": "v"},
    {f"key{n}": "v" for n in range(51)},
    {"a\u0001": "v"},
    {"a": "v\u0001"},
    {"a!": "v"},
    {"\u2603": "v"},
    {"a": "<>"},
]


@pytest.mark.parametrize("given", BAD, ids=range(len(BAD)))
def test_bad_tags_are_refused(api, url, given):
    refused(api, "TagQueue", "InvalidParameterValue", QueueUrl=url, Tags=given)
    assert tags(api, url) is None


def test_tags_and_keys_are_needed(api, url):
    for action, nothing in [("TagQueue", {"Tags": {}}), ("UntagQueue", {})]:
        refused(api, action, "MissingParameter", QueueUrl=url, **nothing)


def test_a_value_may_not_be_null(json_api, queue, new_name):
    words = "the parameter 'value' may not be null"
    given = {"a": "1", "b": None}
    url = queue()

    refused(json_api, "TagQueue", "InvalidParameterValue", words, QueueUrl=url, Tags=given)
    assert tags(json_api, url) is None
    refused(json_api, "CreateQueue", "InvalidParameterValue", words, QueueName=new_name(), tags=given)


def test_keys_have_a_length(api, url):
    words = "Tag keys must be between 1 and 128 characters in length."
    refused(api, "TagQueue", "InvalidParameterValue", words, QueueUrl=url, Tags={"": "v"})
    for keys in ([""], ["k" * 129]):
        refused(api, "UntagQueue", "InvalidParameterValue", words, QueueUrl=url, TagKeys=keys)


def test_an_empty_list_of_keys_is_refused(json_api, queue):
    words = "Tag keys must be between 1 and 128 characters in length."

    refused(json_api, "UntagQueue", "InvalidParameterValue", words, QueueUrl=queue(), TagKeys=[])


def test_tags_in_all_are_counted(api, url):
    api.call("TagQueue", QueueUrl=url, Tags={f"key{n}": "v" for n in range(50)})
    api.call("TagQueue", QueueUrl=url, Tags={"key0": "w"})

    words = f"Too many tags added for queue {url.rpartition('/')[2]}."
    refused(api, "TagQueue", "InvalidParameterValue", words, QueueUrl=url, Tags={"one-more": "v"})


def test_tags_of_a_second_create_do_not_matter(api, new_name):
    name = new_name()
    url = api.call("CreateQueue", QueueName=name, tags={"a": "1"})["QueueUrl"]

    assert api.call("CreateQueue", QueueName=name, tags={"a": "2"})["QueueUrl"] == url
