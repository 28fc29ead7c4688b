"""IronMQ's projects and their tokens, over HTTP and through SQS access keys `project:token`."""

import json
import socket

import pytest
from botocore.exceptions import ClientError

from support.sdk import sdk_client
from support.sigv4 import Signer
from support.wire import FORM_TYPE, JSON_TYPE, request

ONE, TWO = "111111111111", "222222222222"
KEYS = f"""
[[credentials]]
access_key = "AKIDONE"
secret_key = "secret-one"
account = "{ONE}"
[[credentials]]
access_key = "AKIDTWO"
secret_key = "secret-two"
account = "{TWO}"
"""
FILE = f"""
[projects.declared]
account = "{ONE}"
region = "eu-west-1"
tokens = {{ ci = "token-of-the-file" }}
"""
OWNER, OTHER = Signer("AKIDONE", "secret-one"), Signer("AKIDTWO", "secret-two")


@pytest.fixture
def guarded(make_server):
    return make_server(config=KEYS + FILE)


@pytest.fixture
def unguarded(make_server):
    return make_server(config=FILE)


def admin(server, below, body, signer=OWNER):
    path, body = f"/_millrace/projects{below}", json.dumps(body)
    headers = {"Content-Type": "application/json"}
    if signer:
        headers = signer.headers("POST", server.endpoint + path, headers, body)
    return request(server.endpoint, "POST", path, body, headers)


def made(server, project, label="", signer=OWNER) -> str:
    """A token of a project."""
    answer = admin(server, "/tokens/create", {"project": project, "label": label}, signer)
    assert answer.status == 200, answer.text
    return answer.json()["token"]


def listed(server, signer=OWNER) -> dict:
    answer = admin(server, "", {}, signer)
    assert answer.status == 200, answer.text
    assert answer.json()["next"] is None
    return {project["project"]: project for project in answer.json()["projects"]}


def iron(server, method, path, token=None, body=None, query=""):
    headers = {} if token is None else {"Authorization": f"OAuth {token}"}
    body = None if body is None else json.dumps(body)
    return request(server.endpoint, method, f"/3/projects/{path}{query}", body, headers)


def post(server, project, token, text="hello", version=3):
    path = f"/{version}/projects/{project}/queues/q/messages"
    headers = {"Authorization": f"OAuth {token}"}
    body = json.dumps({"messages": [{"body": text}]})
    return request(server.endpoint, "POST", path, body, headers)


def check_refused(answer, text="Invalid token"):
    assert (answer.status, answer.json()) == (401, {"msg": text})
    assert answer.headers["content-type"] == "application/json"


def test_a_token_opens_its_project_and_no_other(guarded):
    for project in ("shop", "other"):
        assert admin(guarded, "/create", {"project": project}).status == 200
    token, others = made(guarded, "shop"), made(guarded, "other")

    assert post(guarded, "shop", token).status == 201
    assert post(guarded, "shop", token, version=1).status == 200
    assert iron(guarded, "GET", "shop/queues", query=f"?oauth={token}").json() == {"queues": [{"name": "q"}]}
    for project, wrong in [
        ("shop", others),
        ("shop", token.upper()),
        ("shop", token[:-1]),
        ("other", token),
        ("missing", token),
        (ONE, token),
        ("shop", "AKIDONE"),
        ("shop", "secret-one"),
    ]:
        check_refused(post(guarded, project, wrong))
    for project in ("shop", "missing"):
        check_refused(iron(guarded, "GET", f"{project}/queues"), "A token is required")
        check_refused(iron(guarded, "GET", f"{project}/queues", query="?oauth="), "A token is required")
        check_refused(iron(guarded, "GET", f"{project}/queues", query="?oauth=x"))


def test_a_project_is_a_place_of_sqs(guarded):
    answer = admin(guarded, "/create", {"project": "shop"}, Signer("AKIDONE", "secret-one", "eu-west-3"))
    assert answer.json() == {"project": "shop", "region": "eu-west-3", "account": ONE}
    assert post(guarded, "shop", made(guarded, "shop"), "of IronMQ").status == 201

    sqs = sdk_client(guarded, "eu-west-3", "AKIDONE", "secret-one")

    url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "of IronMQ"


def test_policies_of_queues_do_not_apply_to_tokens(guarded):
    token = "token-of-the-file"
    assert post(guarded, "declared", token).status == 201
    sqs = sdk_client(guarded, "eu-west-1", "AKIDONE", "secret-one")
    url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    deny = {"Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})

    assert post(guarded, "declared", token).status == 201


def test_a_revoked_token_is_refused_at_once(guarded):
    assert admin(guarded, "/create", {"project": "shop"}).status == 200
    kept, first, second = made(guarded, "shop"), made(guarded, "shop", "old"), made(guarded, "shop", "old")
    for token in (kept, first, second):
        assert post(guarded, "shop", token).status == 201

    assert admin(guarded, "/tokens/revoke", {"project": "shop", "token": "old"}).json() == {"revoked": 2}

    for token in (first, second):
        check_refused(post(guarded, "shop", token))
    assert post(guarded, "shop", kept).status == 201
    (token,) = listed(guarded)["shop"]["tokens"]
    assert admin(guarded, "/tokens/revoke", {"project": "shop", "token": token["id"]}).json() == {"revoked": 1}
    check_refused(post(guarded, "shop", kept))
    # The empty label is none.
    made(guarded, "shop")
    for missing in ("", token["id"], kept):
        answer = admin(guarded, "/tokens/revoke", {"project": "shop", "token": missing})
        assert (answer.status, kept in answer.text) == (400, False)


def test_projects_are_of_their_account_alone(guarded):
    assert admin(guarded, "/create", {"project": "shop"}).status == 200
    token = made(guarded, "shop", "mine")

    assert listed(guarded, OTHER) == {}
    for project in ("shop", "declared"):
        for below, body in [
            ("/delete", {"project": project}),
            ("/tokens/create", {"project": project}),
            ("/tokens/revoke", {"project": project, "token": "mine"}),
        ]:
            answer = admin(guarded, below, body, OTHER)
            assert answer.status == 400
            assert f"There is no project {project} of this account." in answer.text
        answer = admin(guarded, "/create", {"project": project}, OTHER)
        assert answer.status == 400 and ONE not in answer.text
    answer = admin(guarded, "/create", {"project": "new", "account": ONE}, OTHER)
    assert answer.status == 403
    assert admin(guarded, "", {}, None).status == 403
    assert post(guarded, "shop", token).status == 201


def test_a_token_is_no_key_of_anything_else(guarded):
    """A token must not make tokens, and opens no other service."""
    key = "declared:token-of-the-file"
    signer = Signer(key, "x", "eu-west-1")
    for below, body in [("", {}), ("/create", {"project": "mine"}), ("/tokens/create", {"project": "declared"})]:
        assert admin(guarded, below, body, signer).status == 403
    for service, action in [("sns", "list_topics"), ("sts", "get_caller_identity"), ("cloudwatch", "list_metrics")]:
        with pytest.raises(ClientError) as refused:
            getattr(sdk_client(guarded, "eu-west-1", key, "x", service), action)()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    path = "/_aws/sqs/messages"
    headers = signer.headers("GET", guarded.endpoint + path)
    assert request(guarded.endpoint, "GET", path, headers=headers).status == 403


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_projects_and_tokens_survive_a_restart(guarded, how):
    assert admin(guarded, "/create", {"project": "shop"}).status == 200
    token, revoked = made(guarded, "shop", "kept"), made(guarded, "shop", "old")
    of_declared = made(guarded, "declared", "more")
    admin(guarded, "/tokens/revoke", {"project": "shop", "token": "old"})
    assert post(guarded, "shop", token).status == 201
    before = listed(guarded)

    guarded.restart(how)

    assert listed(guarded) == before
    assert [it["label"] for it in before["shop"]["tokens"]] == ["kept"]
    assert post(guarded, "shop", token).status == 201
    assert post(guarded, "declared", of_declared).status == 201
    check_refused(post(guarded, "shop", revoked))
    assert token.encode() not in b"".join(it.read_bytes() for it in guarded.data.rglob("*") if it.is_file())


def test_a_declared_project_is_as_the_file_says(guarded):
    assert post(guarded, "declared", "token-of-the-file").status == 201
    declared = {"project": "declared", "region": "eu-west-1", "account": ONE, "declared": True}
    assert listed(guarded)["declared"] == declared | {"tokens": [{"id": "ci", "label": "", "created_ms": None}]}
    for below, body in [("/delete", {}), ("/tokens/revoke", {"token": "ci"})]:
        answer = admin(guarded, below, {"project": "declared"} | body)
        assert answer.status == 400 and "is declared in the configuration file" in answer.text
    made_here = made(guarded, "declared")
    assert post(guarded, "declared", made_here).status == 201

    # What one account has made opens nothing once the file gives the project to another.
    guarded.config = KEYS + FILE.replace(ONE, TWO).replace("token-of-the-file", "new")
    guarded.restart()

    check_refused(post(guarded, "declared", "token-of-the-file"))
    check_refused(post(guarded, "declared", made_here))
    assert post(guarded, "declared", "new").status == 201
    assert "declared" not in listed(guarded)

    guarded.config = KEYS
    guarded.restart()
    check_refused(post(guarded, "declared", "new"))


def test_a_deleted_project_is_closed_and_its_queues_stay(guarded):
    assert admin(guarded, "/create", {"project": "shop"}).status == 200
    token = made(guarded, "shop")
    assert post(guarded, "shop", token).status == 201

    assert admin(guarded, "/delete", {"project": "shop"}).json() == {}

    check_refused(post(guarded, "shop", token))
    assert "shop" not in listed(guarded)
    assert admin(guarded, "/delete", {"project": "shop"}).status == 400
    sqs = sdk_client(guarded, "us-east-1", "AKIDONE", "secret-one")
    assert sqs.get_queue_url(QueueName="q")["QueueUrl"].endswith(f"/{ONE}/q")
    # The tokens of the one before do not open the next of that name.
    assert admin(guarded, "/create", {"project": "shop"}).status == 200
    check_refused(post(guarded, "shop", token))


def test_lists_come_in_pages(guarded):
    names = [f"p{number:04}" for number in range(1100)]
    for name in names:
        assert admin(guarded, "/create", {"project": name}).status == 200
    assert admin(guarded, "/create", {"project": "other"}, OTHER).status == 200

    first = admin(guarded, "", {}).json()
    second = admin(guarded, "", {"after": first["next"]}).json()

    assert len(first["projects"]) == 1000 and second["next"] is None
    assert [it["project"] for it in first["projects"] + second["projects"]] == ["declared"] + names


def test_ids_and_labels_that_are_refused(guarded):
    for project in ("", "a:b", "a/b", "a b", "x" * 129):
        assert admin(guarded, "/create", {"project": project}).status == 400, project
    assert admin(guarded, "/create", {"project": "shop", "account": "1"}).status == 400
    assert admin(guarded, "/create", {"project": "shop", "tokens": []}).status == 400
    assert admin(guarded, "/create", {"project": "shop"}).status == 200
    for label in ("x" * 129, "a\nb"):
        assert admin(guarded, "/tokens/create", {"project": "shop", "label": label}).status == 400
    for _ in range(100):
        made(guarded, "shop")
    answer = admin(guarded, "/tokens/create", {"project": "shop"})
    assert (answer.status, "100 tokens at most" in answer.text) == (400, True)
    assert request(guarded.endpoint, "POST", "/_millrace/projects/nothing", "{}", {}).status in (403, 404)


def test_without_credentials_any_token_opens_any_project(unguarded):
    assert iron(unguarded, "GET", "shop/queues", "whatever").json() == {"queues": []}
    assert listed(unguarded, None).keys() == {"declared"}, "nothing but a queue makes a project"
    assert post(unguarded, "shop", "whatever").status == 201
    assert post(unguarded, ONE, "other").status == 201
    assert iron(unguarded, "PUT", "declared/queues/d").status == 200

    projects = listed(unguarded, None)
    assert projects.keys() == {"shop", ONE, "declared"}
    assert (projects[ONE]["region"], projects[ONE]["account"]) == ("us-east-1", ONE)
    assert (projects["declared"]["region"], projects["declared"]["account"]) == ("eu-west-1", ONE)
    assert sdk_client(unguarded, "eu-west-1", ONE).get_queue_url(QueueName="d")["QueueUrl"].endswith(f"/{ONE}/d")
    assert sdk_client(unguarded, "us-east-1", ONE).get_queue_url(QueueName="q")["QueueUrl"].endswith(f"/{ONE}/q")

    answer = admin(unguarded, "/create", {"project": "mapped", "account": TWO}, None)
    assert answer.json() == {"project": "mapped", "region": "us-east-1", "account": TWO}
    assert post(unguarded, "mapped", "any").status == 201
    assert sdk_client(unguarded, "us-east-1", TWO).list_queues()["QueueUrls"][0].endswith(f"/{TWO}/q")

    unguarded.restart("kill")
    assert listed(unguarded, None).keys() == {"shop", ONE, "declared", "mapped"}


def test_projects_of_before_are_closed_once_there_are_credentials(unguarded):
    assert post(unguarded, ONE, "any").status == 201
    assert post(unguarded, "shop", "any").status == 201
    unguarded.config = KEYS
    unguarded.restart()

    for project in (ONE, "shop"):
        check_refused(post(unguarded, project, "any"))
    token = made(unguarded, ONE)
    assert post(unguarded, ONE, token).status == 201
    assert listed(unguarded).keys() == {ONE}


def keys_of(server, key, region="eu-west-1", **options):
    return sdk_client(server, region, key, "not looked at", **options)


def test_an_access_key_may_be_a_project_and_its_token(guarded):
    sqs = keys_of(guarded, "declared:token-of-the-file")
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    assert url.endswith(f"/{ONE}/jobs")
    sqs.send_message(QueueUrl=url, MessageBody="of SQS")
    reserved = iron(guarded, "POST", "declared/queues/jobs/reservations", "token-of-the-file", {"n": 1})
    assert reserved.json()["messages"][0]["body"] == "of SQS"
    # A key of the account's sees the same, as the account itself.
    sender = sqs.send_message(QueueUrl=url, MessageBody="again")
    owner = sdk_client(guarded, "eu-west-1", "AKIDONE", "secret-one")
    (message,) = owner.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert message["MessageId"] == sender["MessageId"]
    assert message["Attributes"]["SenderId"] == ONE

    # Whatever the region that the client signs for, it is in the project's.
    elsewhere = keys_of(guarded, "declared:token-of-the-file", "us-east-1")
    assert elsewhere.list_queues()["QueueUrls"] == [url]
    for wrong in ("declared:wrong", "declared:", "missing:token-of-the-file", ":token-of-the-file", "declared"):
        with pytest.raises(ClientError) as refused:
            keys_of(guarded, wrong).list_queues()
        assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"


def test_an_access_key_of_a_revoked_token_is_refused_at_once(guarded):
    assert admin(guarded, "/create", {"project": "shop"}).status == 200
    key = f"shop:{made(guarded, 'shop', 'old')}"
    assert "QueueUrls" not in keys_of(guarded, key).list_queues()

    admin(guarded, "/tokens/revoke", {"project": "shop", "token": "old"})

    with pytest.raises(ClientError):
        keys_of(guarded, key).list_queues()


def test_access_keys_of_projects_in_forms_and_urls(guarded):
    signer = Signer("declared:token-of-the-file", "x", "eu-west-1")
    body = "Action=CreateQueue&QueueName=form&Version=2012-11-05"
    headers = signer.headers("POST", f"{guarded.endpoint}/", {"Content-Type": FORM_TYPE}, body)
    assert request(guarded.endpoint, "POST", "/", body, headers).status == 200
    url = signer.presigned("GET", f"{guarded.endpoint}/?Action=ListQueues&Version=2012-11-05")
    assert "/form<" in request(guarded.endpoint, "GET", url.removeprefix(guarded.endpoint)).text
    old = "AWSAccessKeyId=declared%3Atoken-of-the-file&SignatureVersion=2&Signature=x"
    query = f"/?Action=ListQueues&Version=2012-11-05&{old}"
    assert "/form<" in request(guarded.endpoint, "GET", query).text
    assert "/form<" in request(guarded.endpoint, "POST", "/", query[2:], {"Content-Type": FORM_TYPE}).text


def test_a_configured_key_with_a_colon_is_a_key(make_server):
    server = make_server(config=KEYS.replace("AKIDONE", "declared:token-of-the-file") + FILE.replace(ONE, TWO))

    good = sdk_client(server, "us-east-1", "declared:token-of-the-file", "secret-one")
    assert good.create_queue(QueueName="q")["QueueUrl"].endswith(f"/{ONE}/q")
    with pytest.raises(ClientError) as refused:
        sdk_client(server, "us-east-1", "declared:token-of-the-file", "other").list_queues()
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"


def test_without_credentials_a_key_with_a_colon_is_a_project(unguarded):
    assert post(unguarded, "shop", "any").status == 201
    assert len(keys_of(unguarded, "shop:other", "us-east-1").list_queues()["QueueUrls"]) == 1
    sqs = keys_of(unguarded, "declared:other", "us-east-1")
    assert sqs.create_queue(QueueName="jobs")["QueueUrl"].endswith(f"/{ONE}/jobs")
    assert {"name": "jobs"} in iron(unguarded, "GET", "declared/queues").json()["queues"]


@pytest.mark.parametrize(
    "lines, status",
    [
        ("", 401),
        ("Authorization: OAuth wrong\r\n", 401),
        ("Authorization: OAuth token-of-the-file\r\n", 100),
    ],
)
def test_a_body_without_the_right_token_is_not_awaited(guarded, lines, status):
    assert status_of_head(guarded, f"POST /3/projects/declared/queues/q/messages HTTP/1.1\r\nHost: a\r\n{lines}") == status


def status_of_head(server, head) -> int:
    """The first status that comes while the body is not there yet."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(f"{head}Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n".encode())
        return int(connection.recv(65536).split()[1])


def test_a_body_for_sqs_without_the_right_token_is_not_awaited(guarded):
    def head(key):
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.SendMessage"}
        signed = Signer(key, "x").headers("POST", f"{guarded.endpoint}/", headers)
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        return f"POST / HTTP/1.1\r\n{lines}"

    assert status_of_head(guarded, head("declared:wrong")) == 403
    assert status_of_head(guarded, head("declared:token-of-the-file")) == 100
