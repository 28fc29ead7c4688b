"""CloudWatch through an SDK that knows only its Query protocol."""

import datetime

import boto3
import pytest
from botocore.config import Config


@pytest.fixture
def cloudwatch(server):
    return boto3.client(
        "cloudwatch",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_metrics_and_alarms(cloudwatch, new_name):
    assert cloudwatch.meta.service_model.metadata["protocol"] == "query"
    namespace, alarm = new_name(), new_name()
    now = datetime.datetime.now(datetime.timezone.utc)
    dimensions = [{"Name": "Shop", "Value": "a & b"}]
    datum = {"MetricName": "Sales", "Dimensions": dimensions, "Timestamp": now, "Values": [1, 2.5], "Counts": [2, 4]}
    cloudwatch.put_metric_data(Namespace=namespace, MetricData=[datum])

    assert cloudwatch.list_metrics(Namespace=namespace)["Metrics"] == [
        {"Namespace": namespace, "MetricName": "Sales", "Dimensions": dimensions}
    ]
    span = {"StartTime": now - datetime.timedelta(minutes=5), "EndTime": now + datetime.timedelta(minutes=5)}
    [point] = cloudwatch.get_metric_statistics(
        Namespace=namespace,
        MetricName="Sales",
        Dimensions=dimensions,
        Period=60,
        Statistics=["Sum", "SampleCount"],
        **span,
    )["Datapoints"]
    assert (point["Sum"], point["SampleCount"], point["Unit"]) == (12, 6, "None")
    assert point["Timestamp"] == now.replace(second=0, microsecond=0)
    metric = {"Namespace": namespace, "MetricName": "Sales", "Dimensions": dimensions}
    queries = [
        {"Id": "m", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Maximum"}},
        {"Id": "e", "Expression": "m * 2"},
    ]
    results = cloudwatch.get_metric_data(MetricDataQueries=queries, **span)["MetricDataResults"]
    assert [result["Values"] for result in results] == [[2.5], [5]]

    rule = {"EvaluationPeriods": 1, "Threshold": 1.5, "ComparisonOperator": "GreaterThanThreshold"}
    cloudwatch.put_metric_alarm(AlarmName=alarm, Period=60, Statistic="Sum", **metric, **rule)
    cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="drill")
    [shown] = cloudwatch.describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
    assert (shown["StateValue"], shown["Threshold"], shown["Dimensions"]) == ("ALARM", 1.5, dimensions)
    history = cloudwatch.describe_alarm_history(AlarmName=alarm)["AlarmHistoryItems"]
    assert [item["HistoryItemType"] for item in history] == ["StateUpdate", "ConfigurationUpdate"]
    cloudwatch.delete_alarms(AlarmNames=[alarm])
    with pytest.raises(cloudwatch.exceptions.ResourceNotFound):
        cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="r")
