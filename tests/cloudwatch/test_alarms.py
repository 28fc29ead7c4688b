"""Alarms are kept, evaluate each minute, and act."""

import json
import re
import shutil
import subprocess

import pytest
from botocore.exceptions import ClientError

from support.sdk import sdk_client
from support.server import ROOT, Server, binary

BACKLOG = {
    "Namespace": "AWS/SQS",
    "MetricName": "ApproximateNumberOfMessagesVisible",
    "Dimensions": [{"Name": "QueueName", "Value": "jobs"}],
    "Statistic": "Maximum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 2.0,
    "ComparisonOperator": "GreaterThanThreshold",
}
ARN = "arn:aws:sqs:us-east-1:000000000000:"


def refused(call, **parameters):
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    response = caught.value.response
    error = response["Error"]
    return response["ResponseMetadata"]["HTTPStatusCode"], error["Code"], error.get("Message", "")


@pytest.fixture
def alarm(cloudwatch):
    def named(name="backlog"):
        return cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]

    return named


def test_an_alarm_on_a_backlog_sends_to_a_queue_and_recovers(alone, clock, sqs_alone, cloudwatch, alarm):
    jobs = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    pages = sqs_alone.create_queue(QueueName="pages")["QueueUrl"]
    cloudwatch.put_metric_alarm(
        AlarmName="backlog", AlarmActions=[ARN + "pages"], OKActions=[ARN + "pages"], **BACKLOG
    )
    assert alarm()["StateValue"] == "INSUFFICIENT_DATA"
    assert alarm()["StateReason"] == "Unchecked: Initial alarm creation"

    def paged():
        messages = sqs_alone.receive_message(QueueUrl=pages, WaitTimeSeconds=5).get("Messages", [])
        for message in messages:
            sqs_alone.delete_message(QueueUrl=pages, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in messages]

    for _ in range(3):
        sqs_alone.send_message(QueueUrl=jobs, MessageBody="x")
    clock.next_minute()
    assert alarm()["StateValue"] == "ALARM"
    assert alarm()["StateReason"].startswith("Threshold Crossed: 1 datapoint [3.0 (")
    assert alarm()["StateReason"].endswith(")] was greater than the threshold (2.0).")
    [page] = paged()
    assert (page["OldStateValue"], page["NewStateValue"]) == ("INSUFFICIENT_DATA", "ALARM")
    assert page["AlarmArn"] == alarm()["AlarmArn"] and page["Region"] == "US East (N. Virginia)"
    assert page["Trigger"]["Dimensions"] == [{"name": "QueueName", "value": "jobs"}]
    assert page["Trigger"]["Statistic"] == "MAXIMUM"

    clock.next_minute()
    alone.restart("kill")
    assert alarm()["StateValue"] == "ALARM", "the state is durable"
    clock.next_minute()
    sqs_alone.purge_queue(QueueUrl=jobs)
    clock.advance(60)
    clock.advance(60)
    assert alarm()["StateValue"] == "OK"
    assert [page["NewStateValue"] for page in paged()] == ["OK"], "it acts once for each change"

    history = cloudwatch.describe_alarm_history(AlarmName="backlog", ScanBy="TimestampAscending")
    summaries = [item["HistorySummary"] for item in history["AlarmHistoryItems"]]
    assert summaries == [
        'Alarm "backlog" created',
        "Alarm updated from INSUFFICIENT_DATA to ALARM",
        f"Successfully executed action {ARN}pages",
        "Alarm updated from ALARM to OK",
        f"Successfully executed action {ARN}pages",
    ]


def test_two_of_three_periods_and_missing_data(clock, cloudwatch, alarm):
    cloudwatch.put_metric_alarm(
        AlarmName="sales",
        Namespace="Shop",
        MetricName="Sales",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=3,
        DatapointsToAlarm=2,
        Threshold=10,
        ComparisonOperator="LessThanThreshold",
        TreatMissingData="notBreaching",
    )
    states, reasons = [], []
    for value in [20, 5, 20, 5, None, None, None, None, None]:
        if value is not None:
            cloudwatch.put_metric_data(Namespace="Shop", MetricData=[{"MetricName": "Sales", "Value": value}])
        clock.next_minute()
        states.append(alarm("sales")["StateValue"])
        reasons.append(re.sub(r" \(../../.. ..:..:..\)", "", alarm("sales")["StateReason"]))

    assert states[:4] == ["OK", "OK", "OK", "ALARM"]
    assert reasons[3] == (
        "Threshold Crossed: 2 out of the last 3 datapoints [5.0, 5.0] were less than the threshold (10.0) "
        "(minimum 2 datapoints for OK -> ALARM transition)."
    )
    assert states[-1] == "OK", "missing data does not breach"
    assert reasons[-1] == (
        "Threshold Crossed: 1 out of the last 3 datapoints [20.0] was not less than the threshold (10.0) and 1 "
        "missing datapoint was treated as [NonBreaching] (minimum 2 datapoints for ALARM -> OK transition)."
    )


def test_an_alarm_on_an_expression(clock, sqs_alone, cloudwatch, alarm):
    url = sqs_alone.create_queue(QueueName="jobs")["QueueUrl"]
    metric = lambda name: {  # noqa: E731
        "Metric": {"Namespace": "AWS/SQS", "MetricName": name, "Dimensions": BACKLOG["Dimensions"]},
        "Period": 60,
        "Stat": "Sum",
    }
    cloudwatch.put_metric_alarm(
        AlarmName="lag",
        Metrics=[
            {"Id": "sent", "MetricStat": metric("NumberOfMessagesSent"), "ReturnData": False},
            {"Id": "deleted", "MetricStat": metric("NumberOfMessagesDeleted"), "ReturnData": False},
            {"Id": "lag", "Expression": "sent - deleted", "ReturnData": True},
        ],
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )
    sqs_alone.send_message(QueueUrl=url, MessageBody="x")
    clock.next_minute()

    shown = alarm("lag")
    assert shown["StateValue"] == "ALARM"
    assert [query["Id"] for query in shown["Metrics"]] == ["sent", "deleted", "lag"]
    data = json.loads(shown["StateReasonData"])
    assert data["recentDatapoints"] == [1.0] and data["evaluatedDatapoints"][0]["value"] == 1.0
    assert data["startDate"].endswith(":00.000+0000") and "statistic" not in data


def test_an_alarm_on_a_list_of_one_metric_is_shown_as_it_was_put(clock, cloudwatch, alarm):
    metric = {name: BACKLOG[name] for name in ["Namespace", "MetricName", "Dimensions"]}
    stat = {"Metric": metric, "Period": 60, "Stat": "Maximum"}
    metrics = [{"Id": "backlog", "Label": "jobs", "MetricStat": stat, "ReturnData": True, "AccountId": "0" * 12}]
    rule = {name: BACKLOG[name] for name in ["EvaluationPeriods", "Threshold", "ComparisonOperator"]}
    cloudwatch.put_metric_alarm(AlarmName="backlog", Metrics=metrics, TreatMissingData="breaching", **rule)
    clock.next_minute()

    shown = alarm()
    assert shown["Metrics"] == metrics and "MetricName" not in shown
    assert shown["StateReason"] == (
        "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint was treated as "
        "[Breaching]."
    )


def test_alarms_are_put_changed_described_and_deleted(clock, cloudwatch, alarm):
    put = {"AlarmName": "backlog", "AlarmDescription": "too much to do"} | BACKLOG
    cloudwatch.put_metric_alarm(**put, Tags=[{"Key": "team", "Value": "a"}])
    cloudwatch.set_alarm_state(AlarmName="backlog", StateValue="ALARM", StateReason="drill")
    cloudwatch.put_metric_alarm(**(put | {"Threshold": 9}))

    shown = alarm()
    assert (shown["StateValue"], shown["StateReason"], shown["Threshold"]) == ("ALARM", "drill", 9)
    for name in put.keys() - {"Threshold"}:
        assert shown[name] == put[name]
    assert shown["ActionsEnabled"] is True and shown["OKActions"] == []
    arn = shown["AlarmArn"]
    assert arn == "arn:aws:cloudwatch:us-east-1:000000000000:alarm:backlog"
    assert cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "team", "Value": "a"}]
    cloudwatch.tag_resource(ResourceARN=arn, Tags=[{"Key": "b", "Value": "2"}])
    cloudwatch.untag_resource(ResourceARN=arn, TagKeys=["team"])
    assert cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    cloudwatch.disable_alarm_actions(AlarmNames=["backlog"])
    assert alarm()["ActionsEnabled"] is False
    cloudwatch.enable_alarm_actions(AlarmNames=["backlog"])
    assert alarm()["ActionsEnabled"] is True
    of_metric = {name: BACKLOG[name] for name in ["Namespace", "MetricName", "Dimensions"]}
    found = cloudwatch.describe_alarms_for_metric(**of_metric)["MetricAlarms"]
    assert [alarm["AlarmName"] for alarm in found] == ["backlog"]
    for n in range(5):
        cloudwatch.put_metric_alarm(**(put | {"AlarmName": f"other-{n}"}))
    pages = cloudwatch.get_paginator("describe_alarms").paginate(PaginationConfig={"PageSize": 4})
    assert [len(page["MetricAlarms"]) for page in pages] == [4, 2]
    assert len(cloudwatch.describe_alarms(AlarmNamePrefix="other", StateValue="OK")["MetricAlarms"]) == 0
    assert cloudwatch.describe_alarms(ChildrenOfAlarmName="backlog")["MetricAlarms"] == []
    assert cloudwatch.describe_alarm_history(AlarmTypes=["CompositeAlarm"])["AlarmHistoryItems"] == []
    cloudwatch.delete_alarms(AlarmNames=["backlog", "unknown"])
    history = cloudwatch.describe_alarm_history(AlarmName="backlog", HistoryItemType="ConfigurationUpdate")
    items = [json.loads(item["HistoryData"]) for item in history["AlarmHistoryItems"]]
    assert items[-1]["createdAlarm"]["threshold"] == 2
    assert items[-2]["updatedAlarm"]["threshold"] == 9 and items[-2]["updatedAlarm"]["stateValue"] == "ALARM"
    assert items[0]["deletedAlarm"]["alarmName"] == "backlog" and items[0]["type"] == "Delete"
    assert cloudwatch.describe_alarms(AlarmNames=["backlog"])["MetricAlarms"] == []
    cloudwatch.delete_alarms(AlarmNames=["backlog"])
    again = cloudwatch.describe_alarm_history(AlarmName="backlog", HistoryItemType="ConfigurationUpdate")
    assert len(again["AlarmHistoryItems"]) == len(items)


def test_a_percentile_of_few_samples_may_be_ignored(clock, cloudwatch, alarm):
    rule = {name: BACKLOG[name] for name in ["Period", "EvaluationPeriods", "Threshold", "ComparisonOperator"]}
    for low in ["evaluate", "ignore"]:
        metric = {"Namespace": "Shop", "MetricName": "Time", "ExtendedStatistic": "p90"}
        cloudwatch.put_metric_alarm(AlarmName=low, EvaluateLowSampleCountPercentile=low, **metric, **rule)

    def states(count):
        data = [{"MetricName": "Time", "Values": [9], "Counts": [count]}]
        cloudwatch.put_metric_data(Namespace="Shop", MetricData=data)
        clock.next_minute()
        return alarm("evaluate")["StateValue"], alarm("ignore")["StateValue"]

    assert states(99) == ("ALARM", "INSUFFICIENT_DATA")
    assert states(100) == ("ALARM", "ALARM")


def test_a_period_below_a_minute_is_shown_as_it_was_put(clock, cloudwatch, alarm):
    cloudwatch.put_metric_alarm(**({"AlarmName": "backlog"} | BACKLOG | {"Period": 10}))

    assert alarm()["Period"] == 10


def test_refusals(cloudwatch):
    state = {"AlarmName": "none", "StateReason": "r"}
    assert refused(cloudwatch.set_alarm_state, StateValue="OK", **state)[:2] == (404, "ResourceNotFound")
    assert refused(cloudwatch.set_alarm_state, StateValue="INVALID", **state) == (
        400,
        "ValidationError",
        "1 validation error detected: Value 'INVALID' at 'stateValue' failed to satisfy constraint: Member must "
        "satisfy enum value set: [INSUFFICIENT_DATA, ALARM, OK]",
    )
    data = {"StateReasonData": json.dumps("x" * 4000)}
    refusal = refused(cloudwatch.set_alarm_state, StateValue="OK", **(state | data))
    assert refusal[:2] == (400, "ValidationError")
    put = {"AlarmName": "backlog"} | BACKLOG
    for change in [
        {"DatapointsToAlarm": 2},
        {"EvaluationPeriods": 1441},
        {"AlarmActions": ["nonsense"]},
        {"TreatMissingData": "maybe"},
        {"Period": 5},
        {"Period": 90},
        {"AlarmActions": [ARN + "x" * 1024]},
        {"Tags": [{"Key": "k" * 129, "Value": ""}]},
    ]:
        assert refused(cloudwatch.put_metric_alarm, **(put | change))[:2] == (400, "ValidationError")
    assert refused(cloudwatch.put_metric_alarm, **(put | {"TreatMissingData": "maybe"}))[2] == (
        "The value maybe is not supported for TreatMissingData parameter. Supported values are [breaching, "
        "notBreaching, ignore, missing]."
    )
    rule = {name: value for name, value in put.items() if name != "Statistic"}
    few = {"ExtendedStatistic": "p90", "EvaluateLowSampleCountPercentile": "maybe"}
    assert refused(cloudwatch.put_metric_alarm, **(rule | few)) == (
        400,
        "ValidationError",
        "Option maybe is not supported. Supported options for parameter EvaluateLowSampleCountPercentile are "
        "evaluate and ignore.",
    )
    queries = [{"Id": f"e{n}", "Expression": "TIME_SERIES(1)", "ReturnData": n == 0} for n in range(21)]
    math = {"AlarmName": "math", "Metrics": queries, "EvaluationPeriods": 1, "Threshold": 1.0}
    math["ComparisonOperator"] = "GreaterThanThreshold"
    assert refused(cloudwatch.put_metric_alarm, **math)[:2] == (400, "ValidationError")
    foreign = [{"Id": "e", "Expression": "TIME_SERIES(1)", "AccountId": "123456789012"}]
    code, message = refused(cloudwatch.put_metric_alarm, **(math | {"Metrics": foreign}))[1:]
    assert code == "ValidationError" and "Metrics.member.1.AccountId is not the account of the caller" in message
    for expression in ["SUM(SEARCH('x', 'Sum', 60))", "m9 + 1", "HALVE(e)", "e + 1", "5", "[TIME_SERIES(1)]"]:
        queries = [{"Id": "e", "Expression": expression, "ReturnData": True}]
        refusal = refused(cloudwatch.put_metric_alarm, **(math | {"Metrics": queries}))
        assert refusal[:2] == (400, "ValidationError")
        assert ("SEARCH" not in expression) or refusal[2] == "SEARCH is not supported on Metric Alarms."
    without = {name: value for name, value in put.items() if name != "Statistic"}
    assert refused(cloudwatch.put_metric_alarm, **without)[:2] == (400, "ValidationError")
    both = put | {"Metrics": [{"Id": "e", "Expression": "TIME_SERIES(1)"}]}
    assert refused(cloudwatch.put_metric_alarm, **both)[:2] == (400, "ValidationError")
    assert refused(cloudwatch.set_alarm_state, StateValue="OK", AlarmName="a" * 256, StateReason="r")[1] == "ValidationError"
    assert refused(cloudwatch.describe_alarms, MaxRecords=101)[1] == "ValidationError"
    arn = "arn:aws:cloudwatch:us-east-1:000000000000:alarm:none"
    assert cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"] == [], "as CloudWatch has it"
    assert refused(cloudwatch.tag_resource, ResourceARN=arn, Tags=[{"Key": "k", "Value": "v"}])[:2] == (
        404,
        "ResourceNotFoundException",
    )


def test_tags_are_bounded(cloudwatch):
    arn = "arn:aws:cloudwatch:us-east-1:000000000000:alarm:backlog"
    cloudwatch.put_metric_alarm(AlarmName="backlog", **BACKLOG)

    def tags(count, first=0):
        return [{"Key": f"k{n}", "Value": "v"} for n in range(first, first + count)]

    cloudwatch.tag_resource(ResourceARN=arn, Tags=tags(50))
    for more in [tags(51), tags(1, 50), [{"Key": "k" * 129, "Value": ""}], [{"Key": "k", "Value": "v" * 257}]]:
        with pytest.raises(ClientError) as caught:
            cloudwatch.tag_resource(ResourceARN=arn, Tags=more)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert len(cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"]) == 50


def test_tag_keys_of_amazon_are_refused(cloudwatch):
    arn = "arn:aws:cloudwatch:us-east-1:000000000000:alarm:backlog"
    reserved = [{"Key": "aws:team", "Value": "a"}]
    refusal = (400, "ValidationError", "aws: prefixed tag key names are not allowed for external use.")

    assert refused(cloudwatch.put_metric_alarm, AlarmName="backlog", Tags=reserved, **BACKLOG) == refusal
    assert cloudwatch.describe_alarms()["MetricAlarms"] == []
    cloudwatch.put_metric_alarm(AlarmName="backlog", **BACKLOG)
    assert refused(cloudwatch.tag_resource, ResourceARN=arn, Tags=reserved) == refusal
    assert cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"] == []


def test_alarms_of_an_earlier_version_are_taken_over(alone, sqs_alone, cloudwatch):
    """The file that version 0.2.0 left when it was killed between a change of state and its notification."""
    pages = sqs_alone.create_queue(QueueName="pages")["QueueUrl"]
    alone.stop()
    file = alone.data / "metrics" / "alarms.log"
    shutil.copy(ROOT / "crates/millrace-services/tests/fixtures/0.2.0/metrics/alarms.log", file)
    alone.start()

    assert not file.exists()
    states = {alarm["AlarmName"]: alarm["StateValue"] for alarm in cloudwatch.describe_alarms()["MetricAlarms"]}
    assert states == {"backlog": "ALARM", "quiet": "OK"}
    [message] = sqs_alone.receive_message(QueueUrl=pages, WaitTimeSeconds=20)["Messages"]
    assert json.loads(message["Body"])["AlarmName"] == "backlog"
    alone.restart("kill")
    assert len(cloudwatch.describe_alarms()["MetricAlarms"]) == 2


def test_a_server_that_cannot_take_over_alarms_does_not_start(alone):
    """It would serve alarms that a later try takes for changes of what it knows."""
    alone.stop()
    file = alone.data / "metrics" / "alarms.log"
    file.write_text("something else")
    with pytest.raises(AssertionError, match=r"(?s)server exited 1:.*alarms\.log"):
        alone.start()
    file.unlink()
    alone.start()


def test_alarms_need_no_directory_of_metrics(alone, clock, sqs_alone, cloudwatch, alarm):
    """It may be left out of a copy: what alarms are is in the journal."""
    sqs_alone.create_queue(QueueName="pages")
    ignoring = BACKLOG | {"TreatMissingData": "ignore"}
    cloudwatch.put_metric_alarm(AlarmName="backlog", AlarmActions=[ARN + "pages"], **ignoring)
    cloudwatch.set_alarm_state(AlarmName="backlog", StateValue="ALARM", StateReason="drill")
    alone.stop()
    shutil.rmtree(alone.data / "metrics")
    (alone.data / "metrics").write_text("no directory")
    alone.start()

    assert (alarm()["StateValue"], alarm()["StateReason"]) == ("ALARM", "drill")
    history = cloudwatch.describe_alarm_history(AlarmName="backlog")["AlarmHistoryItems"]
    assert [item["HistoryItemType"] for item in history] == ["Action", "StateUpdate", "ConfigurationUpdate"]
    cloudwatch.delete_alarms(AlarmNames=["backlog"])
    assert cloudwatch.describe_alarms()["MetricAlarms"] == []


def test_a_backup_has_the_alarms(alone, new_client, tmp_path):
    ignoring = BACKLOG | {"TreatMissingData": "ignore"}
    new_client("cloudwatch").put_metric_alarm(AlarmName="backlog", **ignoring)
    new_client("cloudwatch").set_alarm_state(AlarmName="backlog", StateValue="ALARM", StateReason="drill")
    copy = Server(tmp_path / "copy")
    subprocess.run([binary(), "backup", copy.data, "--endpoint", alone.endpoint], check=True)
    subprocess.run([binary(), "journal", "check", "--data", copy.data], check=True)
    try:
        copy.start()
        [alarm] = sdk_client(copy, service="cloudwatch").describe_alarms()["MetricAlarms"]
    finally:
        copy.close()

    assert (alarm["AlarmName"], alarm["StateReason"]) == ("backlog", "drill")


def test_documents_of_alarms_are_counted(alone, sqs_alone, cloudwatch):
    ignoring = BACKLOG | {"TreatMissingData": "ignore"}
    cloudwatch.put_metric_alarm(AlarmName="backlog", AlarmActions=["arn:aws:sns:::x"], **ignoring)
    cloudwatch.set_alarm_state(AlarmName="backlog", StateValue="ALARM", StateReason="drill")

    text = alone.get("/metrics")[1].decode()
    assert 'millrace_kept_documents{collection="alarms"} 1' in text
    assert 'millrace_kept_documents{collection="alarm-history"} 3' in text
    assert 'collection="alarm-outbox"' not in text, "that the action is not supported is noted, and not tried again"
