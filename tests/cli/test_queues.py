"""`millrace queue`: the administrator's commands."""

import contextlib
import json
import os
import subprocess
from datetime import UTC, datetime

import pytest

from support.fake import FakeService
from support.server import binary


@pytest.mark.parametrize("what, flags", [
    ("--tag a", ["--tag", "a=1", "--tag", "a=2"]),
    ("--attribute DelaySeconds", ["--attribute", "DelaySeconds=1", "--attribute", "DelaySeconds=2"]),
    ("--attribute DelaySeconds", ["--delay", "1", "--attribute", "DelaySeconds=2"]),
])
def test_nothing_is_given_two_values(millrace, new_name, what, flags):
    refused = millrace("queue", "create", new_name(), *flags, expect=2)

    assert f"{what} is given twice" in refused.stderr


def test_created_queue_is_listed_and_shown(millrace, lines, new_name, attributes):
    name = new_name("cli")
    (url,) = lines("queue", "create", name, "--visibility", "45", "--retention", "3600", "--tag", "team=x")

    assert url.endswith("/" + name)
    assert attributes(url)["VisibilityTimeout"] == "45"
    heads, row = lines("queue", "list", name)
    titles = ["NAME", "AVAILABLE", "IN FLIGHT", "DELAYED", "SENT/S", "RECEIVED/S", "OLDEST", "TYPE", "DEAD LETTERS TO"]
    assert heads.split() == " ".join(titles).split()
    assert row.split() == [name, "0", "0", "0", "0", "0", "-", "standard"]
    (listed,) = json.loads(millrace("queue", "list", name, "--json").stdout)
    assert listed["QueueUrl"] == url and listed["Attributes"]["MessageRetentionPeriod"] == "3600"
    shown = millrace("queue", "show", name).stdout
    assert "VisibilityTimeout" in shown and "45 (45 s)" in shown and "3600 (1 h)" in shown
    created = int(attributes(url)["CreatedTimestamp"])
    assert f"{created} ({datetime.fromtimestamp(created, UTC):%Y-%m-%dT%H:%M:%SZ})" in shown
    assert json.loads(millrace("queue", "show", name, "--json").stdout)["Tags"] == {"team": "x"}


@pytest.mark.parametrize("command", [
    ["queue", "show"], ["queue", "show", "--json"], ["peek"], ["peek", "--json"], ["export"],
])
def test_nobody_steers_the_terminal_of_who_looks(server, sqs, queue, command):
    """With attributes and bodies, which others write. JSON spells ESC out, but not DEL and CSI."""
    url = queue(KmsMasterKeyId="k\x1b[2J\x9b2J")
    sqs.send_message(QueueUrl=url, MessageBody="m\x7f\x9b2J")
    ours, theirs = os.openpty()
    environment = os.environ | {"MILLRACE_ENDPOINT": server.endpoint}
    arguments = [binary(), *command, url]
    with open(ours, "rb", buffering=0) as screen:
        with open(theirs, "wb") as terminal:
            subprocess.run(arguments, env=environment, stdout=terminal, timeout=60, check=True)
        shown = b""
        # A terminal that nobody writes to any more ends with EIO.
        with contextlib.suppress(OSError):
            while more := screen.read(65536):
                shown += more

    assert b"2J" in shown
    assert not {"\x1b", "\x7f", "\x9b"} & set(shown.decode())


def test_a_servers_refusal_does_not_steer_the_terminal(millrace):
    class Hostile(FakeService):
        def take(self, method, target, headers, body):
            return 400, "application/json", json.dumps({"__type": "a#B", "message": "no \x1b[2J"}).encode()

    with contextlib.closing(Hostile()) as hostile:
        refused = millrace("queue", "list", endpoint=hostile.endpoint, expect=1)

    assert "no \\u{1b}[2J" in refused.stderr


def test_more_queues_than_one_answer_names_are_listed(make_server, millrace):
    server = make_server(config="".join(f"[queues.many-{n:04}]\n" for n in range(1100)))

    listed = json.loads(millrace("queue", "list", "many-", "--json", endpoint=server.endpoint).stdout)

    names = [f"many-{n:04}" for n in range(1100)]
    assert [queue["QueueUrl"].rpartition("/")[2] for queue in listed] == names
    rows = millrace("queue", "list", "many-", endpoint=server.endpoint).stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == names


def test_dead_letter_queue_is_named_by_name(lines, millrace, new_name, attributes, arn):
    dead, work = new_name("dead"), new_name("work")
    (dead_url,) = lines("queue", "create", dead)
    (work_url,) = lines("queue", "create", work, "--dead-letters", dead, "--max-receives", "3")

    policy = json.loads(attributes(work_url)["RedrivePolicy"])
    assert policy == {"deadLetterTargetArn": arn(dead_url), "maxReceiveCount": 3}
    assert lines("queue", "list", work)[1].split()[-1] == dead
    assert ["dead", "letters", "from", work] in [line.split() for line in lines("queue", "show", dead)]
    millrace("queue", "create", new_name(), "--max-receives", "3", expect=2)


def test_a_queue_is_changed_in_what_is_named(millrace, lines, new_name, attributes, arn):
    name, dead = new_name("set"), new_name("dead")
    (dead_url,) = lines("queue", "create", dead)
    (url,) = lines("queue", "create", name, "--delay", "7", "--visibility", "45", "--tag", "a=1", "--tag", "b=2")

    millrace("queue", "set", name, "--visibility", "60", "--dead-letters", dead, "--max-receives", "3",
             "--attribute", "MaximumMessageSize=2048", "--tag", "b=3", "--untag", "a")

    found = attributes(url)
    assert (found["VisibilityTimeout"], found["MaximumMessageSize"], found["DelaySeconds"]) == ("60", "2048", "7")
    assert json.loads(found["RedrivePolicy"]) == {"deadLetterTargetArn": arn(dead_url), "maxReceiveCount": 3}
    assert json.loads(millrace("queue", "show", url, "--json").stdout)["Tags"] == {"b": "3"}
    millrace("queue", "set", url, "--attribute", "RedrivePolicy=")
    assert "RedrivePolicy" not in attributes(url)


def test_a_change_of_a_queue_that_cannot_be_is_refused_whole(millrace, queue, attributes):
    url = queue()
    before = attributes(url)

    assert "nothing to set" in millrace("queue", "set", url, expect=2).stderr
    refused = millrace("queue", "set", url, "--delay", "901", "--visibility", "60", "--tag", "a=1", expect=1)
    assert "DelaySeconds" in refused.stderr
    assert "QueueDoesNotExist" in millrace("queue", "set", "no-such-queue", "--delay", "1", expect=1).stderr

    assert attributes(url) == before
    assert json.loads(millrace("queue", "show", url, "--json").stdout)["Tags"] == {}


def test_what_cannot_be_undone_is_agreed_to_first(millrace, lines, queue, counts):
    url = queue()
    millrace("send", url, "kept until agreed")

    refused = millrace("queue", "purge", url, expect=2)
    assert "1 message?" in refused.stderr and "--yes" in refused.stderr
    assert counts(url) == (1, 0, 0)

    millrace("queue", "purge", url, "--yes")
    assert counts(url) == (0, 0, 0)
    name = url.rpartition("/")[2]
    millrace("queue", "delete", name, "-y")
    assert len(lines("queue", "list", name)) == 1


def test_a_refusal_of_the_service_is_told_as_it_is(make_server, millrace):
    endpoint = make_server(args=["--strict"]).endpoint
    millrace("queue", "create", "purged", endpoint=endpoint)
    millrace("queue", "purge", "purged", "--yes", endpoint=endpoint)

    too_soon = millrace("queue", "purge", "purged", "--yes", expect=1, endpoint=endpoint)

    assert "PurgeQueueInProgress" in too_soon.stderr and "signature" not in too_soon.stderr


def test_show_says_that_bodies_are_not_encrypted(millrace, lines, queue):
    url = queue()

    (said,) = [line for line in lines("queue", "show", url) if line.startswith("SqsManagedSseEnabled")]
    assert said.split("  ")[-1].strip() == "true (Millrace only keeps it: bodies are not encrypted yet)"
    # What programs read is as Amazon answers it.
    attributes = json.loads(millrace("queue", "show", url, "--json").stdout)["Attributes"]
    assert attributes["SqsManagedSseEnabled"] == "true"

    millrace("queue", "set", url, "--attribute", "KmsMasterKeyId=alias/key")
    (said,) = [line for line in lines("queue", "show", url) if line.startswith("KmsMasterKeyId")]
    assert "alias/key (Millrace only keeps it: bodies are not encrypted yet)" in said


def test_a_queue_is_on_the_server_that_its_url_says(make_server, server, millrace, lines, new_name):
    name, other = new_name("same"), make_server()
    for endpoint in (server.endpoint, other.endpoint):
        lines("queue", "create", name, endpoint=endpoint)
    there = f"{other.endpoint}/000000000000/{name}"
    (second,) = lines("queue", "create", new_name("second"))

    def left(endpoint):
        return len(lines("queue", "list", name, endpoint=endpoint)) - 1

    lines("send", there, "over there", endpoint=None)
    assert lines("peek", name, endpoint=other.endpoint) == ["over there"]
    refused = millrace("redrive", second, "--to", there, endpoint=None, expect=2)
    assert f"{there} is not at {server.endpoint}" in refused.stderr
    millrace("queue", "delete", "--yes", there, second, endpoint=None)
    assert (left(server.endpoint), left(other.endpoint)) == (1, 0)
    # What somebody says wins, as it does for workers.
    millrace("queue", "delete", "--yes", there)
    assert (left(server.endpoint), left(other.endpoint)) == (0, 0)


def test_a_queue_is_of_the_region_and_account_that_its_arn_says(millrace, lines, queue, arn, counts):
    url = queue()
    own = arn(url)

    lines("send", own, "x")
    assert counts(url) == (1, 0, 0)
    refused = millrace("queue", "purge", "--yes", own.replace("us-east-1", "eu-west-1"), expect=2)
    assert f"has {own}" in refused.stderr and "--region" in refused.stderr
    millrace("queue", "purge", "--yes", own.replace("000000000000", "111111111111"), expect=1)
    millrace("queue", "purge", "--yes", own.replace(":sqs:", ":sns:"), expect=2)
    assert counts(url) == (1, 0, 0)


def test_errors_name_the_queue_and_the_code(millrace):
    failed = millrace("queue", "show", "no-such-queue", expect=1)

    assert "no-such-queue" in failed.stderr and "QueueDoesNotExist" in failed.stderr
    assert failed.stdout == ""
    unreachable = millrace("queue", "list", endpoint="http://127.0.0.1:1", expect=1)
    assert "onnect" in unreachable.stderr and "http://127.0.0.1:1" in unreachable.stderr
    assert "http" in millrace("queue", "list", endpoint="ftp://x", expect=2).stderr
    millrace("queue", "create", "x", "--tag", "no-value", expect=2)


def test_a_named_region_counts_without_keys(millrace, lines, new_name):
    name = new_name("region")
    lines("queue", "create", name)

    def listed(*flags):
        return [line.split()[0] for line in lines("queue", "list", name, *flags)[1:]]

    assert listed("--region", "eu-west-1") == []
    millrace("queue", "delete", name, "--yes", "--region", "eu-west-1", expect=1)
    lines("queue", "create", name, "--region", "eu-west-1")
    millrace("queue", "delete", name, "--yes", "--region", "eu-west-1")
    assert (listed(), listed("--region", "eu-west-1")) == ([name], [])
    assert listed("--region", "us-east-1") == [name]
