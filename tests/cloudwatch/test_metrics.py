"""PutMetricData, GetMetricStatistics, GetMetricData, ListMetrics."""

import datetime

import pytest
from botocore.exceptions import ClientError


@pytest.fixture
def put(cloudwatch):
    def of(*data, namespace="Shop"):
        cloudwatch.put_metric_data(Namespace=namespace, MetricData=list(data))

    return of


def refused(call, **parameters) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    error = caught.value.response["Error"]
    return error["Code"], error.get("Message", "")


def test_statistics_of_values_sets_and_counts(put, cloudwatch, clock):
    start = clock.time(300).replace(second=0, microsecond=0)
    minute = datetime.timedelta(minutes=1)
    put(
        {"MetricName": "Sales", "Timestamp": start, "Value": 3, "Unit": "Count"},
        {"MetricName": "Sales", "Timestamp": start, "Value": 5, "Unit": "Count"},
        {"MetricName": "Sales", "Timestamp": start + minute, "Values": [1, 2], "Counts": [10, 5], "Unit": "Count"},
        {
            "MetricName": "Sales",
            "Timestamp": start + 2 * minute,
            "StatisticValues": {"SampleCount": 4, "Sum": 10, "Minimum": 1, "Maximum": 4},
            "Unit": "Count",
        },
    )

    asked = {
        "Namespace": "Shop",
        "MetricName": "Sales",
        "StartTime": start,
        "EndTime": start + 3 * minute,
        "Statistics": ["SampleCount", "Sum", "Average", "Minimum", "Maximum"],
    }
    by_minute = cloudwatch.get_metric_statistics(Period=60, **asked)
    whole = cloudwatch.get_metric_statistics(Period=180, **asked)["Datapoints"]
    del asked["Statistics"]
    p50 = cloudwatch.get_metric_statistics(Period=60, ExtendedStatistics=["p50"], **asked)["Datapoints"]

    assert by_minute["Label"] == "Sales"
    points = sorted(by_minute["Datapoints"], key=lambda point: point["Timestamp"])
    assert [point["Sum"] for point in points] == [8, 20, 10]
    assert [point["SampleCount"] for point in points] == [2, 15, 4]
    assert [(point["Minimum"], point["Maximum"]) for point in points] == [(3, 5), (1, 2), (1, 4)]
    assert points[0]["Timestamp"] == start and points[0]["Unit"] == "Count"
    assert [(point["Sum"], point["SampleCount"]) for point in whole] == [(38, 21)]
    known = [point["ExtendedStatistics"]["p50"] for point in p50 if "ExtendedStatistics" in point]
    assert known == [3, 1], "a set of statistics hides its values"


def test_extended_statistics_may_have_bounds(put, cloudwatch, clock):
    start = clock.time(300).replace(second=0, microsecond=0)
    put({"MetricName": "Sizes", "Timestamp": start, "Values": list(range(1, 11))})
    expected = {"tc90": 9, "TM(10%:90%)": 5.5, "TS(3:5)": 9, "PR(:3)": 30, "wm80": 5.2, "IQM": 5.5}

    span = {"StartTime": start, "EndTime": start + datetime.timedelta(minutes=1), "Period": 60}
    answer = cloudwatch.get_metric_statistics(
        Namespace="Shop", MetricName="Sizes", ExtendedStatistics=list(expected), **span
    )
    [point] = answer["Datapoints"]

    assert point["ExtendedStatistics"] == expected


def test_data_of_entities_are_stored_too(cloudwatch, datapoints):
    entity = {"KeyAttributes": {"Type": "Service", "Name": "till"}}
    of_entity = [{"Entity": entity, "MetricData": [{"MetricName": "Sales", "Value": 3}]}]
    cloudwatch.put_metric_data(Namespace="Shop", EntityMetricData=of_entity)
    cloudwatch.put_metric_data(
        Namespace="Shop", MetricData=[{"MetricName": "Sales", "Value": 4}], EntityMetricData=of_entity
    )

    assert [point["Sum"] for point in datapoints("Sales")] == [10]


def test_units_are_kept_apart(put, cloudwatch, datapoints, clock):
    put(
        {"MetricName": "Time", "Value": 3, "Unit": "Seconds"},
        {"MetricName": "Time", "Value": 4000, "Unit": "Milliseconds"},
    )

    both = datapoints("Time")
    one = datapoints("Time", Unit="Seconds")

    stat = {"Metric": {"Namespace": "Shop", "MetricName": "Time"}, "Period": 60, "Stat": "Sum"}
    span = {"StartTime": clock.time(600), "EndTime": clock.time(-60)}
    answer = cloudwatch.get_metric_data(MetricDataQueries=[{"Id": "m", "MetricStat": stat}], **span)
    [result] = answer["MetricDataResults"]

    assert result["Values"] == [4000] and answer["Messages"] == []
    [message] = result["Messages"]
    assert message["Value"] == "Multiple units returned: '[Milliseconds, Seconds]'"
    assert {(point["Unit"], point["Sum"]) for point in both} == {("Seconds", 3), ("Milliseconds", 4000)}
    assert [(point["Unit"], point["Sum"]) for point in one] == [("Seconds", 3)]


def test_periods_begin_at_the_start_and_the_end_is_rounded_down(put, cloudwatch, datapoints, clock):
    minute = datetime.timedelta(minutes=1)
    # A minute before a full hour.
    start = clock.time(4 * 3600).replace(minute=59, second=0, microsecond=0)
    times = [start + n * minute for n in range(60)]
    put(*({"MetricName": "Hits", "Timestamp": time, "Value": 1} for time in times))

    def found(start, end, period):
        asked = {"StartTime": start, "EndTime": end}
        stat = {"Metric": {"Namespace": "Shop", "MetricName": "Hits"}, "Period": period, "Stat": "Sum"}
        queries = [{"Id": "hits", "MetricStat": stat}, {"Id": "filled", "Expression": "FILL(hits, 0)"}]
        answer = cloudwatch.get_metric_data(MetricDataQueries=queries, ScanBy="TimestampAscending", **asked)
        points = datapoints("Hits", Period=period, **asked)
        same = [dict(zip(result["Timestamps"], result["Values"])) for result in answer["MetricDataResults"]]
        same.append({point["Timestamp"]: point["Sum"] for point in points})
        assert same[0] == same[1] == same[2]
        return same[0]

    assert found(start, start + 60 * minute, 1200) == {start + n * minute: 20 for n in (0, 20, 40)}
    seconds = datetime.timedelta(seconds=40)
    between = found(start + 24 * minute + seconds, start + 26 * minute + seconds, 60)
    assert between == {start + 24 * minute: 1, start + 25 * minute: 1}


def test_who_asks_up_to_now_sees_the_minutes_that_have_ended(put, cloudwatch, clock):
    ended = clock.time().replace(second=0, microsecond=0)
    put({"MetricName": "Hits", "Value": 1})
    clock.next_minute()
    put({"MetricName": "Hits", "Value": 2})
    clock.advance(30)

    def found(end):
        stat = {"Metric": {"Namespace": "Shop", "MetricName": "Hits"}, "Period": 60, "Stat": "Sum"}
        queries = [{"Id": "hits", "MetricStat": stat}]
        answer = cloudwatch.get_metric_data(MetricDataQueries=queries, StartTime=clock.time(600), EndTime=end)
        [result] = answer["MetricDataResults"]
        return dict(zip(result["Timestamps"], result["Values"]))

    assert found(clock.time()) == {ended: 1}
    assert found(clock.time(-30)) == {ended: 1, ended + datetime.timedelta(minutes=1): 2}


def test_dimensions_are_an_exact_set_in_any_order(put, datapoints):
    a, b = {"Name": "A", "Value": "1"}, {"Name": "B", "Value": "2"}
    put({"MetricName": "Hits", "Dimensions": [a, b], "Value": 1})

    def found(*dimensions):
        return datapoints("Hits", Dimensions=list(dimensions))

    assert len(found(b, a)) == 1
    assert found(a) == [] and found() == []


def test_metric_data_with_math(put, cloudwatch, clock):
    start = clock.time(300).replace(second=0, microsecond=0)
    for at, (sent, failed) in enumerate([(10, 1), (20, None), (40, 4)]):
        timestamp = start + datetime.timedelta(minutes=at)
        put({"MetricName": "Sent", "Timestamp": timestamp, "Value": sent})
        if failed is not None:
            put({"MetricName": "Failed", "Timestamp": timestamp, "Value": failed})

    def stat(name):
        metric = {"Namespace": "Shop", "MetricName": name}
        return {"Metric": metric, "Period": 60, "Stat": "Sum"}

    answer = cloudwatch.get_metric_data(
        MetricDataQueries=[
            {"Id": "sent", "MetricStat": stat("Sent")},
            {"Id": "failed", "MetricStat": stat("Failed"), "ReturnData": False},
            {"Id": "share", "Expression": "100 * FILL(failed, 0) / sent", "Label": "Failed %"},
            {"Id": "all", "Expression": "SUM(METRICS())"},
            {"Id": "found", "Expression": "SEARCH('{Shop} MetricName=\"Sent\"', 'Sum', 60)"},
        ],
        StartTime=start,
        EndTime=start + datetime.timedelta(minutes=3),
        ScanBy="TimestampAscending",
    )

    results = {result["Id"]: result for result in answer["MetricDataResults"]}
    assert set(results) == {"sent", "share", "all", "found"}
    assert results["sent"]["Values"] == [10, 20, 40] and results["sent"]["Label"] == "Sent"
    assert results["sent"]["Timestamps"][0] == start
    assert results["share"]["Values"] == [10, 0, 10] and results["share"]["Label"] == "Failed %"
    assert results["all"]["Values"] == [11, 20, 44]
    assert results["found"]["Values"] == [10, 20, 40]
    assert all(result["StatusCode"] == "Complete" for result in results.values())


def test_pages_of_metric_data_hold_every_point_once(put, cloudwatch, clock):
    start = clock.time(1200).replace(second=0, microsecond=0)
    for name in ["A", "B"]:
        put(*(
            {"MetricName": name, "Timestamp": start + datetime.timedelta(minutes=n), "Value": n} for n in range(7)
        ))
    queries = [
        {"Id": name.lower(), "MetricStat": {"Metric": {"Namespace": "Shop", "MetricName": name}, "Period": 60, "Stat": "Sum"}}
        for name in ["A", "B"]
    ]

    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=start, EndTime=clock.time(), MaxDatapoints=3
    )

    values = {"a": [], "b": []}
    for page in pages:
        for result in page["MetricDataResults"]:
            values[result["Id"]] += result["Values"]
    assert values == {"a": [6, 5, 4, 3, 2, 1, 0], "b": [6, 5, 4, 3, 2, 1, 0]}


def test_data_that_arrive_between_pages_repeat_nothing(put, cloudwatch, clock):
    start = clock.time(1200).replace(second=0, microsecond=0)
    minute = datetime.timedelta(minutes=1)
    put(*({"MetricName": "A", "Timestamp": start + n * minute, "Value": n} for n in range(4)))
    stat = {"Metric": {"Namespace": "Shop", "MetricName": "A"}, "Period": 60, "Stat": "Sum"}
    asked = {"MetricDataQueries": [{"Id": "a", "MetricStat": stat}], "StartTime": start, "EndTime": clock.time()}

    first = cloudwatch.get_metric_data(MaxDatapoints=2, **asked)
    put({"MetricName": "A", "Timestamp": start + 4 * minute, "Value": 4})
    second = cloudwatch.get_metric_data(MaxDatapoints=2, NextToken=first["NextToken"], **asked)
    assert [page["MetricDataResults"][0]["Values"] for page in (first, second)] == [[3, 2], [1, 0]]
    assert "NextToken" not in second


def test_metrics_are_listed_in_pages(put, cloudwatch):
    for chunk in range(3):
        put(*({"MetricName": f"M{chunk}-{n:03}", "Value": 1} for n in range(300)), namespace="Many")
    put({"MetricName": "Other", "Dimensions": [{"Name": "A", "Value": "1"}], "Value": 1})

    pages = list(cloudwatch.get_paginator("list_metrics").paginate(Namespace="Many"))
    names = [metric["MetricName"] for page in pages for metric in page["Metrics"]]
    assert [len(page["Metrics"]) for page in pages] == [500, 400]
    assert len(set(names)) == 900
    assert cloudwatch.list_metrics(Dimensions=[{"Name": "A"}], RecentlyActive="PT3H")["Metrics"] == [
        {"Namespace": "Shop", "MetricName": "Other", "Dimensions": [{"Name": "A", "Value": "1"}]}
    ]


def test_metrics_are_of_the_callers_account(put, cloudwatch):
    put({"MetricName": "Sales", "Value": 1})

    def listed(account):
        found = cloudwatch.list_metrics(Namespace="Shop", IncludeLinkedAccounts=True, OwningAccount=account)
        return [metric["MetricName"] for metric in found["Metrics"]]

    assert listed("000000000000") == ["Sales"]
    assert listed("111111111111") == []


def test_what_was_put_survives_a_kill(alone, put, cloudwatch, datapoints, clock):
    # Above 10 KB the SDK compresses.
    values = [{"MetricName": "Sales", "Value": n, "Dimensions": [{"Name": "Shop", "Value": f"shop-{n}"}]} for n in range(400)]
    put(*values)
    alone.restart("kill")

    listed = cloudwatch.get_paginator("list_metrics").paginate(Namespace="Shop")
    assert sum(len(page["Metrics"]) for page in listed) == 400
    shop = [{"Name": "Shop", "Value": "shop-399"}]
    # The clock has fallen back to real time.
    points = datapoints("Sales", Dimensions=shop, EndTime=clock.time(-180))
    assert [point["Sum"] for point in points] == [399]


def test_metric_math_is_bounded_in_depth_and_in_size(cloudwatch, clock):
    def fault(*expressions):
        queries = [{"Id": f"e{n}", "Expression": text, "Period": 60} for n, text in enumerate(expressions)]
        span = {"StartTime": clock.time(600), "EndTime": clock.time()}
        try:
            cloudwatch.get_metric_data(MetricDataQueries=queries, **span)
        except ClientError as error:
            return error.response["Error"]["Code"]

    long = [f"e{n + 1}" + "+1" * 1000 for n in range(60)]
    assert fault(*long, "TIME_SERIES(1)") is None
    deep = [f"e{n + 1}".join(["ABS(" * 30, ")" * 30]) for n in range(60)]
    assert fault(*deep, "TIME_SERIES(1)") == "ValidationError"
    lists = ["TIME_SERIES(1)"] + [f"[{','.join([f'e{n}'] * 500)}]" for n in range(3)]
    assert fault(*lists) == "ValidationError"


def test_refusals(cloudwatch, clock):
    def put(**datum):
        return refused(cloudwatch.put_metric_data, Namespace="Shop", MetricData=[{"MetricName": "M"} | datum])

    first = "MetricData.member.1"
    assert put(Value=1, Values=[1]) == (
        "InvalidParameterCombination",
        f"The parameters {first}.Value and {first}.Values are mutually exclusive and you have specified both.",
    )
    assert put(Values=[1, 2], Counts=[1]) == (
        "InvalidParameterValue",
        f"The parameters {first}.Values and {first}.Counts must be of the same size.",
    )
    set_of_two = {"SampleCount": 2, "Sum": 3, "Minimum": 1, "Maximum": 2}
    data = [{"MetricName": "Both", "Values": [1, 2], "StatisticValues": set_of_two}]
    cloudwatch.put_metric_data(Namespace="Shop", MetricData=data)
    assert put()[0] == "MissingParameter"
    assert put(Value=float("nan"))[0] == "InvalidParameterValue"
    assert put(Value=1, Unit="Parsec")[0] == "InvalidParameterValue"
    assert put(Value=1, Timestamp=clock.time(15 * 86400))[0] == "InvalidParameterValue"
    assert put(Value=1, Timestamp=clock.time(-3 * 3600))[0] == "InvalidParameterValue"
    reserved = {"Namespace": "AWS/SQS", "MetricData": [{"MetricName": "M", "Value": 1}]}
    assert refused(cloudwatch.put_metric_data, **reserved)[0] == "InvalidParameterValue"

    def statistics(start, end, period):
        asked = {"StartTime": start, "EndTime": end, "Period": period, "Statistics": ["Sum"]}
        return refused(cloudwatch.get_metric_statistics, Namespace="Shop", MetricName="M", **asked)

    now = clock.time()
    assert statistics(now, now, 60) == (
        "InvalidParameterValue",
        "The parameter StartTime must be less than the parameter EndTime.",
    )
    start = now.replace(hour=0, minute=0, second=0, microsecond=0) - datetime.timedelta(days=3)
    end = start + datetime.timedelta(days=2)
    assert statistics(start, end, 60) == (
        "InvalidParameterCombination",
        "You have requested up to 2880 datapoints, which exceeds the limit of 1440. You may reduce the "
        "datapoints requested by increasing Period, or decreasing the time range.",
    )
    day = {"StartTime": clock.time(86400 + 17), "EndTime": clock.time(17), "Period": 60, "Statistics": ["Sum"]}
    assert cloudwatch.get_metric_statistics(Namespace="Shop", MetricName="M", **day)["Datapoints"] == []
    assert statistics(start, end, 61)[0] == "InvalidParameterValue"
    many = {"Namespace": "Shop", "MetricName": "M", "StartTime": start, "EndTime": end, "Period": 3600}
    assert refused(cloudwatch.get_metric_statistics, Statistics=["Sum"] * 6, **many)[0] == "ValidationError"
    assert refused(cloudwatch.get_metric_statistics, **many) == (
        "InvalidParameterCombination",
        "Must specify either Statistics or ExtendedStatistics",
    )
    empty = {"MetricDataQueries": [{"Id": "m", "Label": "l"}], "StartTime": start, "EndTime": end}
    assert refused(cloudwatch.get_metric_data, **empty) == (
        "ValidationError",
        "The parameter MetricDataQueries.member.1.MetricStat is required.\n",
    )
    stat = {"Metric": {"Namespace": "Shop", "MetricName": "M"}, "Period": 60, "Stat": "Sum"}
    for change, message in [
        ({"Metric": {"MetricName": "M"}}, "The parameter MetricDataQueries.member.1.MetricStat.Metric.Namespace is required."),
        ({"Stat": "None"}, "The value None for parameter MetricDataQueries.member.1.MetricStat.Stat is not a valid statistic."),
        ({"Period": 61}, "The parameter MetricDataQueries.member.1.MetricStat.Period must be 1, 5, 10, 20, 30 or a multiple of 60."),
    ]:
        wrong = empty | {"MetricDataQueries": [{"Id": "m", "MetricStat": stat | change}]}
        assert refused(cloudwatch.get_metric_data, **wrong) == ("ValidationError", message)
    twice = {"MetricDataQueries": [{"Id": "m", "MetricStat": stat}] * 2}
    for at, message in [
        ({"StartTime": now, "EndTime": now}, "The parameter StartTime must not equal parameter EndTime."),
        ({"StartTime": end, "EndTime": start}, "The parameter EndTime must be greater than StartTime."),
        (
            {"StartTime": start, "EndTime": end},
            "The values for parameter id in MetricDataQueries are not unique.",
        ),
    ]:
        assert refused(cloudwatch.get_metric_data, **twice, **at) == ("ValidationError", message)
    assert refused(cloudwatch.list_metrics, NextToken="?")[0] == "InvalidNextToken"
    query = {"Id": "e", "Expression": "1 +"}
    asked = {"MetricDataQueries": [query], "StartTime": start, "EndTime": end}
    assert refused(cloudwatch.get_metric_data, **asked)[0] == "ValidationError"
