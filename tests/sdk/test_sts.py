"""STS GetCallerIdentity: what many clients ask first."""

import json
import os
import pathlib
import shutil
import subprocess
import urllib.parse

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support.server import Server
from support.sigv4 import Signer
from support.wire import FORM_TYPE, JSON_TYPE, request, scope_header

AWS = pathlib.Path(__file__).resolve().parents[1] / ".venv-current" / "bin" / "aws"
FORM = "Action=GetCallerIdentity&Version=2011-06-15"
TARGET = "AWSSecurityTokenServiceV20110615."
XMLNS = "https://sts.amazonaws.com/doc/2011-06-15/"
CONFIG = """
[[credentials]]
access_key = "AKIAALICE"
secret_key = "SECRET"
account = "111122223333"
name = "alice"

[[credentials]]
access_key = "AKIANAMELESS"
secret_key = "OTHER"
"""
ALICE = {
    "Arn": "arn:aws:iam::111122223333:user/alice",
    "UserId": "AIDAALICE",
    "Account": "111122223333",
}
ROOT = {
    "Arn": "arn:aws:iam::000000000000:root",
    "UserId": "000000000000",
    "Account": "000000000000",
}
SIGNER = Signer("AKIAALICE", "SECRET", service="sts")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("guarded"), config=CONFIG, test=False).start()
    yield server
    server.close()
    shutil.rmtree(server.data)


def client(server, access_key, secret_key="SECRET", region="us-east-1", **options):
    return boto3.client(
        "sts",
        endpoint_url=server.endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(retries={"total_max_attempts": 1}, **options),
    )


def said(answer):
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def xml_of(answer):
    """The members of a Query answer; its form must be Amazon's."""
    root = answer.xml()
    assert (answer.status, root.tag) == (200, f"{{{XMLNS}}}GetCallerIdentityResponse"), answer.text
    assert answer.headers["Content-Type"] == "text/xml"
    request_id = root.findtext("{*}ResponseMetadata/{*}RequestId")
    assert request_id == answer.headers["x-amzn-RequestId"]
    (result,) = root.findall("{*}GetCallerIdentityResult")
    return {child.tag.rpartition("}")[2]: child.text for child in result}


def post(server, body=FORM, signer=None, headers=None):
    headers = {"Content-Type": FORM_TYPE} | (headers or {})
    if signer:
        headers = signer.headers("POST", f"{server.endpoint}/", headers, body)
    return request(server.endpoint, "POST", "/", body, headers)


def test_a_key_is_a_user_of_its_account(guarded):
    answer = client(guarded, "AKIAALICE").get_caller_identity()
    assert said(answer) == ALICE

    nameless = client(guarded, "AKIANAMELESS", "OTHER", region="cn-north-1").get_caller_identity()
    assert said(nameless) == {
        "Arn": "arn:aws-cn:iam::000000000000:user/AKIANAMELESS",
        "UserId": "AIDANAMELESS",
        "Account": "000000000000",
    }


def test_the_user_id_is_the_sender_of_messages(guarded):
    sqs = boto3.client(
        "sqs",
        endpoint_url=guarded.endpoint,
        region_name="us-east-1",
        aws_access_key_id="AKIAALICE",
        aws_secret_access_key="SECRET",
    )
    url = sqs.create_queue(QueueName="sent")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")

    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]

    assert message["Attributes"]["SenderId"] == ALICE["UserId"]


def test_without_credentials_everybody_is_the_account(server):
    assert said(client(server, "test").get_caller_identity()) == ROOT
    other = said(client(server, "444455556666").get_caller_identity())
    assert other == {key: value.replace("000000000000", "444455556666") for key, value in ROOT.items()}


def test_unsigned_requests_are_answered_where_nobody_is_authenticated(server):
    assert xml_of(post(server)) == ROOT
    assert xml_of(post(server, "Action=GetCallerIdentity")) == ROOT
    assert xml_of(request(server.endpoint, "GET", f"/?{FORM}")) == ROOT
    assert list(xml_of(post(server))) == ["Arn", "UserId", "Account"]


def test_query_by_get_header_signed_and_presigned(guarded):
    url = f"{guarded.endpoint}/?{FORM}"
    headers = SIGNER.headers("GET", url)
    assert xml_of(request(guarded.endpoint, "GET", f"/?{FORM}", None, headers)) == ALICE

    presigned = urllib.parse.urlsplit(SIGNER.presigned("GET", url))
    assert xml_of(request(guarded.endpoint, "GET", f"/?{presigned.query}")) == ALICE

    by_sdk = client(guarded, "AKIAALICE").generate_presigned_url("get_caller_identity", HttpMethod="GET")
    assert xml_of(request(guarded.endpoint, "GET", f"/?{urllib.parse.urlsplit(by_sdk).query}")) == ALICE


def test_query_answered_as_json(guarded):
    answer = post(guarded, signer=SIGNER, headers={"Accept": "application/json"})

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {
        "GetCallerIdentityResponse": {
            "GetCallerIdentityResult": ALICE,
            "ResponseMetadata": {"RequestId": answer.headers["x-amzn-RequestId"]},
        }
    }


@pytest.mark.parametrize("body", ["{}", "", '{"Unknown": [1]}'])
def test_aws_json(guarded, body):
    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": TARGET + "GetCallerIdentity"}

    answer = post(guarded, body, SIGNER, headers)

    assert (answer.status, answer.json()) == (200, ALICE)
    assert answer.headers["Content-Type"] == JSON_TYPE


@pytest.mark.parametrize("body", ["{", "[]", "1", "null"])
def test_aws_json_that_is_no_object(server, body):
    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": TARGET + "GetCallerIdentity"}

    answer = post(server, body, headers=headers)

    assert (answer.status, answer.json()["__type"].rpartition("#")[2]) == (400, "SerializationException")


def test_unknown_actions(server):
    answer = post(server, "Action=AssumeNothing&Version=2011-06-15")
    error = answer.xml().find("{*}Error")
    assert (answer.status, answer.xml().tag) == (400, f"{{{XMLNS}}}ErrorResponse")
    assert [(child.tag.rpartition("}")[2], child.text) for child in error] == [
        ("Type", "Sender"),
        ("Code", "InvalidAction"),
        ("Message", "Could not find operation AssumeNothing for version 2011-06-15"),
    ]

    signed = {"Authorization": scope_header("us-east-1", service="sts")}
    unversioned = post(server, "Action=Nope", headers=signed).xml()
    text = "Could not find operation Nope for version NO_VERSION_SPECIFIED"
    assert unversioned.findtext("{*}Error/{*}Message") == text

    with pytest.raises(ClientError) as refused:
        client(server, "test").get_session_token()
    assert refused.value.response["Error"]["Code"] == "InvalidAction"

    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": TARGET + "Nope"}
    answer = post(server, "{}", headers=headers)
    assert (answer.status, answer.json()["__type"].rpartition("#")[2]) == (404, "UnknownOperationException")


@pytest.mark.parametrize(
    "access_key, secret_key, code",
    [
        ("AKIAALICE", "WRONG", "SignatureDoesNotMatch"),
        ("NOBODY", "SECRET", "InvalidClientTokenId"),
        ("111122223333", "SECRET", "InvalidClientTokenId"),
    ],
)
def test_signatures_are_checked(guarded, access_key, secret_key, code):
    with pytest.raises(ClientError) as refused:
        client(guarded, access_key, secret_key).get_caller_identity()

    answer = refused.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (code, 403)


def test_a_signature_for_another_service_or_none_is_refused(guarded):
    unsigned = post(guarded)
    assert unsigned.xml().findtext("{*}Error/{*}Code") == "MissingAuthenticationToken"
    assert unsigned.status == 403

    of_sqs = post(guarded, signer=Signer("AKIAALICE", "SECRET"))
    assert of_sqs.xml().findtext("{*}Error/{*}Code") == "InvalidAction"


def test_it_counts_among_the_requests(make_server):
    server = make_server()
    client(server, "test").get_caller_identity()

    status, body = server.get("/metrics")

    assert status == 200
    text = body if isinstance(body, str) else body.decode()
    assert 'action="GetCallerIdentity"' in text and 'service="sts"' in text


def test_the_aws_cli(guarded):
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "AKIAALICE",
        "AWS_SECRET_ACCESS_KEY": "SECRET",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    command = [AWS, "sts", "get-caller-identity", "--output", "json"]

    done = subprocess.run(
        [*command, "--endpoint-url", guarded.endpoint],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, json.loads(done.stdout or "{}")) == (0, ALICE), done.stderr


def test_sqs_names_a_caller_that_it_refuses_as_sts_does(guarded):
    def sqs(access_key, secret_key):
        keys = {"aws_access_key_id": access_key, "aws_secret_access_key": secret_key}
        return boto3.client("sqs", endpoint_url=guarded.endpoint, region_name="us-east-1", **keys)

    url = sqs("AKIANAMELESS", "OTHER").create_queue(QueueName="theirs")["QueueUrl"]

    with pytest.raises(ClientError, match=ALICE["Arn"] + " is not authorized") as refused:
        sqs("AKIAALICE", "SECRET").send_message(QueueUrl=url, MessageBody="x")
    assert refused.value.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException")
