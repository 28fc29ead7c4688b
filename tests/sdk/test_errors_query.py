"""The Query protocol: XML of successes and errors, parameter forms, malformed requests."""

import urllib.parse

import pytest

from support.expect import NO_QUEUE
from support.wire import FORM_TYPE, XML_NAMESPACE, parse_result, request, xml_error


def form(server, parameters, path="/", method="POST", **headers):
    text = parameters if isinstance(parameters, str) else urllib.parse.urlencode(parameters)
    if method == "GET":
        return request(server.endpoint, "GET", f"{path}?{text}", headers=headers)
    return request(server.endpoint, "POST", path, text, {"Content-Type": FORM_TYPE} | headers)


def test_error_is_the_xml_of_sqs(server):
    answer = form(server, {"Action": "GetQueueUrl", "Version": "2012-11-05", "QueueName": "none"})
    root = answer.xml()

    assert answer.status == 400
    assert answer.text.startswith('<?xml version="1.0"?>')
    assert answer.headers["Content-Type"].startswith("text/xml")
    assert root.tag == f"{{{XML_NAMESPACE}}}ErrorResponse"
    assert [child.tag.rpartition("}")[2] for child in root] == ["Error", "RequestId"]
    error = root.find("{*}Error")
    assert [child.tag.rpartition("}")[2] for child in error] == ["Type", "Code", "Message", "Detail"]
    assert error.findtext("{*}Type") == "Sender"
    assert error.findtext("{*}Code") == NO_QUEUE
    assert error.findtext("{*}Message") == "The specified queue does not exist for this wsdl version."
    assert root.findtext("{*}RequestId") == answer.headers["x-amzn-RequestId"]


def test_success_is_the_xml_of_sqs(server, queue):
    url = queue()
    answer = form(server, {"Action": "SendMessage", "QueueUrl": url, "MessageBody": "x"})
    root = answer.xml()

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/xml")
    assert root.tag == f"{{{XML_NAMESPACE}}}SendMessageResponse"
    assert root.findtext("{*}ResponseMetadata/{*}RequestId") == answer.headers["x-amzn-RequestId"]


def test_void_action_has_no_result_element(server, queue):
    answer = form(server, {"Action": "DeleteQueue", "Version": "2012-11-05", "QueueUrl": queue()})

    assert [child.tag.rpartition("}")[2] for child in answer.xml()] == ["ResponseMetadata"]


def test_empty_receive_has_an_empty_result(server, queue):
    answer = form(server, {"Action": "ReceiveMessage", "Version": "2012-11-05", "QueueUrl": queue()})

    (result, _) = answer.xml()
    assert result.tag.endswith("}ReceiveMessageResult")
    assert len(result) == 0


def test_quotes_and_returns_are_escaped(server, queue):
    url = queue()
    form(server, {"Action": "SendMessage", "QueueUrl": url, "MessageBody": 'a"\r\n<&>'})

    text = form(server, {"Action": "ReceiveMessage", "QueueUrl": url}).text

    assert "<Body>a&quot;&#xD;\n&lt;&amp;&gt;</Body>" in text.replace("&#xA;", "\n")


def test_unknown_action_is_invalid(server):
    answer = form(server, {"Action": "NoSuchAction", "Version": "2012-11-05"})

    assert (answer.status, xml_error(answer).code) == (400, "InvalidAction")


def test_missing_parameter(server, queue):
    error = xml_error(form(server, {"Action": "SendMessage", "QueueUrl": queue()}))

    assert (error.status, error.code) == (400, "MissingParameter")
    assert error.message == "The request must contain the parameter MessageBody."


NOT_NUMBERS = [
    {"Action": "ReceiveMessage", "MaxNumberOfMessages": "many"},
    {"Action": "ReceiveMessage", "WaitTimeSeconds": "1.5"},
    {"Action": "SendMessage", "MessageBody": "x", "DelaySeconds": "soon"},
]


@pytest.mark.parametrize("given", NOT_NUMBERS, ids=str)
def test_number_that_is_none_is_refused(server, queue, given):
    answer = form(server, {"QueueUrl": queue()} | given)

    assert answer.status == 400
    assert xml_error(answer).code in ("InvalidParameterValue", "MalformedInput")


def received(server, url):
    answer = form(server, {"Action": "ReceiveMessage", "QueueUrl": url, "MessageAttributeName.1": "All"})
    (message,) = parse_result("ReceiveMessage", answer.xml())["Messages"]
    return message


def test_lists_may_have_gaps_and_any_order(server, queue):
    url = queue()
    answer = form(
        server,
        {
            "Action": "SendMessageBatch",
            "QueueUrl": url,
            "SendMessageBatchRequestEntry.7.Id": "second",
            "SendMessageBatchRequestEntry.7.MessageBody": "b",
            "SendMessageBatchRequestEntry.2.MessageBody": "a",
            "SendMessageBatchRequestEntry.2.Id": "first",
        },
    )

    sent = parse_result("SendMessageBatch", answer.xml())["Successful"]
    assert [entry["Id"] for entry in sent] == ["first", "second"]


def test_indexes_sort_as_numbers(server, queue):
    entries = {f"SendMessageBatchRequestEntry.{n}.Id": f"id{n}" for n in range(1, 11)}
    entries |= {f"SendMessageBatchRequestEntry.{n}.MessageBody": "x" for n in range(1, 11)}

    answer = form(server, {"Action": "SendMessageBatch", "QueueUrl": queue()} | entries)

    sent = parse_result("SendMessageBatch", answer.xml())["Successful"]
    assert [entry["Id"] for entry in sent] == [f"id{n}" for n in range(1, 11)]


def test_single_attribute_without_an_index(server, queue, attributes):
    url = queue()

    answer = form(
        server,
        {
            "Action": "SetQueueAttributes",
            "QueueUrl": url,
            "Attribute.Name": "VisibilityTimeout",
            "Attribute.Value": "12",
        },
    )

    assert answer.status == 200
    assert attributes(url, "VisibilityTimeout") == {"VisibilityTimeout": "12"}


def test_empty_list_parameter_counts_as_absent(server, queue):
    answer = form(server, {"Action": "ReceiveMessage", "QueueUrl": queue(), "AttributeName": ""})

    assert answer.status == 200


@pytest.mark.parametrize("text", ["a+b", "a%20b"])
def test_plus_and_percent_are_decoded(server, queue, text):
    url = queue()

    form(server, f"Action=SendMessage&QueueUrl={urllib.parse.quote(url, safe='')}&MessageBody={text}")

    assert received(server, url)["Body"] == "a b"


def test_parameters_in_the_query_string_of_a_post(server, queue):
    url = queue()

    query = urllib.parse.urlencode({"Action": "SendMessage", "QueueUrl": url, "MessageBody": "x"})
    answer = request(server.endpoint, "POST", f"/?{query}", "", {"Content-Type": FORM_TYPE})

    assert answer.status == 200
    assert received(server, url)["Body"] == "x"


@pytest.mark.parametrize("text", ["", "&&&", "Action", "=x", "%zz=%", "Version=2012-11-05"])
def test_request_without_an_action_is_refused(server, text):
    answer = form(server, text)

    assert 400 <= answer.status < 500


def test_unknown_attribute_name(server, queue):
    answer = form(server, {"Action": "GetQueueAttributes", "QueueUrl": queue(), "AttributeName.1": "Foobar"})

    error = xml_error(answer)
    assert (error.status, error.code, error.message) == (
        400,
        "InvalidAttributeName",
        "Unknown Attribute Foobar.",
    )


LISTS = [
    ("ReceiveMessage", {"MessageAttributeNames.member.1": "All"}, "Start of list found where not expected"),
    ("ReceiveMessage", {"AttributeName.0": "All"}, "0 is not a valid index"),
    ("GetQueueAttributes", {"AttributeName.0": "All"}, "0 is not a valid index"),
    (
        "CreateQueue",
        {"QueueName": "no-list", "Attribute.DelaySeconds": "10"},
        "Start of list element found where not expected",
    ),
    ("SetQueueAttributes", {"Attribute": ""}, "End of list found where not expected"),
    (
        "DeleteMessageBatch",
        {"DeleteMessageBatchRequestEntry.member.1.Id": "a"},
        "Start of list element found where not expected",
    ),
]


@pytest.mark.parametrize(("action", "given", "message"), LISTS, ids=str)
def test_malformed_list_is_refused(server, queue, action, given, message):
    error = xml_error(form(server, {"Action": action, "QueueUrl": queue()} | given))

    assert (error.status, error.code, error.message) == (400, "MalformedInput", message)


def test_element_of_a_plural_list_needs_its_name(server, queue):
    given = {"MessageAttributes.1.key": "a", "MessageAttributes.1.value.StringValue": "b", "MessageBody": "x"}

    error = xml_error(form(server, {"Action": "SendMessage", "QueueUrl": queue()} | given))

    assert (error.status, error.code) == (400, "InvalidParameterValue")
    assert error.message == "The request must contain non-empty message attribute name."


def test_unknown_parameters_are_ignored_and_a_single_element_may_lack_its_number(server, queue):
    url = queue()
    attribute = {"MessageAttribute.Name": "a", "MessageAttribute.Value.DataType": "String"}
    attribute |= {"MessageAttribute.Value.StringValue": "v", "Other.x.1": "y", "QueueUrls.0": "z"}
    form(server, {"Action": "SendMessage", "QueueUrl": url, "MessageBody": "x"} | attribute)

    for name in ("MessageAttributeName", "MessageAttributeNames.1"):
        wish = {"Action": "ReceiveMessage", "QueueUrl": url, "VisibilityTimeout": "0", name: "All"}
        (message,) = parse_result("ReceiveMessage", form(server, wish).xml())["Messages"]
        assert message["MessageAttributes"] == {"a": {"DataType": "String", "StringValue": "v"}}
