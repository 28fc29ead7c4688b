"""Metric math: what operators, functions and SEARCH give."""

import datetime

import pytest


@pytest.fixture
def minutes(cloudwatch, clock):
    """Gives metrics of the name space Shop a value a minute, and evaluates expressions over them."""
    start = clock.time(1200).replace(second=0, microsecond=0)

    def put(name, *values, dimensions=()):
        cloudwatch.put_metric_data(
            Namespace="Shop",
            MetricData=[
                {
                    "MetricName": name,
                    "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions],
                    "Timestamp": start + datetime.timedelta(minutes=n),
                    "Value": value,
                }
                for n, value in enumerate(values)
                if value is not None
            ],
        )

    def evaluate(expression, *metrics, count=4, **query):
        stats = [
            {
                "Id": f"m{n}",
                "MetricStat": {"Metric": {"Namespace": "Shop", "MetricName": name}, "Period": 60, "Stat": "Sum"},
                "ReturnData": False,
            }
            for n, name in enumerate(metrics, 1)
        ]
        return cloudwatch.get_metric_data(
            MetricDataQueries=[*stats, {"Id": "e1", "Expression": expression} | query],
            StartTime=start,
            EndTime=start + datetime.timedelta(minutes=count),
            ScanBy="TimestampAscending",
        )["MetricDataResults"]

    evaluate.put = put
    return evaluate


def test_values_that_are_missing_count_as_zero(minutes):
    minutes.put("A", 30, 20, 0, 0)
    minutes.put("B", 20, None, 20, None)

    def values(expression):
        [result] = minutes(expression, "A", "B")
        return result["Values"]

    assert values("m1 < m2") == [0, 0, 1, 0]
    assert values("m1 > 15 AND m2 > 15") == [1, 0, 0, 0]
    assert values("m1 - m2") == [10, 20, -20, 0]
    assert values("IF(m1, m2, 5)") == [20, 0, 5, 5]


def test_a_result_says_that_values_which_are_no_numbers_were_left_out(minutes):
    minutes.put("A", 1, 2, 3, 4)
    minutes.put("B", 1, 0, 3, 0)
    dropped = {
        "Code": "ArithmeticError",
        "Value": "One or more data-points have been dropped due to non-numeric values (NaN, -Infinite, +Infinite)",
    }

    for expression, values in [("m1 / m2", [1, 1]), ("LOG10(m2) * 0", [0, 0]), ("FILL(m1 / m2, 9)", [1, 9, 1, 9])]:
        [result] = minutes(expression, "A", "B")
        assert (result["Values"], result["Messages"]) == (values, [dropped])
    [result] = minutes("m2 / m1", "A", "B")
    assert result["Values"] == [1, 0, 1, 0] and "Messages" not in result


def test_search_as_grafana_sends_it(minutes):
    for shop in ["north", "south", "east-2"]:
        minutes.put("Sales", 1, dimensions=[("ShopName", shop)])
        minutes.put("Visits", 1, dimensions=[("ShopName", shop)])

    def count(text):
        return sum(bool(result["Values"]) for result in minutes(f"REMOVE_EMPTY(SEARCH('{text}', 'Sum', 60))"))

    assert count('{"Shop","ShopName"} MetricName="Sales" "ShopName"=("north" OR "south")') == 2
    assert count('Namespace="Shop" MetricName="Sales" "ShopName"') == 3
    assert count('{Shop,ShopName}, MetricName="Sales"') == 3
    assert count("{Shop,ShopName} (north OR south) NOT Visits") == 2
    assert (count("{Shop,ShopName} east"), count("{Shop,ShopName} eas")) == (2, 0)


def test_lists_are_sorted_filled_and_sliced(minutes):
    minutes.put("A", 1, None, 3, 4)
    minutes.put("B", 9, 8, 7, 6)

    def values(expression):
        return [result["Values"] for result in minutes(expression, "A", "B")]

    assert values("SORT(METRICS(), AVG, DESC)") == [[9, 8, 7, 6], [1, 3, 4]]
    assert values("SLICE(SORT(METRICS(), AVG, DESC), 1)") == [[1, 3, 4]]
    assert values("FILL(m1, m2)") == [[1, 8, 3, 4]]
    assert values("DATAPOINT_COUNT(METRICS())") == [[2, 1, 2, 2]]
    assert len(values("YEAR(m1)")[0]) == 4


def test_labels_tell_the_series_of_an_expression_apart(minutes):
    for shop, sales in [("north", 1), ("south", 2)]:
        minutes.put("Sales", sales, dimensions=[("ShopName", shop)])

    def labels(text, **query):
        return [result["Label"] for result in minutes(f"SEARCH('{text}', 'Sum', 60)", **query)]

    both = '{Shop,ShopName} MetricName="Sales"'
    assert labels(both) == ["north Sales", "south Sales"]
    assert labels(both + " south") == ["south Sales"]
    assert labels(both, Label="today:") == ["today: north Sales", "today: south Sales"]
    assert labels(both, Label="${PROP('Dim.ShopName')} [max ${MAX}]") == ["north [max 1]", "south [max 2]"]
