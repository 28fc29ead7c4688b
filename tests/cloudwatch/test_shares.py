"""One account does not take from others what all share."""

import json
import socket
import time
import urllib.parse

import pytest

from support.sigv4 import Signer
from support.wire import request

ACCOUNTS = {"ONE": "111111111111", "TWO": "222222222222"}
CONFIG = "".join(
    f'[[credentials]]\naccess_key = "{key}"\nsecret_key = "{key}-secret"\naccount = "{account}"\n'
    for key, account in ACCOUNTS.items()
) + '[metrics]\ntoken = "token"\n'


@pytest.fixture
def guarded(make_server):
    return make_server(config=CONFIG, test=False)


def signed(server, key, action, body):
    """Headers and body of a CloudWatch request."""
    signer = Signer(key, f"{key}-secret", service="monitoring")
    target = f"GraniteServiceVersion20100801.{action}"
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    body = json.dumps(body)
    return signer.headers("POST", f"{server.endpoint}/", headers, body), body


def call(server, key, action, body):
    headers, body = signed(server, key, action, body)
    answer = request(server.endpoint, "POST", "/", body, headers)
    assert answer.status == 200, answer.text
    return answer.json()


def leave(server, key, action, body):
    """Asks, and leaves without an answer."""
    headers, body = signed(server, key, action, body)
    address = urllib.parse.urlsplit(server.endpoint)
    lines = ["POST / HTTP/1.1", f"Host: {address.netloc}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if name.lower() != "host"]
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        time.sleep(0.05)  # The request is read, and under way.


def costly(server, key):
    """A request that takes seconds."""
    for metric in range(40):
        data = [
            {"MetricName": f"m{metric}", "Value": 1, "Dimensions": [{"Name": "D", "Value": str(number)}]}
            for number in range(200)
        ]
        call(server, key, "PutMetricData", {"Namespace": "N", "MetricData": data})
    queries = [{"Id": f"a{number}", "Expression": "SEARCH('N', 'Sum', 60)"} for number in range(450)]
    now = int(time.time())
    return {"StartTime": now - 10_800, "EndTime": now + 60, "MetricDataQueries": queries}


def test_a_scrape_and_other_accounts_do_not_wait_for_the_requests_of_one(guarded):
    asked = costly(guarded, "ONE")
    for _ in range(10):
        leave(guarded, "ONE", "GetMetricData", asked)

    began = time.monotonic()
    scrape = request(guarded.endpoint, "GET", "/metrics", None, {"Authorization": "Bearer token"})
    call(guarded, "TWO", "PutMetricData", {"Namespace": "N", "MetricData": [{"MetricName": "m", "Value": 1}]})
    assert len(call(guarded, "TWO", "ListMetrics", {})["Metrics"]) == 1
    # Its own, too: what nobody waits for is not worked on.
    call(guarded, "ONE", "ListMetrics", {})
    took_s = time.monotonic() - began

    assert scrape.status == 200 and took_s < 2, took_s


def test_the_history_of_an_account_is_its_own(guarded):
    alarm = {
        "AlarmName": "a",
        "MetricName": "m",
        "Namespace": "N",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold",
        "Statistic": "Sum",
    }
    for key in ACCOUNTS:
        call(guarded, key, "PutMetricAlarm", alarm)
        call(guarded, key, "SetAlarmState", {"AlarmName": "a", "StateValue": "OK", "StateReason": key})

    items = call(guarded, "TWO", "DescribeAlarmHistory", {"HistoryItemType": "StateUpdate"})["AlarmHistoryItems"]

    assert [json.loads(item["HistoryData"])["newState"]["stateReason"] for item in items] == ["TWO"]
