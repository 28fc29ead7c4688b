"""`--post`: headers, answers, Retry-After."""

import hmac
import time

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
        seen.append((headers["X-Millrace-Signature"], body))
        return 200, {}, b""

    target = http_server(answer).url
    assert work(url, "--post", target, *ALWAYS, env={"MILLRACE_POST_KEY": "secret"}).wait() == 0

    [(signature, body)] = seen
    assert signature == "sha256=" + hmac.new(b"secret", body, "sha256").hexdigest()


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

    work(url, "--post", http_server(answer).url, "--max-messages", "2", "--backoff", "1h").wait()

    assert 1.5 < seen[1] - seen[0] < 4
    assert counts(url) == (0, 0, 0)


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

    def answer(path, headers, body):
        time.sleep(1)
        return 200, {}, b""

    work(url, "--post", http_server(answer).url, "--timeout", "200ms", *ALWAYS).wait()

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
