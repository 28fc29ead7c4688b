"""`send`, `receive`, `peek`, `tail`, `redrive`, `export`, `import`, `top`."""

import contextlib
import json
import signal
import stat
import subprocess
import sys
import time

import pytest

from support.fake import FakeService
from support.process import running
from support.server import binary
from support.waiting import eventually
from support.wire import JsonApi


class Stub(FakeService):
    """Says yes to every action, and does none; knows no path but that of actions, as Amazon's server."""

    def take(self, method, target, headers, body):
        return 200 if target == "/" else 404, "application/json", b"{}"


class Old(FakeService):
    """Shows the first of a queue's messages, and does not say that there are more."""

    def take(self, method, target, headers, body):
        count = {"Attributes": {"ApproximateNumberOfMessages": "10050"}}
        shown = {"Messages": [{"Body": "x"}] * 10_000}
        answer = shown if target.startswith("/_aws/") else count
        return 200, "application/json", json.dumps(answer).encode()


def test_sent_message_has_body_attributes_and_group(millrace, queue, fifo, receive):
    url, ordered = queue(), fifo()
    sent = millrace("send", url, "hello", "--attribute", "a=b=c", "--attribute", "n:Number=4").stdout.strip()
    millrace("send", url, stdin="from standard input\n")
    millrace("send", ordered, "-", "--group", "g", "--deduplication", "d", stdin="ordered")

    messages = {message["Body"]: message for message in receive(url)}
    assert messages.keys() == {"hello", "from standard input\n"}
    hello = messages["hello"]
    assert hello["MessageId"] == sent
    assert hello["MessageAttributes"]["a"] == {"StringValue": "b=c", "DataType": "String"}
    assert hello["MessageAttributes"]["n"] == {"StringValue": "4", "DataType": "Number"}
    (message,) = receive(ordered)
    assert message["Body"] == "ordered"
    assert message["Attributes"]["MessageGroupId"] == "g"
    assert message["Attributes"]["MessageDeduplicationId"] == "d"
    refused = millrace("send", ordered, "without a group", expect=1)
    assert "MessageGroupId" in refused.stderr
    refused = millrace("send", url, "-", "--attribute", "a=1", "--attribute", "a:Number=2", expect=2)
    assert "--attribute a is given twice" in refused.stderr


def test_lines_are_messages_in_order_and_too_many_bytes_are_split(lines, millrace, fifo):
    url = fifo()
    text = [f"{n} " + "x" * 200_000 for n in range(12)]

    ids = lines("send", url, "--lines", "--group", "g", stdin="\n".join(text))

    assert len(set(ids)) == 12
    assert lines("receive", url, "--max", "10") == text[:10]


def test_every_line_that_is_refused_is_named(millrace, queue, counts):
    url = queue()
    text = "".join("\x01\n" if n in (13, 15) else f"{n}\n" for n in range(1, 31))

    failed = millrace("send", url, "--lines", stdin=text, expect=1)

    assert "line 13: InvalidMessageContents" in failed.stderr and "line 15: " in failed.stderr
    assert "line 20 was the last that was accepted" in failed.stderr
    assert len(failed.stdout.splitlines()) == 18
    assert counts(url) == (18, 0, 0)


def test_send_that_the_answer_does_not_confirm_fails(millrace):
    with contextlib.closing(Stub()) as stub:
        failed = millrace("send", f"{stub.endpoint}/000000000000/q", "lost", endpoint=stub.endpoint, expect=1)

    assert failed.stdout == "" and "names no message" in failed.stderr


def test_receive_hides_deletes_or_shows_again(millrace, lines, queue, counts):
    url = queue()
    millrace("send", url, "--lines", stdin="1\n2\n3\n")

    assert len(lines("receive", url, "--max", "100", "--visibility", "0")) == 3
    assert counts(url) == (3, 0, 0)
    first = json.loads(millrace("receive", url, "--json").stdout)
    assert first["Attributes"]["ApproximateReceiveCount"] == "2" and first["ReceiptHandle"]
    assert len(lines("receive", url, "--max", "10", "--delete")) == 2
    assert counts(url) == (0, 1, 0)
    empty = millrace("receive", url)
    assert empty.stdout == "" and "no message" in empty.stderr


def test_receive_waits_for_the_first_message(millrace, queue, background):
    url = queue()
    waiting = background(millrace, "receive", url, "--wait", "20")
    time.sleep(0.3)  # It should be waiting by now; if not, the message is there at once.
    millrace("send", url, "late")

    assert waiting.result().stdout == "late\n"


def test_peek_changes_nothing_and_shows_every_state(millrace, lines, queue, counts, receive):
    url = queue()
    millrace("send", url, "delayed", "--delay", "900")
    millrace("send", url, "held")
    millrace("receive", url)
    millrace("send", url, "ready")

    assert lines("peek", url) == ["ready"]
    assert sorted(lines("peek", url, "--all")) == ["[delayed] delayed", "[in flight] held", "ready"]
    assert "there are more" in millrace("peek", url, "--all", "--max", "2").stderr
    assert millrace("peek", url, "--all", "--max", "3").stderr == ""
    assert counts(url) == (1, 1, 1)
    (message,) = receive(url)
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_queue_larger_than_an_answer_is_shown_and_exported_page_by_page(millrace, lines, queue, sqs):
    url = queue()
    # JSON takes twice as many bytes for them.
    for number in range(36):
        sqs.send_message(QueueUrl=url, MessageBody=f"{number} " + '"' * 1_000_000)

    shown = [line.split()[0] for line in lines("peek", url, "--max", "100")]
    (first,) = lines("peek", url, "--max", "1")
    exported = millrace("export", url)

    assert shown == [str(number) for number in range(36)]
    assert first.startswith("0 ")
    assert [json.loads(line)["Body"].split()[0] for line in exported.stdout.splitlines()] == shown


@pytest.mark.parametrize("command", ["peek", "tail", "export"])
def test_looking_is_refused_where_the_server_cannot(millrace, command):
    with contextlib.closing(Stub()) as stub:
        refused = millrace(command, f"{stub.endpoint}/0/q", endpoint=stub.endpoint, expect=1)

    assert "by Millrace only" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("flags", [["--from-start"], ["--consume"]])
def test_tail_prints_what_is_there_and_what_comes(server, millrace, queue, counts, flags):
    url = queue()
    millrace("send", url, "there")
    command = [binary(), "tail", url, "--max", "3", "--endpoint", server.endpoint, *flags]
    with running(command, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout.readline() == "there\n"
        millrace("send", url, "--lines", stdin="2\n3\n")
        rest = sorted(tail.stdout.read().splitlines())
        assert tail.wait(10) == 0

    assert rest == ["2", "3"]
    assert counts(url) == ((0, 0, 0) if "--consume" in flags else (3, 0, 0))


@pytest.mark.parametrize("flag", ["--from-start", "--consume"])
def test_tail_goes_on_when_the_server_is_back(make_server, flag):
    server = make_server()
    sqs = JsonApi(server.endpoint)
    url = sqs.call("CreateQueue", QueueName="jobs")["QueueUrl"]
    command = [binary(), "tail", "jobs", "--max", "2", "--endpoint", server.endpoint, flag]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        sqs.call("SendMessage", QueueUrl=url, MessageBody="before")
        assert tail.stdout.readline() == "before\n"
        server.stop()
        assert "trying again" in tail.stderr.readline()
        server.start()
        sqs.call("SendMessage", QueueUrl=url, MessageBody="after")
        assert tail.stdout.readline() == "after\n"
        assert tail.wait(10) == 0


def test_tail_tells_that_it_does_not_see_all(server, millrace, queue, sqs):
    url = queue()
    large = "x" * (1 << 20)
    for _ in range(70):
        sqs.send_message(QueueUrl=url, MessageBody=large)

    command = [binary(), "tail", url, "--endpoint", server.endpoint]
    with running(command, stderr=subprocess.PIPE, text=True) as tail:
        assert "of 70 messages" in tail.stderr.readline()


def test_redrive_brings_dead_letters_back(millrace, lines, new_name):
    dead, work = new_name("dead"), new_name("work")
    lines("queue", "create", dead)
    lines("queue", "create", work, "--dead-letters", dead, "--max-receives", "1")
    millrace("send", work, "--lines", stdin="1\n2\n3\n")
    lines("receive", work, "--max", "10", "--visibility", "0")
    assert lines("receive", work, "--max", "10") == []
    assert sorted(lines("peek", dead)) == ["1", "2", "3"]

    assert lines("redrive", dead) == ["3 moved"]

    assert sorted(lines("peek", work)) == ["1", "2", "3"] and lines("peek", dead) == []
    moved = json.loads(millrace("redrive", dead, "--to", work, "--rate", "500", "--json").stdout)
    assert moved["Status"] == "COMPLETED"


def test_redrive_that_is_ended_says_that_the_move_goes_on(server, millrace, lines, queue, new_name):
    dead, work = queue(), new_name("work")
    lines("queue", "create", work, "--dead-letters", dead.rpartition("/")[2], "--max-receives", "1")
    millrace("send", dead, "--lines", stdin="1\n2\n3\n4\n5\n")
    slow = ["redrive", dead, "--to", work, "--rate", "1", "--endpoint", server.endpoint]
    with running([binary(), *slow], stderr=subprocess.PIPE, text=True) as redrive:
        assert "of 5 moved" in redrive.stderr.readline()
        redrive.send_signal(signal.SIGINT)
        told = redrive.stderr.read()
        assert redrive.wait(10) == 1

    assert f"the move goes on; `millrace redrive --cancel {dead}` stops it" in told
    (cancelled,) = lines("redrive", "--cancel", dead)
    assert cancelled.startswith("cancelled after ")


def test_exported_messages_are_imported_as_they_were(millrace, lines, fifo, tmp_path, counts):
    source, target, file = fifo(), fifo(), tmp_path / "messages.jsonl"
    for n in range(25):
        group = ["--group", f"g{n % 3}"]
        millrace("send", source, f"line {n}\nnext", *group, "--attribute", f"n:Number={n}")

    millrace("export", source, "--output", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert counts(source) == (25, 0, 0)
    assert "25 messages sent" in millrace("import", target, str(file), "--keep-deduplication").stderr
    again = millrace("export", target).stdout.splitlines()

    def essence(line):
        message = json.loads(line)
        attributes = {name: message["Attributes"][name] for name in ("MessageGroupId", "MessageDeduplicationId")}
        return message["Body"], message["MessageAttributes"], attributes

    assert [essence(line) for line in again] == [essence(line) for line in file.read_text().splitlines()]
    assert "File exists" in millrace("export", source, "-o", str(file), expect=1).stderr


def test_what_was_taken_out_can_be_put_back_at_once(millrace, fifo, counts):
    url = fifo()
    millrace("send", url, "--lines", "--group", "g", stdin="1\n2\n")
    exported = millrace("export", url, "--consume").stdout
    assert counts(url) == (0, 0, 0)

    millrace("import", url, "--keep-deduplication", stdin=exported)
    assert counts(url) == (0, 0, 0)
    millrace("import", url, stdin=exported)
    assert counts(url) == (2, 0, 0)
    millrace("import", url, stdin=exported)
    assert counts(url) == (2, 0, 0)


DEEP = 25_000


@pytest.fixture
def deep(millrace, queue):
    """A queue deeper than what a server shows at a time."""
    url = queue()
    millrace("send", url, "--lines", stdin="".join(f"{n}\n" for n in range(DEEP)))
    return url


def test_deep_queue_is_exported_whole_and_in_order(millrace, deep, tmp_path, counts):
    file = tmp_path / "messages.jsonl"

    told = millrace("export", deep, "--output", str(file)).stderr

    assert f"{DEEP} messages written" in told
    assert [int(json.loads(line)["Body"]) for line in file.read_text().splitlines()] == list(range(DEEP))
    assert counts(deep) == (DEEP, 0, 0)


def test_export_of_a_queue_that_changes_writes_what_stays_once(server, millrace, deep):
    """Consumers take from the old end, producers send to the other."""
    command = [binary(), "export", deep, "--endpoint", server.endpoint]
    with running(command, stdout=subprocess.PIPE, text=True) as export:
        lines = [export.stdout.readline() for _ in range(10)]
        # It waits for its reader.
        taken = {message["Body"] for _ in range(20) for message in take(server, deep)}
        millrace("send", deep, "--lines", stdin="".join(f"{n}\n" for n in range(DEEP, DEEP + 100)))
        lines += export.stdout.read().splitlines()
        assert export.wait(30) == 0

    bodies = [int(json.loads(line)["Body"]) for line in lines]
    assert bodies == sorted(set(bodies))
    assert set(range(DEEP + 100)) - set(bodies) <= set(map(int, taken))


def take(server, url):
    """Ten messages, deleted."""
    api = JsonApi(server.endpoint)
    messages = api.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
    assert "Failed" not in api.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)
    return messages


def test_peek_shows_as_many_as_it_is_asked_for(millrace, deep):
    shown = millrace("peek", deep, "--max", "12000")

    assert shown.stdout.splitlines() == [str(n) for n in range(12_000)]
    assert "there are more" in shown.stderr
    assert "there are more" not in millrace("peek", deep, "--max", str(DEEP)).stderr


def test_export_writes_nothing_rather_than_a_part(millrace):
    """At a server that shows messages and does not say where they go on."""
    with contextlib.closing(Old()) as old:
        refused = millrace("export", f"{old.endpoint}/000000000000/q", endpoint=old.endpoint, expect=1)

    assert "holds 10050 messages" in refused.stderr and "--consume" in refused.stderr
    assert refused.stdout == ""


def test_failed_export_leaves_no_file_in_the_way_of_the_next(millrace, queue, tmp_path):
    url, file = queue(), tmp_path / "messages.jsonl"

    unreachable = millrace("export", url, "-o", str(file), endpoint="http://127.0.0.1:1", expect=1)

    assert "http://127.0.0.1:1" in unreachable.stderr and "Millrace only" not in unreachable.stderr
    assert not file.exists()
    millrace("export", url, "-o", str(file))
    assert file.read_text() == ""


@pytest.mark.parametrize("more", [[], ["--consume"]])
def test_export_that_finds_the_disk_full_leaves_no_file_and_all_messages(
    millrace, queue, tmp_path, counts, more
):
    url, file = queue(), tmp_path / "messages.jsonl"
    millrace("send", url, "a")

    full = millrace("export", url, "-o", str(file), *more, file_bytes=10, expect=1)

    assert "File too large" in full.stderr
    assert not file.exists()
    assert sum(counts(url)) == 1


def test_export_that_fills_the_disk_ends_with_a_whole_line(millrace, queue, tmp_path, counts):
    url, file = queue(), tmp_path / "messages.jsonl"
    millrace("send", url, "--lines", stdin="x\n" * 30)

    full = millrace("export", url, "--consume", "-o", str(file), file_bytes=10_000, expect=1)

    lines = file.read_text().splitlines()
    assert f"{len(lines)} messages written" in full.stderr and 0 < len(lines) < 30
    assert sum(counts(url)) == 30 - len(lines)
    assert f"{len(lines)} messages sent" in millrace("import", url, str(file)).stderr


def test_export_that_is_ended_leaves_each_message_in_one_place(server, millrace, queue, tmp_path, counts):
    url, file = queue(), tmp_path / "messages.jsonl"
    millrace("send", url, "--lines", stdin="x\n" * 5_000)
    command = [binary(), "export", url, "--consume", "-o", file, "--endpoint", server.endpoint]
    with running(command, stderr=subprocess.PIPE, text=True) as export:
        eventually(lambda: file.exists() and file.stat().st_size, "the first messages", pause_s=0.001)
        export.send_signal(signal.SIGINT)
        told = export.stderr.read()
        assert export.wait(10) == 1

    lines = file.read_text().splitlines()
    assert f"{len(lines)} messages written" in told and "SIGINT: ended" in told
    assert sum(counts(url)) == 5_000 - len(lines)


def test_export_takes_messages_out_if_told_to(millrace, queue, counts):
    url = queue()
    millrace("send", url, "--lines", stdin="".join(f"{n}\n" for n in range(23)))

    exported = millrace("export", url, "--consume").stdout.splitlines()

    assert sorted(int(json.loads(line)["Body"]) for line in exported) == list(range(23))
    assert counts(url) == (0, 0, 0)


def test_import_names_the_line_that_is_wrong(millrace, queue, counts):
    url = queue()
    text = '{"Body": "fine"}\n' * 11 + '{"body": "wrong"}\n'

    failed = millrace("import", url, stdin=text, expect=1)

    assert "11 messages sent" in failed.stderr
    assert "line 12" in failed.stderr and "line 11 was the last that was accepted" in failed.stderr
    assert counts(url) == (11, 0, 0)


def test_import_that_is_ended_says_how_far_it_came(server, queue, counts):
    url = queue()
    command = [binary(), "import", url, "--endpoint", server.endpoint]
    with running(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as importing:
        importing.stdin.write('{"Body": "x"}\n' * 10)
        importing.stdin.flush()
        eventually(lambda: counts(url)[0] == 10, "a full batch")
        importing.send_signal(signal.SIGINT)
        told = importing.stderr.read()
        assert importing.wait(10) == 1

    assert "10 messages sent" in told
    assert "SIGINT: ended; line 10 was the last that was accepted" in told
    assert counts(url) == (10, 0, 0)


def test_lines_before_one_that_is_no_text_are_sent(millrace, queue, server, counts):
    url = queue()

    for command in ("send", "import"):
        lines = b'{"Body": "fine"}\n{"Body": "fine"}\n\xff\n{"Body": "never"}\n'
        options = ["--lines"] if command == "send" else ["-"]
        arguments = [binary(), command, url, *options, "--endpoint", server.endpoint]
        failed = subprocess.run(arguments, input=lines, capture_output=True, timeout=60)
        assert failed.returncode == 1
        assert b"line 3" in failed.stderr and b"line 2 was the last that was accepted" in failed.stderr

    assert counts(url) == (4, 0, 0)


LINE_BYTES_MAX = 8 << 20


@pytest.mark.parametrize("command", [("import",), ("send", "--lines")])
def test_a_line_without_an_end_is_refused_by_its_number_and_takes_little_memory(server, queue, counts, command):
    url = queue()
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)\n"
        "sys.exit(done.returncode)\n"
    )
    arguments = [binary(), command[0], url, *command[1:], "--endpoint", server.endpoint]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running([sys.executable, "-c", code, *arguments], **pipes) as measured:
        with contextlib.suppress(BrokenPipeError):
            measured.stdin.write(b'{"Body": "first"}\n')
            for _ in range(200):
                measured.stdin.write(b"a" * (1 << 20))
        with contextlib.suppress(BrokenPipeError):
            measured.stdin.close()
        told, peak_mib = measured.stderr.read().decode(), int(measured.stdout.read())
        assert measured.wait(60) == 1

    assert f"line 2 is longer than {LINE_BYTES_MAX} bytes" in told
    assert "line 1 was the last that was accepted" in told
    assert peak_mib < 100
    assert counts(url) == (1, 0, 0)


def test_a_body_from_standard_input_is_bounded(millrace, queue):
    refused = millrace("send", queue(), stdin="a" * (LINE_BYTES_MAX + 1), expect=1)

    assert f"the body is longer than {LINE_BYTES_MAX} bytes" in refused.stderr


def test_large_lines_are_sent_in_batches_that_a_server_takes(millrace, queue, counts):
    url = queue()
    body = "a" * (1 << 20)

    millrace("send", url, "--lines", stdin=f"{body}\n{body}\nb\n")

    assert counts(url) == (3, 0, 0)


def test_a_byte_order_mark_before_an_import_is_skipped(millrace, lines, queue):
    url = queue()

    millrace("import", url, stdin='\ufeff{"Body": "a"}\r\n{"Body": "\ufeffb"}\r\n')

    assert sorted(json.loads(line)["Body"] for line in lines("export", url)) == ["a", "\ufeffb"]


def test_lines_are_sent_when_their_source_pauses_and_at_a_signal(server, queue, counts):
    url = queue()
    command = [binary(), "send", url, "--lines", "--endpoint", server.endpoint]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running(command, **pipes) as send:
        for count in (1, 2):
            send.stdin.write("line\n")
            send.stdin.flush()
            assert len(send.stdout.readline()) == 37, "its id"
            assert counts(url) == (count, 0, 0)
        send.send_signal(signal.SIGINT)
        assert send.wait(10) == 1
        assert "SIGINT: ended; line 2 was the last that was accepted" in send.stderr.read()


def test_top_shows_the_fullest_queue_first_and_its_change(millrace, lines, new_name):
    prefix = new_name("top")
    for name, held in (("few", 1), ("many", 3)):
        lines("queue", "create", f"{prefix}-{name}")
        millrace("send", f"{prefix}-{name}", "--lines", stdin="x\n" * held)

    title, _, heads, many, few = lines("top", prefix)

    assert "2 queues, 4 messages" in title and heads.split()[-1] == "CHANGE/S"
    assert many.split()[:4] == [f"{prefix}-many", "3", "0", "0"] and many.split()[-1] == "-"
    assert few.split()[:4] == [f"{prefix}-few", "1", "0", "0"] and few.split()[-1] == "-"
    twice = lines("top", prefix, "--times", "2", "--interval", "0.1")
    assert [line.split()[-1] for line in twice[-2:]] == ["+0", "+0"]


@pytest.mark.parametrize(
    "command",
    [
        ["receive", "--wait", "21"],
        ["receive", "--visibility", "43201"],
        ["send", "--delay", "901", "x"],
        ["tail", "--interval=-1"],
        ["tail", "--interval", "inf"],
        ["top", "--interval", "nan"],
    ],
)
def test_what_no_queue_can_do_is_not_asked_for(millrace, command):
    name, *flags = command

    assert flags[0].split("=")[0] in millrace(name, "q", *flags, expect=2).stderr
