"""`--post`: headers, answers, Retry-After."""

import base64
import email.utils
import hmac
import threading
import time

from support.waiting import eventually
from worker.rig import TRACEPARENT, XRAY, send_traced

ALWAYS = ["--until-empty", "--backoff", "1h"]


def test_headers_are_those_of_the_beanstalk_daemon(sqs, queue, work, http_server):
    url = queue()
    attributes = {"color": {"DataType": "String", "StringValue": "red"}}
    sent = sqs.send_message(QueueUrl=url, MessageBody='{"a": 1}', MessageAttributes=attributes)
    seen = []

    def answer(path, headers, body):
        seen.append((path, dict(headers), body))
        return 200, {}, b""

    target = http_server(answer).url + "/jobs?kind=a"
    assert work(url, "--post", target, *ALWAYS).wait() == 0

    [(path, headers, body)] = seen
    assert (path, body) == ("/jobs?kind=a", b'{"a": 1}')
    headers = {name.lower(): value for name, value in headers.items()}
    assert headers["content-type"] == "application/json"
    assert headers["x-aws-sqsd-msgid"] == sent["MessageId"]
    assert headers["x-aws-sqsd-queue"] == url.rpartition("/")[2]
    assert headers["x-aws-sqsd-receive-count"] == "1"
    assert headers["x-aws-sqsd-attr-color"] == "red"
    time.strptime(headers["x-aws-sqsd-first-received-at"], "%Y-%m-%dT%H:%M:%SZ")


def test_body_is_signed_with_a_key(queue, work, send, http_server):
    url = queue()
    send(url, ["caf\u00e9"])
    seen = []

    def answer(path, headers, body):
        seen.append((headers, body))
        return (500 if len(seen) == 1 else 200), {}, b""

    target = http_server(answer).url
    flags = ["--post", target, "--max-messages", "2", "--backoff", "1s"]
    before = time.time()
    assert work(url, *flags, env={"MILLRACE_POST_KEY": "secret"}).wait() == 0

    for headers, body in seen:
        assert headers["X-Millrace-Signature"] == "sha256=" + hmac.new(b"secret", body, "sha256").hexdigest()
        sent_at = headers["Webhook-Timestamp"]
        assert int(before) <= int(sent_at) <= time.time()
        signed = f"{headers['Webhook-Id']}.{sent_at}.".encode() + body
        signature = base64.b64encode(hmac.new(b"secret", signed, "sha256").digest()).decode()
        assert headers["Webhook-Signature"] == f"v1,{signature}"
    [first, second] = [headers for headers, _ in seen]
    assert first["Webhook-Id"] == second["Webhook-Id"] == first["X-Aws-Sqsd-Msgid"]
    assert int(second["Webhook-Timestamp"]) > int(first["Webhook-Timestamp"])


def test_only_success_deletes(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["200", "204", "302", "404", "500"])
    server = http_server(lambda path, headers, body: (int(body), {}, b""))

    work(url, "--post", server.url, *ALWAYS).wait()

    assert counts(url) == (0, 3, 0)


def test_retry_after_is_the_delay(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])
    seen = []

    def answer(path, headers, body):
        seen.append(time.monotonic())
        return (429, {"Retry-After": "2"}, b"") if len(seen) == 1 else (200, {}, b"")

    worker = work(url, "--post", http_server(answer).url, "--max-messages", "2", "--backoff", "1h")
    worker.wait()

    # With back-off it would be an hour.
    assert seen[1] - seen[0] > 1.5
    assert "status=429 retry_after_s=2" in worker.text()
    assert counts(url) == (0, 0, 0)


def test_retry_after_can_be_a_date(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])
    seen = []

    def answer(path, headers, body):
        seen.append(time.time())
        if len(seen) == 1:
            return 503, {"Retry-After": email.utils.formatdate(seen[0] + 3, usegmt=True)}, b""
        return 200, {}, b""

    work(url, "--post", http_server(answer).url, "--max-messages", "2", "--backoff", "1h").wait()

    # Dates are whole seconds.
    assert seen[1] - seen[0] > 1.5
    assert counts(url) == (0, 0, 0)


def test_retry_after_no_time_is_no_delay_of_its_own(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])
    server = http_server(lambda path, headers, body: (503, {"Retry-After": "0"}, b""))

    work(url, "--post", server.url, "--max-messages", "1", "--backoff", "1h").wait()

    assert counts(url) == (0, 1, 0)


def test_listed_answers_reject(queue, work, send, http_server, counts):
    url, dead = queue(), queue()
    send(url, ["422", "409", "404"])
    server = http_server(lambda path, headers, body: (int(body), {}, b""))
    flags = ["--reject-status", "409,422", "--dead-letter-queue", dead]

    work(url, "--post", server.url, *flags, *ALWAYS).wait()

    assert (counts(url), counts(dead)) == ((0, 1, 0), (2, 0, 0))


def test_nobody_there_is_a_failure_of_the_message_only(queue, work, send, counts):
    url = queue()
    send(url, ["a"])

    assert work(url, "--post", "http://127.0.0.1:1/", *ALWAYS).wait() == 0

    assert counts(url) == (0, 1, 0)


def test_answer_that_takes_too_long_is_a_failure(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])

    is_over = threading.Event()

    def answer(path, headers, body):
        is_over.wait(30)
        return 200, {}, b""

    work(url, "--post", http_server(answer).url, "--timeout", "200ms", *ALWAYS).wait()
    is_over.set()

    assert counts(url) == (0, 1, 0)


def test_message_that_breaks_headers_is_sent_without_them(sqs, queue, work, http_server, counts):
    url = queue()
    value = "a\r\nX-Evil: 1"
    attributes = {"bad": {"DataType": "String", "StringValue": value}}
    sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes=attributes)
    seen = []

    def answer(path, headers, body):
        seen.append(headers)
        return 200, {}, b""

    work(url, "--post", http_server(answer).url, *ALWAYS).wait()

    assert len(seen) == 1
    assert "X-Evil" not in seen[0] and "X-Aws-Sqsd-Attr-bad" not in seen[0]
    assert counts(url) == (0, 0, 0)


def test_trace_goes_with_the_message(sqs, queue, work, http_server):
    url = queue()
    send_traced(sqs, url, tracestate="vendor=1")
    seen = []

    def answer(path, headers, body):
        seen.append(headers)
        return 200, {}, b""

    work(url, "--post", http_server(answer).url, *ALWAYS).wait()

    [headers] = seen
    assert headers.get_all("traceparent") == [TRACEPARENT]
    assert headers.get_all("tracestate") == ["vendor=1"]
    assert headers.get_all("X-Amzn-Trace-Id") == [XRAY]


def test_sqsd_takes_200_alone_for_a_success(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["200", "204", "302", "400", "500"])
    agents = set()

    def answer(path, headers, body):
        agents.add(headers["User-Agent"])
        return int(body), {"Retry-After": "3600"}, b""

    work(url, "--post", http_server(answer).url, "--sqsd", "--until-empty", "--backoff", "1h").wait()

    assert counts(url) == (0, 4, 0)
    assert agents == {"aws-sqsd/2.0"}


def test_sqsd_hides_a_failure_for_two_seconds(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])
    seen = []

    def answer(path, headers, body):
        seen.append(time.monotonic())
        return (500, {"Retry-After": "3600"}, b"") if len(seen) == 1 else (200, {}, b"")

    work(url, "--post", http_server(answer).url, "--sqsd", "--max-messages", "2").wait()

    assert seen[1] - seen[0] > 1.5
    assert counts(url) == (0, 0, 0)


def test_sqsd_posts_fifty_at_a_time(queue, work, send, http_server, counts):
    url = queue()
    send(url, [f"m{n}" for n in range(60)])
    together = threading.Barrier(50)
    reached = []

    def answer(path, headers, body):
        try:
            together.wait(30)
            reached.append(body)
        except threading.BrokenBarrierError:
            pass
        if len(reached) >= 50:
            together.abort()
        return 200, {}, b""

    work(url, "--post", http_server(answer).url, "--sqsd", "--until-empty").wait()

    assert len(reached) == 50
    assert counts(url) == (0, 0, 0)


def test_nothing_is_received_before_the_handler_is_healthy(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])
    is_healthy = threading.Event()
    asked, posted = [], []

    def answer(path, headers, body):
        if path == "/health":
            asked.append(path)
            return (200 if is_healthy.is_set() else 503), {}, b""
        posted.append(body)
        return 200, {}, b""

    server = http_server(answer)
    worker = work(url, "--post", server.url, "--health", server.url + "/health", *ALWAYS)
    eventually(lambda: len(asked) >= 2)
    assert counts(url) == (1, 0, 0)
    is_healthy.set()

    assert worker.wait() == 0
    assert posted == [b"a"]


def test_question_for_health_that_is_not_answered_is_asked_again(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])
    asked, is_over = [], threading.Event()

    def answer(path, headers, body):
        asked.append(path)
        if len(asked) == 1:
            is_over.wait(60)
        return 200, {}, b""

    server = http_server(answer)
    worker = work(url, "--exec", "true", "--health", server.url, *ALWAYS)
    try:
        # A command may take 5 minutes.
        assert worker.wait() == 0
    finally:
        is_over.set()

    assert len(asked) == 2
    assert counts(url) == (0, 0, 0)


def test_worker_that_waits_for_health_can_be_ended(queue, work, send, http_server, counts):
    url = queue()
    send(url, ["a"])
    asked = []

    def answer(path, headers, body):
        asked.append(path)
        return 503, {}, b""

    worker = work(url, "--post", "http://127.0.0.1:1/", "--health", http_server(answer).url)
    eventually(lambda: asked)
    worker.signal()

    assert worker.wait() == 0
    assert counts(url) == (1, 0, 0)


def test_a_url_without_a_path_keeps_its_query_and_loses_its_fragment(queue, work, send, http_server):
    url = queue()
    send(url, ["a"])
    seen = []

    def answer(path, headers, body):
        seen.append((path, body))
        return 200, {}, b"{}"

    base = http_server(answer).url.rstrip("/")
    health = ["--health", base + "?key=hunter2#f"]
    worker = work(url, "--post", base + "?key=a/b#c", *health, *ALWAYS)
    assert worker.wait() == 0
    send(url, ["a"])
    assert work(url, "--lambda", base + "?key=1", *ALWAYS).wait() == 0

    invocations = "/2015-03-31/functions/function/invocations"
    assert [path for path, _ in seen] == ["/?key=hunter2", "/?key=a/b", invocations + "?key=1"]
    assert "hunter2" not in worker.text()
