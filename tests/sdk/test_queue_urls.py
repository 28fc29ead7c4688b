"""Queue URLs are reachable from where the client stands: its Host, its scheme, or a fixed base."""

import pytest

from support.wire import JsonApi, QueryApi


def create(api, name, **headers):
    body = {"QueueName": name}
    answer = api.post("CreateQueue", body, **headers)
    assert answer.status == 200, answer.text
    if api.protocol == "json":
        return answer.json()["QueueUrl"]
    return answer.xml().findtext("{*}CreateQueueResult/{*}QueueUrl")


HOSTS = ["queue", "queue:4566", "my-service.internal:80", "127.0.0.1:9999", "[::1]:4566", "localhost"]


@pytest.mark.parametrize("host", HOSTS)
def test_url_is_built_from_the_host_of_the_request(api, new_name, host):
    name = new_name()

    assert create(api, name, Host=host) == f"http://{host}/000000000000/{name}"


def test_every_answer_with_a_url_uses_the_host(json_api, new_name):
    name = new_name()
    create(json_api, name)
    expected = f"http://other:1/000000000000/{name}"

    url = json_api.post("GetQueueUrl", {"QueueName": name}, Host="other:1").json()
    urls = json_api.post("ListQueues", {"QueueNamePrefix": name}, Host="other:1").json()

    assert url == {"QueueUrl": expected}
    assert urls == {"QueueUrls": [expected]}


def test_url_of_one_host_works_on_another(json_api, new_name):
    url = create(json_api, new_name(), Host="inside:4566")

    sent = json_api.post("SendMessage", {"QueueUrl": url, "MessageBody": "x"}, Host="outside:80")

    assert sent.status == 200


def test_proxys_scheme_is_kept(json_api, new_name):
    name = new_name()

    url = create(json_api, name, Host="queue.example", X_Forwarded_Proto="https")

    assert url == f"https://queue.example/000000000000/{name}"


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({"X_Forwarded_Host": "mq.example:8443, inner"}, "http://mq.example:8443"),
        ({"X_Forwarded_Host": ""}, "http://own:1"),
        ({"X_Forwarded_Host": " "}, "http://own:1"),
        ({"X_Forwarded_Host": ", mq.example"}, "http://mq.example"),
        ({"X_Forwarded_Host": "mq.example/path"}, "http://own:1"),
        ({"X_Forwarded_Host": '"mq.example"'}, "http://own:1"),
        ({"X_Forwarded_Host": "", "X_Forwarded_Proto": "HTTPS"}, "https://own:1"),
        ({"X_Forwarded_Host": "mq.example", "X_Forwarded_Port": "8443"}, "http://mq.example:8443"),
        ({"X_Forwarded_Host": "mq.example:9", "X_Forwarded_Port": "8443"}, "http://mq.example:9"),
        (
            {
                "X_Forwarded_Host": "mq.example",
                "X_Forwarded_Port": "443",
                "X_Forwarded_Proto": "https",
            },
            "https://mq.example",
        ),
    ],
)
def test_what_proxies_forward_is_used_if_it_is_an_origin(api, new_name, headers, origin):
    name = new_name()

    url = create(api, name, Host="own:1", **headers)

    assert url == f"{origin}/000000000000/{name}"


@pytest.mark.parametrize("base", ["https://queue.example", "http://queue.example:8080"])
@pytest.mark.parametrize("kind", [JsonApi, QueryApi])
def test_public_url_overrides_host_and_scheme(make_server, base, kind):
    server = make_server(args=["--public-url", base])
    api = kind(server.endpoint)

    assert create(api, "fixed") == f"{base}/000000000000/fixed"
    assert create(api, "fixed", Host="other:1") == f"{base}/000000000000/fixed"


def test_sdk_uses_the_url_it_was_given(sqs, new_name):
    url = sqs.create_queue(QueueName=new_name())["QueueUrl"]

    sent = sqs.send_message(QueueUrl=url, MessageBody="x")
    received = sqs.receive_message(QueueUrl=url)["Messages"]

    assert [m["MessageId"] for m in received] == [sent["MessageId"]]
