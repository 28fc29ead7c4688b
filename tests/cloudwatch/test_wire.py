"""CloudWatch over bare HTTP: what SDKs do not show."""

import gzip
import json

import pytest
from support.wire import JSON_TYPE, request, scope_header

TARGET = "GraniteServiceVersion20100801"


def post(server, action, body, **headers):
    sent = {"X-Amz-Target": f"{TARGET}.{action}", "Content-Type": JSON_TYPE}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return request(server.endpoint, "POST", "/", body, sent)


def test_compressed_bodies_are_bounded(server):
    put = {"Namespace": "Wire", "MetricData": [{"MetricName": "M", "Value": 1}]}
    body = gzip.compress(json.dumps(put).encode())
    assert post(server, "PutMetricData", body, Content_Encoding="gzip").status == 200
    assert post(server, "PutMetricData", body[:-3], Content_Encoding="gzip").status == 400
    bomb = gzip.compress(bytes(100 << 20))
    assert len(bomb) < 1 << 20
    assert post(server, "PutMetricData", bomb, Content_Encoding="gzip").status == 413


def test_query_bodies_may_be_compressed(server):
    form = b"Action=PutMetricData&Version=2010-08-01&Namespace=Wire&MetricData.member.1.MetricName=Q&MetricData.member.1.Value=1"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Content-Encoding": "gzip"}
    answer = request(server.endpoint, "POST", "/", gzip.compress(form), headers)
    assert answer.status == 200
    assert answer.xml().tag == "{http://monitoring.amazonaws.com/doc/2010-08-01/}PutMetricDataResponse"
    assert answer.xml().findtext("{*}ResponseMetadata/{*}RequestId")


def test_an_unknown_alarm_is_answered_without_a_message(server):
    body = json.dumps({"AlarmName": "none", "StateValue": "OK", "StateReason": "r"})
    answer = post(server, "SetAlarmState", body, x_amzn_query_mode="true")
    assert answer.status == 404
    assert answer.headers["x-amzn-query-error"] == "ResourceNotFound;Sender"
    assert answer.json() == {"__type": "com.amazonaws.cloudwatch.v2010_08_01#ResourceNotFound"}


def test_a_status_of_the_query_protocol_is_for_clients_of_it(server):
    body = json.dumps({"AlarmName": "none", "StateValue": "OK", "StateReason": "r"})

    answers = [post(server, "SetAlarmState", body, **mode) for mode in ({}, {"x_amzn_query_mode": "false"})]

    assert [answer.status for answer in answers] == [400, 400]
    assert answers[0].json() == {"__type": "com.amazonaws.cloudwatch.v2010_08_01#ResourceNotFound"}


def test_empty_lists_are_empty_elements(server):
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": scope_header("eu-west-3", service="monitoring")}
    answer = request(server.endpoint, "POST", "/", "Action=DescribeAlarms&Version=2010-08-01", headers)
    assert "<MetricAlarms/>" in answer.text and "<CompositeAlarms/>" in answer.text


@pytest.mark.parametrize("body", [b"", b"\xa0", b"\xbf\xff", b"\xa1\x69NextToken\xf6"])
def test_cbor_bodies_may_be_empty_and_of_any_length(server, body):
    path = f"/service/{TARGET}/operation/ListMetrics"
    headers = {"Smithy-Protocol": "rpc-v2-cbor", "Accept": "application/cbor"}
    if body:
        headers["Content-Type"] = "application/cbor"
    answer = request(server.endpoint, "POST", path, body, headers)
    assert answer.status == 200, answer.body
    assert answer.headers["Smithy-Protocol"] == "rpc-v2-cbor"
    assert answer.headers["Content-Type"] == "application/cbor"
    # A map that begins with Metrics; NextToken follows if other tests left more than a page of them.
    assert answer.body[:1] in (b"\xa1", b"\xa2") and answer.body[1:9] == b"\x67Metrics"


@pytest.mark.parametrize(
    "body, shape",
    [(b"{", "SerializationException"), (b"[]", "SerializationException"), (b'{"Namespace":1}', "SerializationException")],
)
def test_malformed_bodies_are_refused(server, body, shape):
    answer = post(server, "ListMetrics", body)
    assert answer.status == 400 and answer.json()["__type"].endswith(f"#{shape}")
    path = f"/service/{TARGET}/operation/ListMetrics"
    headers = {"Smithy-Protocol": "rpc-v2-cbor", "Content-Type": "application/cbor"}
    answer = request(server.endpoint, "POST", path, b"\xff" + body, headers)
    assert answer.status == 400 and shape.encode() in answer.body


def test_unknown_operations_are_refused(server):
    assert post(server, "PutDashboard", "{}").json()["__type"].endswith("#UnknownOperationException")
    form = "Action=PutDashboard&Version=2010-08-01"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = request(server.endpoint, "POST", "/", form, headers)
    assert (answer.status, answer.xml().findtext("{*}Error/{*}Code")) == (400, "InvalidAction")


@pytest.mark.parametrize("service, operation", [("sqs", "ListQueues"), ("sqs", "ListMetrics"), ("sns", "ListMetrics")])
def test_only_cloudwatch_is_served_over_cbor(server, service, operation):
    headers = {"Smithy-Protocol": "rpc-v2-cbor", "Authorization": scope_header("us-east-1", service=service)}
    answer = request(server.endpoint, "POST", f"/service/{TARGET}/operation/{operation}", b"", headers)
    assert (answer.status, answer.headers["Content-Type"]) == (404, "application/cbor")
    assert b"#UnknownOperationException" in answer.body
