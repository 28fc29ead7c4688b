"""Every error: code, status, text, and what it reports as used. By POST and by GET."""

import pytest

from support.simpledb import batch, error_of, pairs

LONG = "x" * 1025
ITEM = {"DomainName": "{domain}", "ItemName": "i"}
PUT = ITEM | pairs({"a": "1"})
TOO_LONG = 'Value ("' + LONG + '") for parameter {} is invalid. Value exceeds maximum length of 1024.'
FLAG = "Value (1) for parameter {} is invalid. The {} flag should be either true or false."
WRITE, QUERY = "0.0000219907", "0.0000137200"

# Action, parameters, code, status, text.
CASES = [
    ("CreateDomain", {}, "MissingParameter", 400, "The request must contain the parameter DomainName"),
    *[
        (action, {"DomainName": name}, "InvalidParameterValue", 400,
         f"Value ({name}) for parameter DomainName is invalid. ")
        for action in ("CreateDomain", "DeleteDomain", "DomainMetadata", "GetAttributes", "PutAttributes")
        for name in ("", "ab", "bad:domain:name", "a b c", "d" * 256, "dom\u00e4ne")
    ],
    *[
        (action, parameters | {"DomainName": "no-such-domain"}, "NoSuchDomain", 400,
         "The specified domain does not exist.")
        for action, parameters in [
            ("DomainMetadata", {}),
            ("GetAttributes", {"ItemName": "i"}),
            ("PutAttributes", PUT),
            ("DeleteAttributes", ITEM),
            ("BatchPutAttributes", batch("", [("i", {"a": "1"})])),
            ("BatchDeleteAttributes", batch("", [("i", {"a": "1"})])),
            ("Select", {"SelectExpression": "select * from `no-such-domain`"}),
        ]
    ],
    *[
        (action, {"DomainName": "{domain}"}, "MissingParameter", 400,
         "The request must contain the parameter ItemName")
        for action in ("GetAttributes", "PutAttributes", "DeleteAttributes")
    ],
    ("BatchPutAttributes", {"DomainName": "{domain}", "Item.1.Attribute.1.Name": "a"}, "MissingParameter", 400,
     "The request must contain the parameter ItemName"),
    ("BatchPutAttributes", {"DomainName": "{domain}"}, "MissingParameter", 400,
     "The request must contain the parameter Item"),
    ("PutAttributes", PUT | {"ItemName": ""}, "InvalidParameterValue", 400,
     "Value () for parameter ItemName is invalid. The empty string is an illegal item name"),
    ("PutAttributes", PUT | {"ItemName": LONG}, "InvalidParameterValue", 400,
     f'Value ("{LONG}") for parameter ItemName is invalid. Value exceeds max length of 1024.'),
    ("PutAttributes", ITEM, "MissingParameter", 400, "No attributes for item i"),
    ("PutAttributes", ITEM | {"Attribute.1.Name": "a"}, "MissingParameter", 400,
     "Attribute.Value missing for Attribute.Name='a'"),
    ("PutAttributes", ITEM | {"Attribute.1.Value": "v"}, "MissingParameter", 400,
     "Attribute.Name missing for Attribute.Value='v'"),
    ("DeleteAttributes", ITEM | {"Attribute.1.Value": "v"}, "MissingParameter", 400,
     "Attribute.Name missing for Attribute.Value='v'"),
    ("PutAttributes", ITEM | pairs({"": "1"}), "InvalidParameterValue", 400,
     "Value () for parameter Name is invalid. The empty string is an illegal attribute name"),
    ("PutAttributes", ITEM | pairs({LONG: "1"}), "InvalidParameterValue", 400, TOO_LONG.format("Name")),
    ("PutAttributes", ITEM | pairs({"a": LONG}), "InvalidParameterValue", 400, TOO_LONG.format("Value")),
    ("PutAttributes", PUT | {"Attribute.1.Replace": "1"}, "InvalidParameterValue", 400,
     FLAG.format("Replace", "Replace")),
    ("PutAttributes", PUT | {"Attribute.1.Replace": "True"}, "InvalidParameterValue", 400,
     FLAG.format("Replace", "Replace").replace("(1)", "(True)")),
    ("GetAttributes", ITEM | {"ConsistentRead": "1"}, "InvalidParameterValue", 400,
     FLAG.format("ConsistentRead", "ConsistentRead")),
    ("Select", {"SelectExpression": "select * from `{domain}`", "ConsistentRead": "1"}, "InvalidParameterValue", 400,
     FLAG.format("ConsistentRead", "ConsistentRead")),
    ("PutAttributes", PUT | {"Expected.Name": "a", "Expected.Exists": "1"}, "InvalidParameterValue", 400,
     FLAG.format("Expected.Exists", "Exists")),
    ("PutAttributes", ITEM | pairs([("a", str(n)) for n in range(257)]), "NumberSubmittedAttributesExceeded", 409,
     "Too many attributes for item i in a single call. Up to 256 attributes per call allowed."),
    ("BatchPutAttributes", batch("{domain}", [("j", [("a", str(n)) for n in range(257)])]),
     "NumberSubmittedAttributesExceeded", 409,
     "Too many attributes for item j in a single call. Up to 256 attributes per call allowed."),
    *[
        (action, batch("{domain}", [(f"i{n}", {"a": "1"}) for n in range(26)]), "NumberSubmittedItemsExceeded", 409,
         "Too many items in a single call. Up to 25 items per call allowed.")
        for action in ("BatchPutAttributes", "BatchDeleteAttributes")
    ],
    *[
        (action, batch("{domain}", [("i", {"a": "1"}), ("j", {"a": "1"}), ("i", {"b": "1"})]), "DuplicateItemName",
         400, "Item i was specified more than once.")
        for action in ("BatchPutAttributes", "BatchDeleteAttributes")
    ],
    ("PutAttributes", PUT | {"Expected.Name": "a"}, "IncompleteExpectedValues", 400,
     "If Expected.Exists = True or unspecified, then Expected.Value has to be specified"),
    ("PutAttributes", PUT | {"Expected.Name": "a", "Expected.Exists": "true"}, "IncompleteExpectedValues", 400,
     "If Expected.Exists = True or unspecified, then Expected.Value has to be specified"),
    ("PutAttributes", PUT | {"Expected.Name": "a", "Expected.Value": "1", "Expected.Exists": "false"},
     "ExistsAndExpectedValue", 400, "Expected.Exists=false and Expected.Value cannot be specified together"),
    ("PutAttributes", PUT | {"Expected.Value": "1"}, "MissingParameter", 400,
     "The request must contain the parameter Expected.Name"),
    ("DeleteAttributes", ITEM | {"Expected.1.Name": "a", "Expected.2.Name": "b"}, "MultipleExpectedNames", 400,
     "Only one Expected.Name can be specified"),
    ("PutAttributes", PUT | {"Expected.1.Value": "a", "Expected.2.Value": "b"}, "MultipleExpectedValues", 400,
     "Only one Expected.Value can be specified"),
    ("PutAttributes", PUT | {"Expected.1.Exists": "true", "Expected.2.Exists": "true"}, "MultipleExistsConditions",
     400, "Only one Expected.Exists can be specified"),
    ("PutAttributes", PUT | {"Expected.Name": "no", "Expected.Value": "1"}, "AttributeDoesNotExist", 404,
     "Attribute (no) does not exist"),
    ("PutAttributes", PUT | {"Expected.Name": "seven", "Expected.Value": "6"}, "ConditionalCheckFailed", 409,
     "Conditional check failed. Attribute (seven) value is (7) but was expected (6)"),
    ("DeleteAttributes", ITEM | {"Expected.Name": "seven", "Expected.Exists": "false"}, "ConditionalCheckFailed", 409,
     "Conditional check failed. Attribute (seven) value exists."),
    ("DeleteAttributes", ITEM | {"Expected.Name": "many", "Expected.Value": "1"}, "MultiValuedAttribute", 409,
     "Attribute (many) is multi-valued. Conditional check can only be performed on a single-valued attribute"),
    *[
        ("ListDomains", {"MaxNumberOfDomains": number}, "InvalidParameterValue", 400,
         f"Value ({number}) for parameter MaxNumberOfDomains is invalid. "
         "MaxNumberOfDomains must be between 1 and 100.")
        for number in ("0", "101", "-1", "x", "")
    ],
    ("ListDomains", {"NextToken": "x"}, "InvalidNextToken", 400, "The specified next token is not valid."),
    ("Select", {"SelectExpression": "select * from `{domain}`", "NextToken": "x"}, "InvalidNextToken", 400,
     "The specified next token is not valid."),
    ("Select", {}, "MissingParameter", 400, "The request must contain the parameter SelectExpression"),
    ("GetAttributes", ITEM | {f"AttributeName.{n}": "a" for n in range(257)}, "TooManyRequestedAttributes", 400,
     "Too many attributes requested. Up to 256 attributes per call allowed."),
    ("CreateTable", {}, "InvalidAction", 400, "The action CreateTable is not valid for this web service."),
    ("Query", {}, "FeatureDeprecated", 400, "Query is gone. Use Select instead."),
    (None, {}, "MissingAction", 400, "The request must contain the parameter Action."),
    ("ListDomains", {"Version": "2007-11-07"}, "NoSuchVersion", 400,
     "An incorrect version was specified in the request."),
    ("Select", {"SelectExpression": "select"}, "InvalidQueryExpression", 400,
     "The specified query expression syntax is not valid."),
]
IN_QUERIES = {"InvalidQueryExpression"}


@pytest.fixture(scope="module")
def filled(db):
    name = db.create("errors")
    db.put(name, "i", {"seven": "7", "many": ["1", "2"]})
    return name


def in_domain(parameters, domain):
    return {name: value and value.replace("{domain}", domain) for name, value in parameters.items()}


@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize(
    ("action", "parameters", "code", "status", "text"), CASES, ids=[f"{n}-{case[2]}" for n, case in enumerate(CASES)]
)
def test_refusals(db, filled, action, parameters, code, status, text, verb):
    before = db.metadata(filled)

    answer = db.ask(action, in_domain(parameters, filled), verb=verb)

    error = error_of(answer)
    assert (error.code, error.status, error.message) == (code, status, text)
    assert answer.text.startswith('<?xml version="1.0"?>\n<Response><Errors><Error><Code>')
    used = QUERY if code in IN_QUERIES else WRITE
    assert f"<BoxUsage>{used}</BoxUsage></Error></Errors><RequestID>" in answer.text
    del before["Timestamp"]
    after = db.metadata(filled)
    assert before.items() <= after.items()


def test_a_request_of_more_than_1_mb_is_refused(db, filled):
    answer = db.ask("PutAttributes", ITEM | {"DomainName": filled, "Padding": "x" * (1 << 20)})
    assert answer.status == 413
    assert error_of(answer).code == "RequestEntityTooLarge"


def test_an_item_has_256_pairs_at_most(db, domain):
    db.put(domain, "i", [("a", f"{n:03}") for n in range(256)])
    db.put(domain, "i", {"a": "000"})

    with pytest.raises(Exception) as refused:
        db.put(domain, "i", {"b": "1"})

    assert (refused.value.code, refused.value.status) == ("NumberItemAttributesExceeded", 409)
    assert len(db.get(domain, "i")) == 256
    db.put(domain, "i", {"a": "only"}, replace=True)
    assert db.get(domain, "i") == [("a", "only")]


def test_a_batch_with_one_bad_item_changes_nothing(db, domain):
    db.put(domain, "full", [("a", f"{n:03}") for n in range(256)])

    answer = db.ask("BatchPutAttributes", batch(domain, [("new", {"a": "1"}), ("full", {"b": "1"})]))

    assert error_of(answer).code == "NumberItemAttributesExceeded"
    assert db.get(domain, "new") == []


def test_an_account_has_250_domains_at_most(make_server):
    from support.simpledb import SimpleDb

    db = SimpleDb(make_server().endpoint)
    for number in range(250):
        db.create(f"d{number:03}")

    answer = db.ask("CreateDomain", {"DomainName": "one-more"})

    error = error_of(answer)
    assert (error.code, error.status, error.message) == (
        "NumberDomainsExceeded", 409, "Number of domains limit exceeded.",
    )
    db.create("d000")
    db.call("DeleteDomain", {"DomainName": "d001"})
    db.create("one-more")
