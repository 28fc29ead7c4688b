"""How commands are written: durations, addresses, flags before the command, completions of names."""

import json
import os
import re
import subprocess

import pytest

from support.process import running
from support.server import binary, free_port


@pytest.mark.parametrize("written, seconds", [("45", "45"), ("45s", "45"), ("2m", "120"), ("1h30m", "5400"), ("0.5m", "30")])
def test_durations_have_one_syntax(millrace, lines, new_name, attributes, written, seconds):
    (url,) = lines("queue", "create", new_name(), "--visibility", written, "--delay", "5s")

    assert attributes(url)["VisibilityTimeout"] == seconds
    millrace("queue", "set", url, "--visibility", "1m")
    assert attributes(url)["VisibilityTimeout"] == "60"
    millrace("send", url, "x", "--delay", "0s")
    assert lines("receive", url, "--wait", "5s", "--visibility", "1m", "--delete") == ["x"]


@pytest.mark.parametrize("command", [
    ["receive", "q", "--wait", "21s"],
    ["receive", "q", "--wait", "500ms"],
    ["send", "q", "x", "--delay", "16m"],
    ["queue", "create", "q", "--visibility", "5min"],
    ["top", "--interval", "10ms"],
    ["ready", "--wait", "2d"],
])
def test_a_duration_that_cannot_be_says_what_is_expected(millrace, command):
    refused = millrace(*command, expect=2).stderr

    assert re.search(r"expected|longest|units are", refused), refused


def test_flags_stand_before_or_behind_the_command(server, millrace, lines, queue, tmp_path):
    name = queue().rpartition("/")[2]

    for command in (
        ["--endpoint", server.endpoint, "queue", "list", name],
        ["queue", f"--endpoint={server.endpoint}", "list", name],
        ["queue", "list", name, "--endpoint", server.endpoint],
    ):
        assert lines(*command, endpoint=None)[1].split()[0] == name
    shown = json.loads(millrace("--json", "--data", str(tmp_path / "d"), "config", "show").stdout)
    assert shown["settings"]["data"] == {"value": str(tmp_path / "d"), "origin": "flag --data"}
    unknown = millrace("--no-such-flag", "queue", "list", expect=2).stderr
    assert "--no-such-flag" in unknown and "queue list" in unknown


@pytest.mark.parametrize("written", ["{port}", ":{port}", "localhost:{port}", "127.0.0.1:{port}"])
def test_a_port_alone_is_one_of_this_machine(tmp_path, millrace, written):
    port = free_port()
    address = written.format(port=port)
    command = [binary(), "serve", "--listen", address, "--console-listen", "off", "--durability", "memory"]
    with running([*map(str, command), "--data", str(tmp_path / "data")]):
        ready = millrace("ready", "--wait", "20s", endpoint=f"http://127.0.0.1:{port}")

    assert "is ready" in ready.stderr


def test_an_address_that_cannot_be_is_refused_with_examples(millrace):
    refused = millrace("serve", "--listen", "localhost", expect=2).stderr

    assert '"localhost"' in refused and "localhost:4566" in refused


def test_a_message_is_settled_by_its_handle(millrace, lines, queue, counts):
    url = queue(VisibilityTimeout="30")
    (message_id,) = lines("send", url, "by hand")
    (line,) = lines("receive", url, "--show", "id,handle,receives,body")

    shown_id, handle, receives, body = line.split("\t")
    assert (shown_id, receives, body) == (message_id, "1", "by hand")
    assert "5 min" in millrace("extend", url, handle, "--visibility", "5m").stderr
    assert "30 s" in millrace("extend", url, handle).stderr
    assert counts(url) == (0, 1, 0)
    millrace("extend", url, handle, "--visibility", "0")
    assert counts(url) == (1, 0, 0)
    (handle,) = lines("receive", url, "--show", "handle")
    millrace("delete", url, handle)
    assert counts(url) == (0, 0, 0)
    wrong = millrace("delete", url, "-no-handle", expect=1).stderr
    assert "receive --show handle" in wrong
    millrace("receive", url, "--show", "age", expect=2)


def columns(line):
    return re.split(r"\s{2,}", line.strip())


def test_list_and_top_tell_rates_and_ages(make_server, millrace):
    server = make_server()
    run = lambda *command: millrace(*command, endpoint=server.endpoint).stdout.splitlines()
    run("queue", "create", "jobs")
    millrace("send", "jobs", "--lines", stdin="x\n" * 120, endpoint=server.endpoint)
    run("receive", "jobs", "--max", "60", "--delete")
    server.advance(65)

    heads, row = map(columns, run("queue", "list"))
    assert heads == ["NAME", "AVAILABLE", "IN FLIGHT", "DELAYED", "SENT/S", "RECEIVED/S", "OLDEST", "TYPE", "DEAD LETTERS TO"]
    assert row[:4] == ["jobs", "60", "0", "0"] and row[7:] == ["standard"]
    sent, received = float(row[4]), float(row[5])
    assert 1 <= sent <= 2 and 0.5 <= received <= 1, row
    assert row[6].startswith("1 min"), row
    total, _, heads, row = run("top")
    assert total.endswith("1 queue, 60 messages")
    assert columns(heads) == ["NAME", "AVAILABLE", "IN FLIGHT", "DELAYED", "SENT/S", "RECEIVED/S", "OLDEST", "CHANGE/S"]
    assert columns(row)[:5] == ["jobs", "60", "0", "0", f"{sent:.1f}"]
    again = run("top", "--interval", "50ms", "--times", "2")
    assert columns(again[-1])[4:] == ["0", "0", columns(again[-1])[6], "+0"]


@pytest.mark.parametrize("line, expected", [
    (["queue", "sh"], ["show"]),
    (["queue", "show", "{name}"], ["{name}-one", "{name}-two"]),
    (["send", "{name}-t"], ["{name}-two"]),
    (["redrive", "x", "--to", "{name}-o"], ["{name}-one"]),
])
def test_shells_complete_commands_and_names_of_queues(server, sqs, new_name, line, expected):
    name = new_name("complete")
    for suffix in ("one", "two"):
        sqs.create_queue(QueueName=f"{name}-{suffix}")
    words = ["millrace", *(word.format(name=name) for word in line), "--endpoint", server.endpoint]
    environment = {"PATH": os.environ["PATH"], "_MILLRACE_COMPLETE": "bash", "_CLAP_IFS": "\n"}
    environment["_CLAP_COMPLETE_INDEX"] = str(len(line))

    done = subprocess.run([binary(), "--", *words], env=environment, capture_output=True, text=True, timeout=30)

    assert done.stdout.split() == [candidate.format(name=name) for candidate in expected]
