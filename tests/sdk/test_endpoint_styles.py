"""Every way in which clients address a queue: paths, parameters, GET and POST, JSON on paths."""

import json
import urllib.parse

import pytest

from support.expect import NO_QUEUE
from support.wire import FORM_TYPE, JSON_TYPE, parse_result, request, xml_error


@pytest.fixture
def name(new_name):
    return new_name()


@pytest.fixture
def url(json_api, name):
    return json_api.call("CreateQueue", QueueName=name)["QueueUrl"]


@pytest.fixture
def path(url):
    return urllib.parse.urlsplit(url).path


@pytest.fixture
def get(server):
    def ask(path, _headers=None, **parameters):
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        return request(server.endpoint, "GET", path + query, headers=_headers)

    return ask


@pytest.fixture
def post(server):
    def ask(path, **parameters):
        body = urllib.parse.urlencode(parameters)
        return request(server.endpoint, "POST", path, body, {"Content-Type": FORM_TYPE})

    return ask


def bodies(api, url):
    got = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return [message["Body"] for message in got.get("Messages", [])]


class TestWithoutPath:
    def test_get_list_queues(self, get, name, url):
        answer = get("/", Action="ListQueues", QueueNamePrefix=name)

        assert answer.status == 200
        assert parse_result("ListQueues", answer.xml()) == {"QueueUrls": [url]}

    def test_get_create_queue(self, get, server, new_name):
        name = new_name()

        answer = get("/", Action="CreateQueue", QueueName=name, Version="2012-11-05")

        created = parse_result("CreateQueue", answer.xml())
        assert created == {"QueueUrl": f"{server.endpoint}/000000000000/{name}"}

    def test_post_with_queue_url(self, post, json_api, url):
        answer = post("/", Action="SendMessage", Version="2012-11-05", QueueUrl=url, MessageBody="x")

        assert answer.status == 200
        assert bodies(json_api, url) == ["x"]


class TestQueuePath:
    def test_post_needs_no_queue_url(self, post, json_api, url, path):
        answer = post(path, Action="SendMessage", Version="2012-11-05", MessageBody="x")

        assert answer.status == 200
        assert bodies(json_api, url) == ["x"]

    def test_get_main_job(self, get, json_api, url, path):
        sent = get(path, Action="SendMessage", MessageBody="x")
        received = get(path, Action="ReceiveMessage", VisibilityTimeout=30)
        (message,) = parse_result("ReceiveMessage", received.xml())["Messages"]
        deleted = get(path, Action="DeleteMessage", ReceiptHandle=message["ReceiptHandle"])

        assert (sent.status, received.status, deleted.status) == (200, 200, 200)
        assert message["Body"] == "x"
        names = ["ApproximateNumberOfMessagesNotVisible"]
        left = json_api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=names)
        assert left["Attributes"][names[0]] == "0"

    def test_get_queue_attributes(self, get, path, name):
        answer = get(path, Action="GetQueueAttributes", **{"AttributeName.1": "QueueArn"})

        got = parse_result("GetQueueAttributes", answer.xml())["Attributes"]
        assert got == {"QueueArn": f"arn:aws:sqs:us-east-1:000000000000:{name}"}

    def test_get_queue_url_even_of_another_queue(self, get, json_api, path, new_name):
        other = new_name()
        other_url = json_api.call("CreateQueue", QueueName=other)["QueueUrl"]

        answer = get(path, Action="GetQueueUrl", QueueName=other)

        assert parse_result("GetQueueUrl", answer.xml()) == {"QueueUrl": other_url}

    def test_get_delete_queue(self, get, json_api, path, name):
        assert get(path, Action="DeleteQueue").status == 200

        assert json_api.call("ListQueues", QueueNamePrefix=name) == {}

    def test_parameter_wins_over_path(self, post, json_api, path, new_name):
        other = json_api.call("CreateQueue", QueueName=new_name())["QueueUrl"]

        post(path, Action="SendMessage", QueueUrl=other, MessageBody="x")

        assert bodies(json_api, other) == ["x"]

    @pytest.mark.parametrize("accept", ["*/*", "application/json", "text/xml"])
    def test_no_action_is_a_404(self, get, path, accept):
        answer = get(path, {"Accept": accept})

        assert answer.status == 404
        assert "<UnknownOperationException/>" in answer.text

    @pytest.mark.parametrize("action", ["CreateQueue", "ListQueues", "NoSuchAction"])
    def test_action_that_is_not_for_a_queue(self, get, path, action):
        error = xml_error(get(path, Action=action, QueueName="x"))

        assert (error.status, error.code) == (400, "InvalidAction")
        assert error.message == f"The action {action} is not valid for this endpoint."

    def test_missing_parameter(self, get, path):
        error = xml_error(get(path, Action="SendMessage"))

        assert (error.status, error.code) == (400, "MissingParameter")
        assert error.message == "The request must contain the parameter MessageBody."

    def test_unknown_attribute(self, get, path):
        error = xml_error(get(path, Action="GetQueueAttributes", **{"AttributeName.1": "Foobar"}))

        assert (error.status, error.code) == (400, "InvalidAttributeName")
        assert error.message == "Unknown Attribute Foobar."

    def test_missing_queue(self, get):
        error = xml_error(get("/000000000000/none", Action="ReceiveMessage"))

        assert (error.status, error.code) == (400, NO_QUEUE)
        assert error.message == "The specified queue does not exist for this wsdl version."

    def test_json_on_a_queue_path(self, server, json_api, url, path):
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.SendMessage"}
        body = json.dumps({"QueueUrl": url, "MessageBody": "x"})

        answer = request(server.endpoint, "POST", path, body, headers)

        assert answer.status == 200
        assert answer.json()["MessageId"]
        assert bodies(json_api, url) == ["x"]


class TestQueueUrlForms:
    HOSTS = [
        "http://localhost:4566",
        "http://queue.example:1234",
        "https://queue.amazonaws.com",
        "https://us-east-1.queue.amazonaws.com",
        "https://sqs.us-east-1.amazonaws.com",
        "http://sqs.us-east-1.localhost.localstack.cloud:4566",
        "http://us-east-1.queue.localhost.localstack.cloud:4566",
    ]

    @pytest.mark.parametrize("host", HOSTS)
    def test_host_does_not_matter(self, api, json_api, url, path, host):
        api.call("SendMessage", QueueUrl=host + path, MessageBody="x")

        assert bodies(json_api, url) == ["x"]

    def test_bare_name(self, api, json_api, url, name):
        api.call("SendMessage", QueueUrl=name, MessageBody="x")

        assert bodies(json_api, url) == ["x"]

    def test_path_only(self, api, json_api, url, path):
        api.call("SendMessage", QueueUrl=path, MessageBody="x")

        assert bodies(json_api, url) == ["x"]

    PATHS = ["/queue/us-east-1/000000000000/{}", "/queue/{}", "/000000000000/{}"]

    @pytest.mark.parametrize("form", PATHS)
    def test_path_of_other_emulators_in_the_url(self, api, json_api, url, name, form):
        api.call("SendMessage", QueueUrl="http://localhost:4566" + form.format(name), MessageBody="x")

        assert bodies(json_api, url) == ["x"]

    @pytest.mark.parametrize("form", PATHS)
    def test_request_to_the_path_of_other_emulators(self, post, json_api, url, name, form):
        answer = post(form.format(name), Action="SendMessage", MessageBody="x")

        assert answer.status == 200
        assert bodies(json_api, url) == ["x"]

    @pytest.mark.parametrize("prefix", ["/sqs", "/a/b/c"])
    def test_request_to_the_path_of_a_public_url(self, post, json_api, url, path, prefix):
        answer = post(prefix + path, Action="SendMessage", MessageBody="x")

        assert answer.status == 200
        assert bodies(json_api, url) == ["x"]


class TestJsonRendering:
    """`Accept: application/json` on a Query request."""

    ACCEPT = {"Accept": "application/json"}

    def test_receive(self, get, json_api, url, path):
        json_api.call("SendMessage", QueueUrl=url, MessageBody="x")

        answer = get(path, self.ACCEPT, Action="ReceiveMessage")

        response = answer.json()["ReceiveMessageResponse"]
        assert answer.headers["Content-Type"].startswith("application/json")
        assert response["ResponseMetadata"]["RequestId"]
        (message,) = response["ReceiveMessageResult"]["messages"]
        assert message["Body"] == "x"

    def test_attributes_are_a_list(self, get, path):
        answer = get(path, self.ACCEPT, Action="GetQueueAttributes", **{"AttributeName.1": "DelaySeconds"})

        result = answer.json()["GetQueueAttributesResponse"]["GetQueueAttributesResult"]
        assert result["Attributes"] == [{"Name": "DelaySeconds", "Value": "0"}]

    def test_error(self, get):
        answer = get("/000000000000/none", self.ACCEPT, Action="ReceiveMessage")

        body = answer.json()
        assert answer.status == 400
        assert body["Error"]["Code"] == NO_QUEUE
        assert body["Error"]["Type"] == "Sender"
        assert body["Error"]["Message"]
        assert body["RequestId"]
