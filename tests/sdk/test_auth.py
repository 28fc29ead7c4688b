"""Signatures are checked as soon as credentials are configured, in both forms and protocols."""

import datetime
import gzip
import json
import shutil
import socket
import subprocess
import time
import urllib.parse

import pytest

from support.sdk import sdk_client
from support.server import Server, binary
from support.sigv4 import Signer
from support.waiting import eventually
from support.wire import FORM_TYPE, JSON_TYPE, json_error, parse_result, request, xml_error

CONFIG = """
[[credentials]]
access_key = "AKID"
secret_key = "SECRET"
account = "111122223333"
"""
SIGNER = Signer("AKID", "SECRET")
FORM = "Action=ListQueues&Version=2012-11-05"


def now():
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("guarded"), config=CONFIG, test=False).start()
    yield server
    server.close()
    shutil.rmtree(server.data)


def post_json(server, signer, body="{}", at=None, change=None):
    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.ListQueues"}
    if signer:
        headers = signer.headers("POST", f"{server.endpoint}/", headers, body, at)
    return request(server.endpoint, "POST", "/", body, headers | (change or {}))


def post_form(server, signer, body=FORM, at=None, change=None):
    headers = {"Content-Type": FORM_TYPE}
    if signer:
        headers = signer.headers("POST", f"{server.endpoint}/", headers, body, at)
    return request(server.endpoint, "POST", "/", body, headers | (change or {}))


def test_vectors():
    """The signer of these tests itself, against known signatures."""
    signer = Signer("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    at = datetime.datetime(2026, 1, 2, 3, 4, 5)
    headers = {"content-type": JSON_TYPE, "x-amz-target": "AmazonSQS.ReceiveMessage"}
    body = '{"QueueUrl":"http://localhost:9324/000000000000/q1"}'
    signed = signer.headers("POST", "http://localhost:9324/", headers, body, at)
    url = "http://localhost:9324/000000000000/q1"
    presigned = signer.presigned(
        "GET", f"{url}?Action=ReceiveMessage&MaxNumberOfMessages=10&Version=2012-11-05", 300, at
    )

    assert signed["authorization"].endswith(
        "8ff1173ec5fcd993b3594eadba9ce5ad52ba1f58789eb5e84c0ff68c5afdf0dd"
    )
    assert presigned.endswith("93a0e3acbc533c9e5c5dddad14298174ea85c9107f5787871e94944a2614995f")


def test_sdk_with_the_right_keys_does_the_main_job(guarded):
    sqs = sdk_client(guarded, access_key="AKID", secret_key="SECRET")

    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="h\u00e9")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert url.endswith("/111122223333/jobs")
    assert message["Body"] == "h\u00e9"


def test_any_region_is_accepted(guarded):
    for region in ("us-east-1", "eu-west-3", "local"):
        assert sdk_client(guarded, region, "AKID", "SECRET").list_queues() is not None


def test_own_signer_is_accepted(guarded):
    assert post_json(guarded, SIGNER).status == 200
    assert post_form(guarded, SIGNER).status == 200


# Code in the Query protocol, name in JSON, status.
MISSING = ("MissingAuthenticationToken", "MissingAuthenticationTokenException", 403)
UNKNOWN = ("InvalidClientTokenId", "UnrecognizedClientException", 403)
INCOMPLETE = ("IncompleteSignature", "IncompleteSignatureException", 400)
WRONG = ("SignatureDoesNotMatch", "InvalidSignatureException", 403)
SHORT_HEADER = "AWS4-HMAC-SHA256 Credential=AKID/20260102/us-east-1/sqs/aws4_request"
REFUSED = {
    "no signature": (None, {}, MISSING),
    "unknown key": (Signer("OTHER", "SECRET"), {}, UNKNOWN),
    "bad secret": (Signer("AKID", "WRONG"), {}, WRONG),
    "wrong service": (Signer("AKID", "SECRET", service="s3"), {}, WRONG),
    "malformed header": (SIGNER, {"authorization": SHORT_HEADER}, INCOMPLETE),
    "other content type": (SIGNER, {"content-type": f"{JSON_TYPE}; charset=utf-8"}, WRONG),
    "other host": (SIGNER, {"host": "elsewhere"}, WRONG),
}


@pytest.mark.parametrize("case", REFUSED)
def test_json_request_is_refused(guarded, case):
    signer, change, (_, shape, status) = REFUSED[case]

    answer = post_json(guarded, signer, change=change)

    error = json_error(answer)
    assert (error.status, error.shape.rpartition("#")[2]) == (status, shape)
    assert error.message
    assert answer.headers["x-amzn-RequestId"]
    assert answer.headers["Date"]


@pytest.mark.parametrize("case", [case for case in REFUSED if case != "other content type"])
def test_query_request_is_refused(guarded, case):
    signer, change, (code, _, status) = REFUSED[case]

    error = xml_error(post_form(guarded, signer, change=change))

    assert (error.status, error.code) == (status, code)


def test_body_is_covered(guarded):
    signed = SIGNER.headers(
        "POST",
        f"{guarded.endpoint}/",
        {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.CreateQueue"},
        '{"QueueName":"mine"}',
    )

    answer = request(guarded.endpoint, "POST", "/", '{"QueueName":"evil"}', signed)

    assert (answer.status, json_error(answer).code) == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize("minutes", [-16, 16, -60 * 24 * 400])
def test_clock_too_far_off_is_refused(guarded, minutes):
    at = now() + datetime.timedelta(minutes=minutes)

    answer = post_json(guarded, SIGNER, at=at)
    query = xml_error(post_form(guarded, SIGNER, at=at))

    assert answer.status in (400, 403)
    assert json_error(answer).shape.rpartition("#")[2] in ("InvalidSignatureException", "RequestExpired")
    assert query.code in ("RequestExpired", "SignatureDoesNotMatch")


@pytest.mark.parametrize("minutes", [-14, 14])
def test_small_clock_skew_is_accepted(guarded, minutes):
    at = now() + datetime.timedelta(minutes=minutes)

    assert post_json(guarded, SIGNER, at=at).status == 200


@pytest.mark.parametrize("spelling", ["Credential=", "Credential ="])
def test_region_must_be_a_name_however_it_is_spelled(guarded, spelling):
    signer = Signer("AKID", "SECRET", region="a:b")
    headers = signer.headers("POST", f"{guarded.endpoint}/", {"Content-Type": FORM_TYPE}, FORM)
    headers["authorization"] = headers["authorization"].replace("Credential=", spelling)

    answer = request(guarded.endpoint, "POST", "/", FORM, headers)

    assert (answer.status, xml_error(answer).code) == (403, "SignatureDoesNotMatch")


def test_signature_for_another_service_is_refused_whatever_is_asked(guarded):
    signer = Signer("AKID", "SECRET", service="s3")

    def status(path):
        headers = signer.headers("GET", guarded.endpoint + path, {}, "")
        return request(guarded.endpoint, "GET", path, None, headers).status

    assert status("/?Action=ListQueues&Version=2012-11-05") == 403
    assert status("/111122223333/jobs?Action=RemovePermission&Label=x") == 403
    assert status("/_aws/sqs/messages?QueueUrl=jobs") == 403


def test_all_spellings_of_a_path_do_what_was_signed(guarded):
    """One signature is good for all of them, so none may turn a receive into a look or back."""
    sqs = sdk_client(guarded, access_key="AKID", secret_key="SECRET")
    url = sqs.create_queue(QueueName="spelled")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="m")
    body = json.dumps({"QueueUrl": url, "VisibilityTimeout": 0})

    def is_received(signed_path, path):
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.ReceiveMessage"}
        headers = SIGNER.headers("POST", guarded.endpoint + signed_path, headers, body)
        answer = request(guarded.endpoint, "POST", path, body, headers)
        (message,) = json.loads(answer.body)["Messages"]
        return message["ReceiptHandle"] != ""

    looks = "/_aws/sqs/messages"
    assert is_received("/", "/")
    assert not is_received(looks, looks)
    assert is_received("/", "/_aws/sqs/messages/../../..")
    assert not is_received(looks, "//_aws/sqs/messages")
    assert not is_received(looks, "/x/../_aws/./sqs/messages")


def test_region_of_the_credential_counts_however_the_header_is_spelled(guarded):
    abroad = sdk_client(guarded, "eu-west-1", "AKID", "SECRET")
    abroad.create_queue(QueueName="abroad")
    url = "http://sqs.eu-west-1.amazonaws.com/111122223333/abroad"
    form = "Action=GetQueueAttributes&QueueUrl=" + urllib.parse.quote(url, safe="")
    headers = SIGNER.headers("POST", f"{guarded.endpoint}/", {"Content-Type": FORM_TYPE}, form)

    def code(authorization):
        return xml_error(request(guarded.endpoint, "POST", "/", form, headers | {"authorization": authorization})).code

    signed = headers["authorization"]
    assert code(signed) == code(signed.replace(" ", "\t", 1)) == "AWS.SimpleQueueService.NonExistentQueue"


def test_bodies_of_strangers_are_not_inflated(guarded):
    body = gzip.compress(b"{")
    headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "GraniteServiceVersion20100801.PutMetricData"}
    headers["Content-Encoding"] = "gzip"
    signer = Signer("AKID", "SECRET", service="monitoring")

    stranger = request(guarded.endpoint, "POST", "/", body, headers)
    signed = signer.headers("POST", f"{guarded.endpoint}/", headers, body)
    known = request(guarded.endpoint, "POST", "/", body, signed)

    assert json_error(stranger).shape.endswith("MissingAuthenticationTokenException")
    assert json_error(known).shape.endswith("SerializationException")


def test_date_in_the_scope_must_be_the_requests(guarded):
    headers = SIGNER.headers("POST", f"{guarded.endpoint}/", {"Content-Type": FORM_TYPE}, FORM)
    day = headers["x-amz-date"][:8]
    headers["authorization"] = headers["authorization"].replace(f"/{day}/", "/20200101/")

    answer = request(guarded.endpoint, "POST", "/", FORM, headers)

    assert xml_error(answer).code == "SignatureDoesNotMatch"


class TestPresigned:
    @pytest.fixture
    def url(self, guarded):
        sqs = sdk_client(guarded, access_key="AKID", secret_key="SECRET")
        url = sqs.create_queue(QueueName="presigned")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="x y")
        return f"{url}?Action=ReceiveMessage&Version=2012-11-05&VisibilityTimeout=0"

    @pytest.fixture
    def send(self, url):
        """Of a SendMessage, but for the body."""
        return f"{url.partition('?')[0]}?Action=SendMessage&Version=2012-11-05&MessageBody="

    @pytest.fixture
    def bodies(self, guarded, url):
        def received() -> list[str]:
            sqs = sdk_client(guarded, access_key="AKID", secret_key="SECRET")
            messages = sqs.receive_message(QueueUrl=url.partition("?")[0], MaxNumberOfMessages=10)["Messages"]
            return [message["Body"] for message in messages]

        return received

    def get(self, guarded, url):
        return request(guarded.endpoint, "GET", url.removeprefix(guarded.endpoint))

    def test_url_is_all_that_is_needed(self, guarded, url):
        answer = self.get(guarded, SIGNER.presigned("GET", url))

        messages = parse_result("ReceiveMessage", answer.xml())["Messages"]
        assert messages[0]["Body"] == "x y"

    def test_awkward_characters_survive(self, guarded, send, bodies):
        body = "a+b %&=\u00e9~*'()"

        answer = self.get(guarded, SIGNER.presigned("GET", send + urllib.parse.quote(body, safe="")))

        assert answer.status == 200
        assert body in bodies()

    def test_what_is_signed_is_what_is_done(self, guarded, send, bodies):
        signed = SIGNER.presigned("GET", send + "plus%2Bsign")

        assert self.get(guarded, signed.replace("plus%2Bsign", "plus+sign")).status == 403
        assert self.get(guarded, signed.replace("plus%2Bsign", "plus%20sign")).status == 403
        assert self.get(guarded, signed.replace("plus%2Bsign", "plus%2bsign")).status == 200

        received = bodies()
        assert "plus+sign" in received and "plus sign" not in received

    def test_a_plus_sign_is_a_space_as_at_amazon(self, guarded, send, bodies):
        signed = SIGNER.presigned("GET", send + "two%20words")

        assert self.get(guarded, signed.replace("two%20words", "two+words")).status == 200

        assert "two words" in bodies()

    def test_expired_url_is_refused(self, guarded, url):
        old = now() - datetime.timedelta(seconds=120)

        error = xml_error(self.get(guarded, SIGNER.presigned("GET", url, 60, old)))

        assert error.code in ("RequestExpired", "AccessDenied")

    def test_expired_url_is_refused_with_its_signature_in_the_header(self, guarded, url):
        signed = SIGNER.presigned("GET", url, 60, now() - datetime.timedelta(seconds=120))
        parameters = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(signed).query))
        authorization = ", ".join(
            f"{name}={parameters[f'X-Amz-{name}']}" for name in ("Credential", "SignedHeaders", "Signature")
        )
        headers = {
            "Authorization": f"AWS4-HMAC-SHA256 {authorization}",
            "X-Amz-Date": parameters["X-Amz-Date"],
        }

        answer = request(guarded.endpoint, "GET", signed.removeprefix(guarded.endpoint), headers=headers)

        error = xml_error(answer)
        assert (error.status, error.code) == (400, "IncompleteSignature")

    def test_url_older_than_the_skew_but_not_expired_is_accepted(self, guarded, url):
        old = now() - datetime.timedelta(hours=2)

        assert self.get(guarded, SIGNER.presigned("GET", url, 86_400, old)).status == 200

    def test_changed_parameter_is_refused(self, guarded, url):
        signed = SIGNER.presigned("GET", url).replace("VisibilityTimeout=0", "VisibilityTimeout=9")

        error = xml_error(self.get(guarded, signed))

        assert (error.status, error.code) == (403, "SignatureDoesNotMatch")

    def test_bad_secret_is_refused(self, guarded, url):
        error = xml_error(self.get(guarded, Signer("AKID", "WRONG").presigned("GET", url)))

        assert (error.status, error.code) == (403, "SignatureDoesNotMatch")

    def test_expiry_beyond_a_week_is_refused(self, guarded, url):
        assert self.get(guarded, SIGNER.presigned("GET", url, 604_801)).status in (400, 403)


def test_without_credentials_anything_is_accepted_on_loopback(server):
    for signer in (None, Signer("anyone", "anything")):
        assert post_json(server, signer).status == 200
        assert post_form(server, signer).status == 200


def test_health_needs_no_signature(guarded):
    assert guarded.get("/health")[0] == 200


def test_listening_wider_without_credentials_is_refused(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(binary()), "serve", "--listen", f"0.0.0.0:{port}", "--data", str(tmp_path)]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, env={})

    assert ended.returncode != 0
    assert "--insecure" in ended.stderr + ended.stdout


def test_bad_secret_is_seen_by_the_sdk(guarded):
    sqs = sdk_client(guarded, access_key="AKID", secret_key="WRONG")

    with pytest.raises(sqs.exceptions.ClientError) as caught:
        sqs.list_queues()

    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def wait_for_log(server, text, count=1):
    eventually(lambda: server.log.read_text().count(text) >= count, f"{text}, {count} times in the log", 30)


def test_access_keys_change_without_a_restart(make_server):
    server = make_server(config=CONFIG)
    file = server.directory / "millrace.toml"
    new = Signer("AKIDNEW", "SECRET2")
    statuses = lambda: [post_json(server, signer).status for signer in (SIGNER, new)]
    assert statuses() == [200, 403]

    # As most editors and all orchestrators do it: another file in its place.
    both = CONFIG + '[[credentials]]\naccess_key = "AKIDNEW"\nsecret_key = "SECRET2"\n'
    (server.directory / "new").write_text(both)
    (server.directory / "new").rename(file)
    wait_for_log(server, "access keys changed")
    assert statuses() == [200, 200]
    file.write_text(both.replace("SECRET2", "SECRET3").replace("AKID\"", "AKIDOLD\""))
    wait_for_log(server, "access keys changed", 2)
    new = Signer("AKIDNEW", "SECRET3")
    assert statuses() == [403, 200]

    file.write_text("")
    wait_for_log(server, "changed access keys not taken")
    assert statuses() == [403, 200]


def test_a_file_of_keys_that_is_being_rewritten_does_not_count_by_halves(make_server):
    both = CONFIG + '[[credentials]]\naccess_key = "AKIDNEW"\nsecret_key = "SECRET2"\n'
    server = make_server(config=both)
    new = Signer("AKIDNEW", "SECRET2")

    # Each part is a valid file, and none is whole before the last.
    for key in ["AKID", "AKID2", "AKID3"]:
        half = CONFIG.replace('"AKID"', f'"{key}"')
        (server.directory / "millrace.toml").write_text(half)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            assert [post_json(server, signer).status for signer in (SIGNER, new)] == [200, 200]
            time.sleep(0.1)  # The time in which nothing may happen.
    (server.directory / "millrace.toml").write_text(both.replace("SECRET2", "SECRET3"))

    wait_for_log(server, "access keys changed")
    assert [post_json(server, signer).status for signer in (SIGNER, new)] == [200, 403]
    assert post_json(server, Signer("AKIDNEW", "SECRET3")).status == 200
    assert server.log.read_text().count("access keys changed") == 1


@pytest.mark.parametrize("mode, is_warned", [(0o600, False), (0o640, False), (0o666, True), (0o602, True)])
def test_secrets_that_others_can_change_are_warned_of(make_server, tmp_path, mode, is_warned):
    file = tmp_path / "keys.toml"
    file.write_text(CONFIG)
    file.chmod(mode)
    text = "everybody on this machine can change it"

    checked = subprocess.run(
        [binary(), "config", "check", "--config", file], capture_output=True, text=True, timeout=20, env={}
    )
    server = make_server(args=["--config", str(file)])
    server.stop()

    assert (checked.returncode, text in checked.stderr) == (0, is_warned), checked.stderr
    assert (text in server.log.read_text()) == is_warned


@pytest.mark.parametrize("command", [["config", "check"], ["serve", "--listen", "127.0.0.1:0", "--console-listen", "off"]])
@pytest.mark.parametrize("wrong", ["SECRET ", " SECRET", "SECRET\\n", "SEC\\u0000RET", "\\tSECRET"])
def test_secrets_with_blanks_at_their_ends_are_refused(tmp_path, command, wrong):
    file = tmp_path / "keys.toml"
    file.touch(0o600)
    for key in ["access_key", "secret_key"]:
        pair = {"access_key": "AKID", "secret_key": "SECRET"} | {key: wrong}
        lines = "".join(f'{name} = "{value}"\n' for name, value in pair.items())
        for text in [lines, "[[credentials]]\n" + lines]:
            file.write_text(text)

            ended = subprocess.run(
                [binary(), *command, "--config", file, "--data", tmp_path / "data"],
                capture_output=True,
                text=True,
                timeout=20,
                env={},
            )

            assert ended.returncode == 2, ended.stderr
            assert key in ended.stderr and ("blank" in ended.stderr or "control" in ended.stderr)
            assert "SECRET" not in ended.stderr
