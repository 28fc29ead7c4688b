"""/metrics: what Prometheus reads is well formed, bounded, and agrees with what clients did."""

import json
import math
import re
import urllib.error

import pytest
from support.prometheus import of, scrape
from support.server import ROOT
from support.wire import JsonApi


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
    assert of(series, "millrace_journal_poisoned") == 0
    assert of(series, "millrace_journal_sync_duration_seconds_count") > 0
    assert of(series, "millrace_connections") >= 1
    assert of(series, "process_resident_memory_bytes") > 1 << 20
    for key, value in series.items():
        assert math.isfinite(value), key


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


def test_dashboard_and_alerts_name_series_that_exist(alone, sqs_alone):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    known = {key[0] for key in scrape(alone)}
    dashboard = json.loads((ROOT / "docs/grafana/millrace.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    alerts = (ROOT / "docs/alerts.yaml").read_text()
    named = set(re.findall(r"\b(?:millrace|process)_[a-z_]+", " ".join([*expressions, alerts])))

    assert len(named) > 10
    assert named - known - {"millrace_build_info"} == set()
