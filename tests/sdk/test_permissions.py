"""AddPermission and RemovePermission: they edit the queue's policy."""

import json

import pytest

from support.expect import refused

GIVEN = {"Label": "L", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}


def add(api, url, label="share", accounts=("111111111111",), actions=("ReceiveMessage",)):
    api.call("AddPermission", QueueUrl=url, Label=label, AWSAccountIds=list(accounts), Actions=list(actions))


def policy(api, url):
    names = ["Policy"]
    got = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names).get("Attributes")
    return json.loads(got["Policy"]) if got else None


def arn(api, url):
    names = ["QueueArn"]
    return api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]["QueueArn"]


def test_first_permission_makes_the_policy(api, url):
    add(api, url)

    assert policy(api, url) == {
        "Version": "2008-10-17",
        "Id": f"{arn(api, url)}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "share",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
                "Action": "SQS:ReceiveMessage",
                "Resource": arn(api, url),
            }
        ],
    }


def test_several_accounts_and_actions_are_lists(api, url):
    add(api, url, "many", ["111111111111", "222222222222"], ["SendMessage", "ReceiveMessage"])

    (statement,) = policy(api, url)["Statement"]
    accounts = statement["Principal"]["AWS"]
    assert sorted(accounts) == [f"arn:aws:iam::{n * 12}:root" for n in "12"]
    assert sorted(statement["Action"]) == ["SQS:ReceiveMessage", "SQS:SendMessage"]


LEGAL_ACTIONS = [
    "*",
    "SendMessage",
    "ReceiveMessage",
    "DeleteMessage",
    "ChangeMessageVisibility",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "PurgeQueue",
]


@pytest.mark.parametrize("action", LEGAL_ACTIONS)
def test_legal_action(api, url, action):
    add(api, url, actions=[action])

    (statement,) = policy(api, url)["Statement"]
    assert statement["Action"] == f"SQS:{action}"


def test_second_label_adds_a_statement_and_removal_takes_it_back(api, url):
    add(api, url, "one")
    add(api, url, "two", actions=["SendMessage"])
    assert [s["Sid"] for s in policy(api, url)["Statement"]] == ["one", "two"]

    api.call("RemovePermission", QueueUrl=url, Label="one")
    assert [s["Sid"] for s in policy(api, url)["Statement"]] == ["two"]

    api.call("RemovePermission", QueueUrl=url, Label="two")
    assert policy(api, url) is None


def test_same_label_is_refused(api, url):
    add(api, url, "L")

    words = "Value L for parameter Label is invalid. Reason: Already exists."
    given = GIVEN | {"AWSAccountIds": ["222222222222"]}
    refused(api, "AddPermission", "InvalidParameterValue", words, QueueUrl=url, **given)


def test_unknown_label_is_refused(api, url):
    error = refused(api, "RemovePermission", "InvalidParameterValue", QueueUrl=url, Label="L")

    assert error.message.startswith("Value L for parameter Label is invalid. Reason: can't find label")


def test_eight_actions_are_too_many(api, url):
    given = GIVEN | {"Actions": LEGAL_ACTIONS[1:]}
    refused(api, "AddPermission", "OverLimit", status=403, QueueUrl=url, **given)


BAD = [
    {"Actions": ["CreateQueue"]},
    {"Actions": ["NoSuchAction"]},
    {"AWSAccountIds": ["123"]},
    {"AWSAccountIds": ["abcdefghijkl"]},
    {"Label": "with space"},
    {"Label": "a" * 81},
]


REASONS = {
    "CreateQueue": "Only the queue owner is allowed to invoke this action.",
    "NoSuchAction": "Please refer to the appropriate WSDL for a list of valid actions.",
}


@pytest.mark.parametrize(("action", "reason"), REASONS.items())
def test_action_that_cannot_be_permitted_says_why(api, url, action, reason):
    given = GIVEN | {"Actions": [action]}
    message = f"Value SQS:{action} for parameter ActionName is invalid. Reason: {reason}"

    refused(api, "AddPermission", "InvalidParameterValue", message, QueueUrl=url, **given)


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_parameter_is_refused(api, url, bad):
    given = GIVEN | bad

    refused(api, "AddPermission", "InvalidParameterValue", QueueUrl=url, **given)
    assert policy(api, url) is None


@pytest.mark.parametrize("accounts", [["12"], ["nobody"]], ids=str)
def test_account_that_is_none_is_shown(api, url, accounts):
    words = f"Value [{accounts[0]}] for parameter PrincipalId is invalid. Reason: Unable to verify."
    given = GIVEN | {"AWSAccountIds": accounts}

    refused(api, "AddPermission", "InvalidParameterValue", words, QueueUrl=url, **given)


def test_an_empty_list_of_accounts_is_shown(json_api, queue):
    words = "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify."
    given = GIVEN | {"AWSAccountIds": []}

    refused(json_api, "AddPermission", "InvalidParameterValue", words, QueueUrl=queue(), **given)


def test_members_of_a_generated_policy_have_amazons_order(api, url):
    add(api, url, "L")
    add(api, url, "M")
    api.call("RemovePermission", QueueUrl=url, Label="M")

    names = ["Policy"]
    text = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]["Policy"]
    policy = json.loads(text)
    assert list(policy) == ["Version", "Id", "Statement"]
    assert list(policy["Statement"][0]) == ["Sid", "Effect", "Principal", "Action", "Resource"]


def test_a_policy_that_a_client_set_is_kept_as_it_is(api, url):
    text = '{"Statement": [{"Resource":"*", "Action":"sqs:*", "Principal":"*", "Effect":"Allow"}]}'
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": text})

    got = api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["Policy"])
    assert got["Attributes"]["Policy"] == text


def test_a_statement_of_a_policy_has_at_most_seven_actions(api, url):
    statement = {"Effect": "Allow", "Principal": "*", "Action": ["sqs:SendMessage"] * 10, "Resource": "*"}
    words = "10 actions were found in a statement from the submitted policy, max allowed is 7"
    given = {"Attributes": {"Policy": json.dumps({"Statement": [statement]})}}

    refused(api, "SetQueueAttributes", "OverLimit", words, 403, QueueUrl=url, **given)


@pytest.mark.parametrize("missing", ["Label", "AWSAccountIds", "Actions"])
def test_every_parameter_is_needed(api, url, missing):
    given = {name: value for name, value in GIVEN.items() if name != missing}

    refused(api, "AddPermission", "MissingParameter", QueueUrl=url, **given)


def test_a_policy_has_at_most_20_statements(api, url):
    for number in range(20):
        add(api, url, f"label{number}")

    given = GIVEN | {"Label": "one-more"}
    refused(api, "AddPermission", "OverLimit", status=403, QueueUrl=url, **given)
    assert len(policy(api, url)["Statement"]) == 20
