"""Metrics are deleted by command: durably, and with credentials only those of one's own account."""

import json
import os
import subprocess

import pytest

from support.server import binary
from support.sigv4 import Signer
from support.wire import JSON_TYPE, request

ACCOUNTS = {"ONE": "111111111111", "TWO": "222222222222"}
CREDENTIALS = "".join(
    f'[[credentials]]\naccess_key = "{key}"\nsecret_key = "{key}-secret"\naccount = "{account}"\n'
    for key, account in ACCOUNTS.items()
)


def put(cloudwatch, namespace, **dimensions):
    data = [
        {"MetricName": name, "Value": 1, "Dimensions": [{"Name": n, "Value": v} for n, v in dimensions.items()]}
        for name in ["Sales", "Returns"]
    ]
    cloudwatch.put_metric_data(Namespace=namespace, MetricData=data)


def listed(cloudwatch):
    metrics = cloudwatch.list_metrics()["Metrics"]
    return sorted((m["Namespace"], m["MetricName"], *(d["Value"] for d in m["Dimensions"])) for m in metrics)


@pytest.fixture
def delete(alone):
    """`delete("--all", expect=0)` → what `millrace metrics delete --yes --json` says."""

    def run(*arguments, expect=0, yes=("--yes",)):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MILLRACE_"))}
        done = subprocess.run(
            [binary(), "metrics", "delete", *arguments, *yes, "--json", "--endpoint", alone.endpoint],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == expect, done.stderr
        return json.loads(done.stdout)["series"] if expect == 0 else done.stderr

    return run


def test_metrics_are_deleted_by_namespace_name_and_dimension_for_good(alone, delete, new_client):
    cloudwatch = new_client("cloudwatch")
    put(cloudwatch, "Shop")
    put(cloudwatch, "Shop", City="x")
    put(cloudwatch, "Bank")

    assert "which metrics?" in delete(expect=2)
    assert "Delete 2 metrics at" in delete("--namespace", "Bank", yes=(), expect=2)
    assert delete("--namespace", "Nowhere") == 0
    assert delete("--namespace", "Bank", "--region", "eu-west-1") == 0
    assert len(listed(cloudwatch)) == 6
    assert delete("--namespace", "Bank") == 2
    assert delete("--name", "Sales", "--dimension", "City=x") == 1
    left = [("Shop", "Returns"), ("Shop", "Returns", "x"), ("Shop", "Sales")]
    assert listed(cloudwatch) == left
    for how in ["kill", "stop"]:
        alone.restart(how)
        assert listed(cloudwatch) == left
    assert delete("--all") == 3
    assert listed(cloudwatch) == []
    put(cloudwatch, "Shop")
    assert len(listed(cloudwatch)) == 2, "they may come back"


def test_with_credentials_an_account_deletes_its_own(make_server):
    server = make_server(config=CREDENTIALS, test=False)

    def call(key, path, body, **headers):
        body = json.dumps(body)
        headers = {"Content-Type": JSON_TYPE} | headers
        if key:
            service = "monitoring" if "X-Amz-Target" in headers else "sqs"
            signer = Signer(key, f"{key}-secret", service=service)
            headers = signer.headers("POST", f"{server.endpoint}{path}", headers, body, None)
        answer = request(server.endpoint, "POST", path, body, headers)
        return answer.status, answer.json()

    def cloudwatch(key, action, body):
        target = f"GraniteServiceVersion20100801.{action}"
        return call(key, "/", body, **{"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"})

    def delete(key, body):
        return call(key, "/_millrace/metrics/delete", body)

    for key in ACCOUNTS:
        data = {"Namespace": "Shop", "MetricData": [{"MetricName": "Sales", "Value": 1}]}
        assert cloudwatch(key, "PutMetricData", data)[0] == 200

    assert delete(None, {"all": True})[0] == 403
    assert delete("TWO", {"all": True, "account": ACCOUNTS["ONE"]})[0] == 403
    assert delete("TWO", {})[0] == 400
    assert delete("TWO", {"all": True, "queue": "x"})[0] == 400
    assert delete("TWO", {"namespace": "Shop", "dry_run": True}) == (200, {"series": 1})
    assert delete("TWO", {"namespace": "Shop"}) == (200, {"series": 1})
    assert cloudwatch("TWO", "ListMetrics", {})[1]["Metrics"] == []
    assert len(cloudwatch("ONE", "ListMetrics", {})[1]["Metrics"]) == 1


def test_a_reset_takes_metrics_and_alarms_with_it(alone, sqs_alone, new_client, clock):
    cloudwatch = new_client("cloudwatch")
    put(cloudwatch, "Shop")
    sqs_alone.create_queue(QueueName="jobs")
    clock.next_minute()
    cloudwatch.put_metric_alarm(
        AlarmName="many",
        Namespace="Shop",
        MetricName="Sales",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    assert len(listed(cloudwatch)) == 5

    assert request(alone.endpoint, "POST", "/_localstack/state/reset").status == 200

    for how in [None, "kill"]:
        if how:
            alone.restart(how)
        assert listed(cloudwatch) == []
        assert cloudwatch.describe_alarms()["MetricAlarms"] == []
        assert cloudwatch.describe_alarm_history()["AlarmHistoryItems"] == []
