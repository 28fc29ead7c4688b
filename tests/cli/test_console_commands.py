"""The commands that the console's forms show, run by the AWS CLI, ask for what the forms ask for.

The console's own cli.js writes them; a server that only records receives what the CLI makes of them."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
AWS = ROOT / "tests" / ".venv-current" / "bin" / "aws"
CLI_JS = ROOT / "crates" / "millrace-console" / "assets" / "cli.js"
QUEUE = "http://127.0.0.1:4566/000000000000/letters"
ARN = "arn:aws:sqs:us-east-1:000000000000:letters"

# Reads [[service, action, input, region, options], …] and prints the commands, each as JSON.
WRITE_COMMANDS = """
const { readFileSync } = require("node:fs");
const [endpoint, file] = process.argv.slice(1);
const names = "const copyButton = null, h = null, setText = null;";
const data = { endpoint, region: "us-east-1", account: "000000000000", is_authenticated: false };
const source = readFileSync(file, "utf8").replace(/^import .*$/gm, "");
import(`data:text/javascript,${encodeURIComponent(`${names} const data = ${JSON.stringify(data)};\\n${source}`)}`)
  .then(({ command }) => {
    for (const asked of JSON.parse(readFileSync(0))) console.log(JSON.stringify(command(...asked)));
  });
"""


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    """A file that no command may send."""
    path = tmp_path_factory.mktemp("secret") / "file"
    path.write_text("contents of a local file")
    return path


@pytest.fixture(scope="module")
def nasty(secret):
    """Texts that the CLI or a shell takes for something else."""
    return [
        f"file://{secret}", f"fileb://{secret}", "http://127.0.0.1:9/", "https://127.0.0.1:9/",
        "-x", "--query", "--", "it's", "''", '"', "`id`", "$(id)", "$HOME", "a\\", "\\n", "a\nb",
        "\r\n", "\t", "\x00", "\x01\x1b[31m\x7f\x9f", "[", "{", "[]", '{"a": 1}', "a=b", "a=b,c=d",
        "a,b", "@file", "=ls", "007", "1e3", "null", " a ", "e\u0301", "日本", "👩‍👩‍👧", "\u2028", "{n}", "END",
    ]  # fmt: skip


@contextlib.contextmanager
def recorder():
    """A server that knows no action and remembers all: `(endpoint, requests)`."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            action = self.headers["X-Amz-Target"].split(".")[1]
            scope = self.headers["Authorization"].split("Credential=")[1].split("/")
            requests.append((action, json.loads(body), scope[0], scope[2]))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def arrived(tmp_path):
    """`arrived([service, action, input, …], …)` → for each what the CLI asked for."""

    def run(*asked):
        environment = {
            **os.environ,
            "PATH": f"{AWS.parent}:{os.environ['PATH']}",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            # As a container without a locale is.
            "LC_ALL": "C.UTF-8",
        }
        with recorder() as (endpoint, requests):
            written = subprocess.run(
                ["node", "-e", WRITE_COMMANDS, "--", endpoint, CLI_JS],
                input=json.dumps(asked),
                capture_output=True,
                text=True,
                check=True,
            )
            for line in written.stdout.splitlines():
                script = tmp_path / "script"
                script.write_text(json.loads(line))
                done = subprocess.run(
                    ["sh", script], env=environment, capture_output=True, text=True, timeout=120
                )
                assert done.returncode == 0, (script.read_text()[:2000], done.stderr)
        return requests

    return run


def test_bodies_and_attributes(arrived, nasty):
    # Ten attributes at most, and a name of each kind that SQS takes.
    def message(texts):
        names = ["a", "-b", "c.d", "_e", "0", "F-g", "h", "i", "j"]
        attributes = {
            name: {"DataType": "String.x", "StringValue": text}
            for name, text in zip(names, texts[1:], strict=False)
        }
        return {"QueueUrl": QUEUE, "MessageBody": texts[0], "MessageAttributes": attributes}

    chunks = [nasty[start : start + 10] for start in range(0, len(nasty), 10)]
    inputs = [message(chunk) for chunk in chunks]

    found = arrived(*(["sqs", "SendMessage", input] for input in inputs))

    assert [(action, body) for action, body, _, _ in found] == [
        ("SendMessage", input) for input in inputs
    ]


@pytest.mark.parametrize("index", range(6))
def test_bodies_that_are_files_addresses_or_options(arrived, nasty, index):
    input = {
        "QueueUrl": QUEUE,
        "MessageBody": nasty[index],
        "MessageGroupId": nasty[index],
        "MessageDeduplicationId": nasty[index],
        "DelaySeconds": 0,
    }

    assert arrived(["sqs", "SendMessage", input])[0][1] == input


def test_binary_attributes(arrived, secret):
    contents = [bytes(range(256)), f"file://{secret}".encode(), b"\x00", b"aGk=", b"text"]
    binaries = {
        f"b{index}": {
            "DataType": "Binary.gif",
            "BinaryValue": base64.b64encode(content).decode(),
        }
        for index, content in enumerate(contents)
    }
    strings = {
        "s": {"DataType": "String", "StringValue": "it's [a]={b},c\\'d \\ \"e\" file:///f @ 日本"},
        "-n": {"DataType": "Number", "StringValue": "-1"},
    }
    one = {"MessageBody": "file:///x", "MessageAttributes": {**strings, **binaries}}
    long = {"MessageBody": "it's $n\n" * 20_000, "MessageAttributes": binaries}

    found = arrived(*(["sqs", "SendMessage", {"QueueUrl": QUEUE, **each}] for each in (one, long)))

    assert [body for _, body, _, _ in found] == [{"QueueUrl": QUEUE, **one}, {"QueueUrl": QUEUE, **long}]


def test_long_bodies_and_several_messages(arrived):
    body = "it's $HOME `id` \\ \r\n \x00 日本 END\n" * 8000
    repeat = {"count": 2, "mark": "nmark"}
    several = {"QueueUrl": QUEUE, "MessageBody": body + "nmark"}
    few = {"QueueUrl": QUEUE, "MessageBody": "file://nmark", "MessageDeduplicationId": "d-nmark"}

    found = arrived(
        ["sqs", "SendMessage", {"QueueUrl": QUEUE, "MessageBody": body}],
        ["sqs", "SendMessage", several, "us-east-1", {"repeat": repeat}],
        ["sqs", "SendMessage", few, "us-east-1", {"repeat": repeat}],
    )

    assert [found["MessageBody"] for _, found, _, _ in found] == [
        body, body + "1", body + "2", "file://1", "file://2",
    ]  # fmt: skip
    assert [found.get("MessageDeduplicationId") for _, found, _, _ in found[3:]] == ["d-1", "d-2"]


def test_every_other_command_of_the_forms(arrived, nasty):
    file = nasty[0]
    tags = {f"{text}{index}": text for index, text in enumerate(nasty)}
    asked = [
        ["sqs", "CreateQueue", {"QueueName": "-x", "Attributes": {"RedrivePolicy": '{"a": "-x"}'}}],
        ["sqs", "SetQueueAttributes", {"QueueUrl": QUEUE, "Attributes": {"Policy": ""}}],
        ["sqs", "SetQueueAttributes", {"QueueUrl": QUEUE, "Attributes": {"Policy": file}}],
        ["sqs", "TagQueue", {"QueueUrl": QUEUE, "Tags": tags}],
        ["sqs", "UntagQueue", {"QueueUrl": QUEUE, "TagKeys": list(tags)}],
        ["sqs", "StartMessageMoveTask", {"SourceArn": ARN, "DestinationArn": file, "MaxNumberOfMessagesPerSecond": 5}],
        ["sqs", "CancelMessageMoveTask", {"TaskHandle": "-handle"}],
        ["sqs", "PurgeQueue", {"QueueUrl": QUEUE}],
        ["sqs", "DeleteQueue", {"QueueUrl": QUEUE}],
        ["sqs", "DeleteMessage", {"QueueUrl": QUEUE, "ReceiptHandle": "-handle"}],
        ["sqs", "ChangeMessageVisibility", {"QueueUrl": QUEUE, "ReceiptHandle": file, "VisibilityTimeout": 0}],
        ["sqs", "ReceiveMessage", {"QueueUrl": QUEUE, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0, "MessageAttributeNames": ["All"]}],
        ["cloudwatch", "DeleteAlarms", {"AlarmNames": [file]}, "eu-west-1", {"account": "111122223333"}],
        ["cloudwatch", "PutMetricAlarm", {
            "AlarmName": file, "AlarmDescription": nasty[-1], "Namespace": "AWS/SQS", "MetricName": "Age", "Statistic": "Maximum",
            "Dimensions": [{"Name": "QueueName", "Value": "-x"}], "Period": 60, "EvaluationPeriods": 3, "Threshold": -0.5,
            "ComparisonOperator": "LessThanThreshold", "TreatMissingData": "missing", "AlarmActions": [], "OKActions": [ARN], "ActionsEnabled": False,
        }],
    ]  # fmt: skip

    found = arrived(*asked)

    assert [(action, body) for action, body, _, _ in found] == [
        (action, input) for _, action, input, *_ in asked
    ]
    assert [(key, region) for *_, key, region in found if region != "us-east-1"] == [
        ("111122223333", "eu-west-1")
    ]


def test_metrics_of_a_chart(arrived):
    query = {
        "Id": "s0",
        "Label": "file:///x, -y",
        "MetricStat": {
            "Metric": {
                "Namespace": "-x",
                "MetricName": "http://127.0.0.1:9/",
                "Dimensions": [{"Name": "a=b", "Value": "it's"}],
            },
            "Period": 60,
            "Stat": "p99",
        },
    }
    input = {
        "MetricDataQueries": [query],
        "StartTime": "2026-01-02T03:04:05.678Z",
        "EndTime": "2026-01-02T06:04:05.678Z",
    }

    [(action, body, _, _)] = arrived(["cloudwatch", "GetMetricData", input])

    assert (action, body["MetricDataQueries"]) == ("GetMetricData", [query])
    # The CLI sends whole seconds.
    assert (int(body["StartTime"]), int(body["EndTime"])) == (1767323045, 1767333845)
