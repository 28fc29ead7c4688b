"""/metrics: what Prometheus reads is well formed, bounded, and agrees with what clients did."""

import json
import math
import re
import urllib.error
import urllib.request

import pytest
from support.prometheus import of, scrape
from support.server import ROOT
from support.wire import JsonApi

ALERTS = ROOT / "docs/alerts.yaml"


def test_figures_agree_with_what_clients_did(alone, sqs_alone):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    for _ in range(7):
        sqs_alone.send_message(QueueUrl=url, MessageBody="x" * 100)
    messages = sqs_alone.receive_message(QueueUrl=url, MaxNumberOfMessages=3)["Messages"]
    sqs_alone.delete_message(QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])
    with pytest.raises(Exception):
        sqs_alone.get_queue_url(QueueName="none")
    gone = sqs_alone.create_queue(QueueName="gone")["QueueUrl"]
    sqs_alone.send_message(QueueUrl=gone, MessageBody="x")
    sqs_alone.delete_queue(QueueUrl=gone)

    series = scrape(alone)

    queue = {"region": "us-east-1", "account": "000000000000", "queue": "jobs"}
    received = len(messages)
    assert of(series, "millrace_queue_messages_sent_total", **queue) == 7
    assert of(series, "millrace_queue_sent_bytes_total", **queue) == 700
    assert of(series, "millrace_queue_messages_received_total", **queue) == received
    assert of(series, "millrace_queue_messages_deleted_total", **queue) == 1
    assert of(series, "millrace_queue_messages", state="ready", **queue) == 7 - received
    assert of(series, "millrace_queue_messages", state="in_flight", **queue) == received - 1
    assert of(series, "millrace_messages_sent_total") == 8, "deleted queues count, too"
    assert of(series, "millrace_queues") == 1
    sends = {"service": "sqs", "action": "SendMessage"}
    assert of(series, "millrace_requests_total", outcome="success", **sends) == 8
    refused = {"service": "sqs", "action": "GetQueueUrl", "outcome": "client_error"}
    assert of(series, "millrace_requests_total", **refused) == 1
    assert of(series, "millrace_request_duration_seconds_count", **sends) == 8
    assert of(series, "millrace_request_duration_seconds_bucket", le="+Inf", **sends) == 8
    assert of(series, "millrace_journal_full") == 0
    assert of(series, "millrace_journal_poisoned") == 0
    assert of(series, "millrace_journal_sync_duration_seconds_count") > 0
    assert of(series, "millrace_connections") >= 1
    assert of(series, "millrace_disk_available_bytes") > 1 << 20
    assert of(series, "process_resident_memory_bytes") > 1 << 20
    for key, value in series.items():
        assert math.isfinite(value), key


def test_scrapers_that_do_not_ask_for_openmetrics_get_the_older_format(alone, sqs_alone):
    sqs_alone.create_queue(QueueName="jobs")
    known = scrape(alone)

    with urllib.request.urlopen(alone.endpoint + "/metrics") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = answer.read().decode().splitlines()

    types = dict(line.split(" ")[2:] for line in lines if line.startswith("# TYPE "))
    helps = {line.split(" ")[2] for line in lines if line.startswith("# HELP ")}
    assert helps == set(types)
    assert {name for name, kind in types.items() if kind == "counter"} == {
        name for name in types if name.endswith("_total")
    }
    assert not any(line.startswith("# UNIT") or line.startswith("# EOF") for line in lines)
    samples = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    assert samples == {key[0] for key in known}


def test_what_waits_in_dead_letter_queues_or_is_in_hand_is_no_waiting_message(make_server):
    server = make_server()
    api = JsonApi(server.endpoint)
    dead = api.call("CreateQueue", QueueName="dead")["QueueUrl"]
    redrive = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 3}
    jobs = api.call("CreateQueue", QueueName="jobs", Attributes={"RedrivePolicy": json.dumps(redrive)})["QueueUrl"]
    api.call("SendMessage", QueueUrl=dead, MessageBody="x")
    api.call("SendMessage", QueueUrl=jobs, MessageBody="x")
    api.call("ReceiveMessage", QueueUrl=jobs, VisibilityTimeout=3600)

    server.advance(1000)
    in_hand = scrape(server)
    api.call("SendMessage", QueueUrl=jobs, MessageBody="y")
    ready = scrape(server)

    def of_queue(name, queue):
        return of(in_hand, name, region="us-east-1", account="000000000000", queue=queue)

    assert of_queue("millrace_queue_dead_letter_sources", "dead") == 1
    assert of_queue("millrace_queue_dead_letter_sources", "jobs") == 0
    assert of_queue("millrace_queue_oldest_message_age_seconds", "dead") >= 1000
    assert of(in_hand, "millrace_oldest_message_age_seconds") == 0
    assert of(ready, "millrace_oldest_message_age_seconds") >= 1000


def test_series_of_queues_are_bounded(make_server):
    server = make_server(config='[metrics]\ntop_queues = 3\nqueues = ["always-*"]\n')
    api = JsonApi(server.endpoint)
    for n in range(20):
        url = api.call("CreateQueue", QueueName=f"q{n}")["QueueUrl"]
        for _ in range(n):
            api.call("SendMessage", QueueUrl=url, MessageBody="x")
    api.call("CreateQueue", QueueName="always-there")

    series = scrape(server)

    shown = {dict(key[1:])["queue"] for key in series if "queue" in dict(key[1:])}
    assert shown == {"q19", "q18", "q17", "always-there"}
    assert of(series, "millrace_queues") == 21


def test_with_credentials_a_scrape_needs_the_token(make_server):
    keys = {"MILLRACE_ACCESS_KEY": "AKIDTEST", "MILLRACE_SECRET_KEY": "secret"}
    closed = make_server(env=keys)
    opened = make_server(env=keys | {"MILLRACE_METRICS__TOKEN": "let-me-in"})

    def status(server, token):
        try:
            scrape(server, token)
            return 200
        except urllib.error.HTTPError as error:
            return error.code

    assert [status(closed, token) for token in [None, "let-me-in"]] == [403, 403]
    assert [status(opened, token) for token in [None, "wrong", "let-me-in"]] == [403, 403, 200]


def test_dashboard_and_alerts_name_series_and_labels_that_exist(alone, sqs_alone):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    known = {}
    for name, *labels in scrape(alone):
        known.setdefault(name, set()).update(label for label, _ in labels)
    # Only with TLS.
    known["millrace_tls_certificate_not_after_timestamp_seconds"] = set()
    dashboard = json.loads((ROOT / "docs/grafana/millrace.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [json.dumps(variable["query"]) for variable in dashboard["templating"]["list"]]
    expressions += [expr for expr in re.findall(r"expr: (?:>-)?((?:.|\n)*?)\n +(?:for|labels):", ALERTS.read_text())]
    assert len(expressions) > 20

    named = set()
    for expression in expressions:
        for name, labels in re.findall(r"\b((?:millrace|process)_[a-z_]+)(?:\{([^}]*)\})?", expression):
            named.add(name)
            assert name in known, expression
            # Prometheus adds these two.
            used = set(re.findall(r"([a-z_]+) ?(?:=|!)", labels)) - {"instance", "job"}
            assert used <= known[name], expression
        by = [label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in group.split(", ")]
        assert set(by) <= {"instance", "job"}.union(*known.values()), expression
    assert len(named) > 10
