"""`--exec`: standard input, variables, exit codes, time limits."""

import json
import os
import re
import signal
import time

import pytest

from support.waiting import eventually
from worker.rig import TRACEPARENT, XRAY, lines, send_traced

ALWAYS = ["--until-empty", "--backoff", "1h"]


def test_body_is_on_standard_input_and_the_rest_in_variables(sqs, queue, work, tmp_path):
    url = queue()
    attributes = {
        "trace.id": {"DataType": "String", "StringValue": "a b"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
    }
    body = "line 1\nline 2 'quoted' $HOME `date` \u00e9\u20ac"
    sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)

    assert work(url, "--exec", "cat > body; env > env", *ALWAYS).wait() == 0

    assert (tmp_path / "body").read_text() == body
    env = dict(line.split("=", 1) for line in lines(tmp_path / "env") if "=" in line)
    assert env["MILLRACE_QUEUE_URL"] == url
    assert env["MILLRACE_MESSAGE_ID"] == sent["MessageId"]
    assert env["MILLRACE_RECEIVE_COUNT"] == "1"
    assert env["MILLRACE_SENT_AT_MS"].isdigit()
    assert env["MILLRACE_ATTRIBUTE_trace_id"] == "a b"
    assert env["MILLRACE_ATTRIBUTE_raw"] == "AAE="


def test_trace_is_in_the_variables_that_tracing_libraries_read(sqs, queue, work, tmp_path):
    url = queue()
    send_traced(sqs, url)

    assert work(url, "--exec", "env > env", *ALWAYS).wait() == 0

    env = dict(line.split("=", 1) for line in lines(tmp_path / "env") if "=" in line)
    assert (env["TRACEPARENT"], env["_X_AMZN_TRACE_ID"]) == (TRACEPARENT, XRAY)
    assert env["MILLRACE_TRACE_HEADER"] == XRAY


def test_queue_can_be_named(sqs, new_name, work, counts):
    name = new_name()
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a")

    assert work(name, "--exec", "true", *ALWAYS).wait() == 0

    assert counts(url) == (0, 0, 0)


def test_queues_can_be_given_by_arn(sqs, queue, work, send, arn, counts):
    url, dead = queue(), queue()
    send(url, ["a"])

    flags = ["--dead-letter-queue", arn(dead), "--exec", "exit 65", *ALWAYS]
    assert work(f"{arn(url)}=2", *flags).wait() == 0

    assert counts(url) == (0, 0, 0)
    assert counts(dead) == (1, 0, 0)


def test_a_queue_of_another_region_is_not_taken_for_that_of_the_arn(queue, work, send, arn, counts):
    url = queue()
    send(url, ["a"])
    other = arn(url).replace("us-east-1", "eu-west-1")

    worker = work(other, "--exec", "true", *ALWAYS)

    assert worker.wait() == 1
    assert f"{other} is not there, but {arn(url)}" in worker.text()
    assert counts(url) == (1, 0, 0)


def test_success_deletes_and_failure_does_not(queue, work, send, counts):
    url = queue()
    send(url, ["good", "bad"])

    work(url, "--exec", '[ "$(cat)" = good ]', *ALWAYS).wait()

    assert counts(url) == (0, 1, 0)


def test_exit_code_counts_whatever_signals_were_ignored_before(queue, work, send, counts, tmp_path):
    url = queue()
    send(url, ["a"])

    worker = work(url, "--exec", "echo ran >> runs", *ALWAYS, ignored=[signal.SIGCHLD])
    assert worker.wait() == 0

    # While nobody waits for children, the system keeps no exit code.
    assert lines(tmp_path / "runs") == ["ran"]
    assert counts(url) == (0, 0, 0)


def test_exit_65_moves_to_the_dead_letter_queue(queue, work, send, counts, receive):
    url, dead = queue(), queue()
    send(url, ["bad"])

    work(url, "--exec", "exit 65", "--dead-letter-queue", dead, *ALWAYS).wait()

    assert counts(url) == (0, 0, 0)
    letter = receive(dead)[0]
    assert letter["Body"] == "bad"
    assert "65" in letter["MessageAttributes"]["MillraceReason"]["StringValue"]


def test_exit_65_without_a_dead_letter_queue_keeps_the_message(queue, work, send, counts):
    url = queue()
    send(url, ["bad"])

    work(url, "--exec", "exit 65", *ALWAYS).wait()

    assert counts(url) == (0, 1, 0)


def test_exit_75_retries_after_the_retry_delay(queue, work, send, tmp_path, counts):
    url = queue()
    send(url, ["a"])
    command = 'echo $MILLRACE_RECEIVE_COUNT >> runs; [ $MILLRACE_RECEIVE_COUNT = 3 ] || exit 75'

    work(url, "--exec", command, "--max-messages", "3", "--retry-delay", "0", "--backoff", "1h").wait()

    assert lines(tmp_path / "runs") == ["1", "2", "3"]
    assert counts(url) == (0, 0, 0)


def test_failing_message_is_a_dead_letter_after_so_many_receives(queue, work, send, counts, tmp_path):
    url, dead = queue(), queue()
    send(url, ["poison"])
    limits = ["--dead-letter-queue", dead, "--max-receives", "3", "--backoff", "0"]

    worker = work(url, "--exec", "echo run >> runs; exit 1", "--until-empty", *limits)
    worker.wait()

    failures = [line for line in worker.text().splitlines() if "the command failed" in line]
    assert [re.search(r" receive_count=(\d+) ", line)[1] for line in failures] == ["1", "2", "3"]
    assert lines(tmp_path / "runs") == ["run"] * 3
    assert (counts(url), counts(dead)) == ((0, 0, 0), (1, 0, 0))


def test_watchbot_exit_codes_and_names(queue, work, send, counts, tmp_path):
    url = queue()
    send(url, ["a"])
    times = "$SentTimestamp $ApproximateFirstReceiveTimestamp"
    command = f'echo "$Message $MessageId $ApproximateReceiveCount {times}" >> seen; exit 4'

    worker = work(url, "--exec", command, "--exit-codes", "watchbot", *ALWAYS)
    assert worker.wait() == 0

    # A retry with back-off, and no failure to tell of.
    [words] = [line.split() for line in lines(tmp_path / "seen")]
    assert (words[0], words[2]) == ("a", "1")
    for time in words[3:5]:
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert len(words) == 5
    assert counts(url) == (0, 1, 0)
    assert "failed" not in worker.text()


@pytest.mark.parametrize("command", ["true", "head -c 10 > /dev/null", "wc -c > size"])
def test_large_body_whether_read_or_not(queue, work, send, command, tmp_path, counts):
    url = queue()
    send(url, ["x" * 900_000])

    assert work(url, "--exec", command, *ALWAYS).wait() == 0

    assert counts(url) == (0, 0, 0)
    if "size" in command:
        assert (tmp_path / "size").read_text().strip() == "900000"


def test_command_that_takes_too_long_is_ended_with_all_that_it_started(
    queue, work, send, tmp_path, counts
):
    url = queue()
    send(url, ["a"])
    # Neither the shell nor what it started heeds SIGTERM.
    command = "trap '' TERM; (trap '' TERM; sleep 600) & echo $! > child; echo $$ > shell; wait; sleep 600"

    worker = work(url, "--exec", command, "--timeout", "3s", "--kill-after", "1s", *ALWAYS)
    assert worker.wait() == 0

    for name in ("child", "shell"):
        assert eventually(lambda: not alive(int((tmp_path / name).read_text())))
    assert counts(url) == (0, 1, 0)
    assert "took too long" in worker.text()


def test_what_a_shell_started_has_time_to_end(queue, work, send, tmp_path, counts):
    """The shell itself is gone with SIGTERM."""
    url = queue()
    send(url, ["a"])
    cleanup = "trap 'sleep 0.5; echo yes > cleaned; exit' TERM; echo > begun; while :; do sleep 0.05; done"
    command = f'sh -c "{cleanup}"; exit $?'

    worker = work(url, "--exec", command, "--timeout", "2s", "--kill-after", "20s", *ALWAYS)
    began = time.monotonic()
    assert worker.wait() == 0

    assert (tmp_path / "begun").exists()
    assert (tmp_path / "cleaned").read_text() == "yes\n"
    assert time.monotonic() - began < 15, "nobody waits for those who have ended"
    assert counts(url) == (0, 1, 0)


def test_what_a_command_leaves_behind_is_killed(queue, work, send, tmp_path):
    url = queue()
    send(url, ["a"])

    work(url, "--exec", "sleep 600 & echo $! > child", *ALWAYS).wait()

    assert eventually(lambda: not alive(int((tmp_path / "child").read_text())))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"


def test_never_more_commands_than_allowed(queue, work, send, tmp_path):
    url = queue()
    send(url, map(str, range(30)))
    (tmp_path / "running").mkdir()
    # The first ones wait for each other; so it is certain that three run at the same time.
    command = """
    touch running/$$
    until [ -e together ]; do [ $(ls running | wc -l) -lt 3 ] || touch together; sleep 0.01; done
    ls running | wc -l >> seen
    rm running/$$
    """

    assert work(url, "--exec", command, "--concurrency", "3", *ALWAYS).wait() == 0

    seen = [int(line) for line in lines(tmp_path / "seen")]
    assert len(seen) == 30
    assert max(seen) <= 3


def test_groups_of_a_fifo_queue_stay_in_order(sqs, fifo, work, tmp_path):
    url = fifo()
    for number in range(12):
        for group in "ab":
            body = f"{group}{number:02}"
            sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group)

    work(url, "--exec", "sleep 0.02; cat >> $MILLRACE_GROUP_ID; echo >> $MILLRACE_GROUP_ID", *ALWAYS).wait()

    for group in "ab":
        assert lines(tmp_path / group) == [f"{group}{number:02}" for number in range(12)]


def test_message_is_held_while_its_command_runs(queue, work, send, tmp_path, counts, free_http):
    url = queue()
    send(url, ["a"])
    command = "echo run >> runs; while [ ! -e go ]; do sleep 0.02; done"
    flags = ["--visibility-timeout", "4s", "--wait", "1s"]
    worker = work(url, "--exec", command, *flags, *free_http.flags)
    eventually(lambda: lines(tmp_path / "runs"))
    other = work(url, "--exec", command, *flags)

    # The second extension comes when the first timeout would be over.
    series = f'millrace_worker_leases_extended_total{{queue="{url.rpartition("/")[2]}"}}'
    eventually(lambda: f"{series} 2" in free_http.get("/metrics")[1])
    (tmp_path / "go").touch()
    eventually(lambda: counts(url) == (0, 0, 0))
    for ending in (worker, other):
        ending.signal()
        assert ending.wait() == 0

    assert lines(tmp_path / "runs") == ["run"]
    assert counts(url) == (0, 0, 0)


ECHO = '''
while read -r line; do
  echo "$$ $line" >> seen
  number=${line#*\\"number\\":}; number=${number%%[,\\}]*}
  case "$line" in
    *'"body":"bad"'*) echo "$number reject no good";;
    *'"body":"mute"'*) sleep 600;;
    *'"body":"stray"'*) echo "$((number + 1)) ack"; echo "$number ack";;
    *'"body":"gone"'*) exit 0;;
    *) echo "$number ack";;
  esac
done
echo end >> ends
'''


def test_command_that_stays_is_fed_lines(queue, work, send, counts, tmp_path, receive):
    url, dead = queue(), queue()
    send(url, ["bad", "mute", "stray", "gone", *map(str, range(40))])
    flags = ["--exec-mode", "lines", "--concurrency", "2", "--timeout", "4s", "--kill-after", "1s"]

    worker = work(url, "--exec", ECHO, *flags, "--dead-letter-queue", dead, *ALWAYS)
    assert worker.wait() == 0

    # The three that got no proper answer are kept.
    assert counts(url) == (0, 3, 0)
    letter = receive(dead)[0]["MessageAttributes"]
    assert letter["MillraceReason"]["StringValue"] == "no good"
    seen = [line.split(" ", 1) for line in lines(tmp_path / "seen")]
    assert len(seen) == 44
    assert len({shell for shell, _ in seen}) <= 2 + 3, "commands stay"
    assert {json.loads(line)["body"] for _, line in seen} >= set(map(str, range(40)))
    assert lines(tmp_path / "ends"), "they see the end of their input"


def test_command_that_stays_learns_the_trace(sqs, queue, work, tmp_path):
    url = queue()
    send_traced(sqs, url)
    command = "read -r line; printf '%s' \"$line\" > line; echo 1 ack"

    assert work(url, "--exec", command, "--exec-mode", "lines", *ALWAYS).wait() == 0

    trace = json.loads((tmp_path / "line").read_text())["trace"]
    assert trace == {"traceparent": TRACEPARENT, "X-Amzn-Trace-Id": XRAY}


def test_dry_run_shows_and_gives_back(queue, work, send, counts, tmp_path):
    url = queue()
    send(url, ["a", "b"])

    worker = work(url, "--exec", "touch ran", "--dry-run", "--log-level", "off")
    assert worker.wait() == 0

    shown = [json.loads(line) for line in worker.text().splitlines()]
    assert sorted(message["body"] for message in shown) == ["a", "b"]
    assert {message["action"] for message in shown} == {"exec touch ran"}
    assert counts(url) == (2, 0, 0)
    assert not (tmp_path / "ran").exists()


def test_dry_run_moves_nothing_however_often_it_was_received(queue, work, send, receive, counts):
    url, dead = queue(VisibilityTimeout="0"), queue()
    send(url, ["a"])
    for _ in range(2):
        assert receive(url)

    limits = ["--dead-letter-queue", dead, "--max-receives", "1"]
    worker = work(url, "--exec", "exit 65", "--dry-run", "--log-level", "off", *limits)
    assert worker.wait() == 0

    assert [json.loads(line)["body"] for line in worker.text().splitlines()] == ["a"]
    assert (counts(url), counts(dead)) == ((1, 0, 0), (0, 0, 0))


def test_max_messages(queue, work, send, counts):
    url = queue()
    send(url, map(str, range(20)))

    assert work(url, "--exec", "true", "--max-messages", "7").wait() == 0

    assert counts(url) == (13, 0, 0)


def test_log_is_json_if_asked_for(queue, work, send):
    url = queue()
    send(url, ["a"])

    worker = work(url, "--exec", "true", "--log-format", "json", *ALWAYS)
    worker.wait()

    log = [json.loads(line) for line in worker.text().splitlines()]
    assert log[-1]["message"] == "ended"
    assert (log[-1]["received"], log[-1]["succeeded"]) == (1, 1)


def test_failure_is_part_of_a_log_that_is_json(work):
    worker = work("no-such-queue", "--exec", "true", "--log-format", "json")

    assert worker.wait() == 1
    [line] = [json.loads(line) for line in worker.text().splitlines()]
    assert line["level"] == "ERROR" and "no-such-queue" in line["message"]


def test_unknown_queue_is_an_error(work):
    worker = work("no-such-queue", "--exec", "true")

    assert worker.wait() == 1
    assert "no-such-queue" in worker.text()


def test_url_is_that_of_a_queue_that_is_there(server, work):
    missing = work(f"{server.endpoint}/000000000000/no-such-queue", "--exec", "true")

    assert missing.wait() == 1
    assert "no-such-queue" in missing.text() and "QueueDoesNotExist" in missing.text()


def test_queue_is_not_its_own_dead_letter_queue(queue, work):
    url = queue()

    for same in (url, url.rpartition("/")[2]):
        worker = work(url, "--exec", "true", "--dead-letter-queue", same)
        assert worker.wait() == 2
        assert "--dead-letter-queue" in worker.text()


def test_worker_ignores_hangups_of_its_commands(queue, work, send, counts):
    """A command that dies of a signal has failed, and only its message with it."""
    url = queue()
    send(url, ["a", "b"])
    command = f'[ "$(cat)" = a ] || kill -{int(signal.SIGKILL)} $$'

    assert work(url, "--exec", command, *ALWAYS).wait() == 0

    assert counts(url) == (0, 1, 0)


def test_command_that_ends_is_seen_to_end_while_others_have_its_output_open(queue, work, send, tmp_path, counts):
    url = queue()
    send(url, ["a"])
    # The first has no answer, the second has; both leave somebody else, out of reach, at their standard output.
    script = (
        "read -r line; setsid sleep 60 & echo $! >> left; echo ran >> runs;"
        "[ $(wc -l < runs) = 1 ] && exit 3; echo ${line%%,*} | tr -dc 0-9; echo ' ack'"
    )

    try:
        worker = work(url, "--exec", script, "--exec-mode", "lines", "--max-messages", "2", "--backoff", "0s")
        assert worker.wait(30) == 0
        assert "exit status: 3" in worker.text()
    finally:
        for pid in lines(tmp_path / "left"):
            os.kill(int(pid), signal.SIGKILL)

    assert lines(tmp_path / "runs") == ["ran", "ran"]
    assert counts(url) == (0, 0, 0)


def test_attributes_that_share_a_variable_are_logged(sqs, queue, work, tmp_path):
    url = queue()
    text = lambda value: {"DataType": "String", "StringValue": value}  # noqa: E731
    attributes = {"trace_id": text("spelt so"), "trace.id": text("other"), "trace-id": text("another")}
    sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=attributes)

    worker = work(url, "--exec", "env > env", *ALWAYS)
    assert worker.wait() == 0

    assert "MILLRACE_ATTRIBUTE_trace_id=spelt so" in lines(tmp_path / "env")
    assert "variable=\"MILLRACE_ATTRIBUTE_trace_id\"" in worker.text() or "variable=MILLRACE_ATTRIBUTE_trace_id" in worker.text()
    assert "another one has the same variable" in worker.text()
