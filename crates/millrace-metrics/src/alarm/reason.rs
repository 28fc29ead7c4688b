//! Why an alarm is in its state, for people and for programs.

use std::cmp::Reverse;

use millrace_core::{Date, Timestamp};
use serde_json::{Value, json};

use super::{Alarm, State, Verdict, WatchedPoint};

/// Data points from which on a reason names only the latest, that many of them.
const REASON_POINTS: usize = 5;

/// Data points that StateReasonData holds at most, the latest, and those of them that it tells more
/// about: CloudWatch's limit is 4,000 characters.
const DATA_POINTS: usize = 100;
const EVALUATED_POINTS: usize = 10;

/// StateReason: why an alarm enters the state that an evaluation found, in CloudWatch's words. The
/// data points that it names are those that speak for that state:
///
/// ```text
/// 3 datapoints [… (…), … (…), … (…)] were greater than the threshold (1.0).
/// 2 out of the last 3 datapoints [… (…), … (…)] were not less than the threshold (1.0) and 1 missing
/// datapoint was treated as [NonBreaching] (minimum 2 datapoints for ALARM -> OK transition).
/// ```
///
/// "out of" and "minimum" stand there if DatapointsToAlarm was said.
pub(super) fn text(alarm: &Alarm, verdict: &Verdict) -> String {
    let rule = &alarm.rule;
    let missing = (rule.periods as usize).saturating_sub(verdict.points.len());
    if verdict.state == State::InsufficientData {
        return format!("Insufficient Data: {} unknown.", were(missing, "datapoint"));
    }
    let is_alarm = verdict.state == State::Alarm;
    let speaks =
        |point: &&WatchedPoint| rule.comparison.crosses(point.value, rule.threshold) == is_alarm;
    let told: Vec<&WatchedPoint> = verdict.points.iter().filter(speaks).collect();
    let mut text = match told.is_empty() {
        // What is there does not say why.
        true => {
            let received = match verdict.points.len() {
                0 => "no datapoints were".to_owned(),
                count => were(count, "datapoint"),
            };
            let periods = counted(rule.periods as usize, "period");
            format!("Threshold Crossed: {received} received for {periods}")
        }
        false => format!("Threshold Crossed: {}", named(alarm, verdict.state, &told)),
    };
    if let Some(treatment) = rule.missing.treatment().filter(|_| missing > 0) {
        let missing = were(missing, "missing datapoint");
        text.push_str(&format!(" and {missing} treated as [{treatment}]"));
    }
    if alarm.says_to_alarm && !told.is_empty() {
        let (minimum, transition) = match is_alarm {
            true => (rule.to_alarm, "OK -> ALARM"),
            false => (rule.periods.saturating_sub(rule.to_alarm) + 1, "ALARM -> OK"),
        };
        let minimum = counted(minimum as usize, "datapoint");
        text.push_str(&format!(" (minimum {minimum} for {transition} transition)"));
    }
    text.push('.');
    text
}

/// How many data points speak for a state, which, and how they compare.
fn named(alarm: &Alarm, state: State, told: &[&WatchedPoint]) -> String {
    let rule = &alarm.rule;
    let count = match alarm.says_to_alarm {
        true => format!("{} out of the last {} datapoints", told.len(), rule.periods),
        false => counted(told.len(), "datapoint"),
    };
    let verb = if told.len() == 1 { "was" } else { "were" };
    let not = if state == State::Alarm { "" } else { " not" };
    let (words, threshold) = (rule.comparison.words(), rule.threshold);
    let compared = format!("{verb}{not} {words} the threshold ({})", number(threshold));
    let shown = told.iter().take(REASON_POINTS);
    let shown =
        shown.map(|point| format!("{} ({})", number(point.value), shown_time(point.time_s)));
    let values = shown.collect::<Vec<_>>().join(", ");
    if told.len() < REASON_POINTS {
        return format!("{count} [{values}] {compared}");
    }
    let which = if state == State::Alarm { " which crossed the threshold" } else { "" };
    format!("{count} {compared}. The most recent datapoints{which}: [{values}]")
}

/// As CloudWatch writes it: `0.002`, `80.0`, `2.147483648E10`.
fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// `1 datapoint`, `2 datapoints`.
fn counted(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

fn were(count: usize, what: &str) -> String {
    let verb = if count == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(count, what))
}

/// StateReasonData: what was looked at, as JSON for programs. Only one metric has a `statistic` and
/// a `unit`.
pub(super) fn data(alarm: &Alarm, verdict: &Verdict, now: Timestamp) -> String {
    let recent: Vec<&WatchedPoint> = verdict.points.iter().take(DATA_POINTS).rev().collect();
    let shown_s = |time_s: u64| time_text(time_s.saturating_mul(1000));
    let mut evaluated: Vec<(u64, Value)> =
        verdict.points.iter().take(EVALUATED_POINTS).map(evaluated).collect();
    let missing = verdict.missing.iter().take(EVALUATED_POINTS);
    evaluated.extend(missing.map(|time_s| (*time_s, json!({"timestamp": shown_s(*time_s)}))));
    evaluated.sort_by_key(|(time_s, _)| Reverse(*time_s));
    evaluated.truncate(EVALUATED_POINTS);
    let mut data = json!({
        "version": "1.0",
        "queryDate": time_text(now.0),
        "period": alarm.period_s,
        "recentDatapoints": recent.iter().map(|point| point.value).collect::<Vec<_>>(),
        "threshold": alarm.rule.threshold,
        "evaluatedDatapoints": evaluated.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
    });
    if let Some(first) = recent.first() {
        data["startDate"] = json!(shown_s(first.time_s));
    }
    if let Some((_, _, statistic, unit)) = alarm.metric() {
        data["statistic"] = json!(statistic);
        if let Some(unit) = unit {
            data["unit"] = json!(unit);
        }
    }
    data.to_string()
}

fn evaluated(point: &WatchedPoint) -> (u64, Value) {
    let mut value = json!({
        "timestamp": time_text(point.time_s.saturating_mul(1000)),
        "value": point.value,
    });
    if let Some(samples) = point.samples {
        value["sampleCount"] = json!(samples);
    }
    (point.time_s, value)
}

/// `2026-01-02T03:04:05.678+0000`, from milliseconds since 1970: as alarms tell times to programs.
pub fn time_text(time_ms: u64) -> String {
    let time_s = time_ms / 1000;
    let Date { year, month, day } = Date::of_seconds(time_s);
    let (hour, minute, second) = (time_s / 3_600 % 24, time_s / 60 % 60, time_s % 60);
    let ms = time_ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+0000")
}

/// `02/01/26 03:04:00`: day, month and year.
fn shown_time(time_s: u64) -> String {
    let seconds = time_s % 86_400;
    let Date { year, month, day } = Date::of_seconds(time_s);
    let (hour, minute) = (seconds / 3_600, seconds / 60 % 60);
    format!("{day:02}/{month:02}/{:02} {hour:02}:{minute:02}:{:02}", year % 100, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::definition::tests::alarm;
    use crate::alarm::rule::tests::{judged, point, rule, watched};
    use crate::alarm::{MissingData, Rule};

    #[test]
    fn times_are_told_as_cloudwatch_tells_them() {
        assert_eq!(time_text(1_767_323_045_678), "2026-01-02T03:04:05.678+0000");
    }

    #[test]
    fn numbers_are_told_as_cloudwatch_tells_them() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-3.0, "-3.0"),
            (0.002, "0.002"),
            (84.93923823723915, "84.93923823723915"),
            (9_999_999.5, "9999999.5"),
            (10_000_000.0, "1.0E7"),
            (83_714_617_344.0, "8.3714617344E10"),
            (-0.0005, "-5.0E-4"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    fn of_rule(rule: Rule) -> Alarm {
        Alarm { rule, ..alarm("a") }
    }

    /// With DatapointsToAlarm.
    fn of_some(rule: Rule) -> Alarm {
        Alarm { says_to_alarm: true, ..of_rule(rule) }
    }

    fn reason(alarm: &Alarm, pattern: &str, before: State) -> String {
        let verdict = judged(&alarm.rule, pattern, before);
        assert_ne!(verdict.state, before, "{pattern}");
        text(alarm, &verdict).replace("Threshold Crossed: ", "")
    }

    #[test]
    fn reasons_name_the_data_points() {
        let one = of_rule(Rule { threshold: 21.0, ..rule(1, 1, MissingData::Missing) });
        // 2026-01-02T03:04:00Z.
        let at = |value: f64| {
            let points = [point(1_767_323_040, value)];
            let verdict = one.rule.judge(&watched(&points, 1_767_323_100), State::InsufficientData);
            text(&one, &verdict)
        };

        assert_eq!(
            at(21.5),
            "Threshold Crossed: 1 datapoint [21.5 (02/01/26 03:04:00)] was greater than the \
             threshold (21.0)."
        );
        assert_eq!(
            at(3.0),
            "Threshold Crossed: 1 datapoint [3.0 (02/01/26 03:04:00)] was not greater than the \
             threshold (21.0)."
        );
        assert_eq!(reason(&one, "-", State::Ok), "Insufficient Data: 1 datapoint was unknown.");
        let three = of_rule(rule(3, 3, MissingData::Missing));
        assert_eq!(
            reason(&three, "XXX", State::Ok),
            "3 datapoints [2.0 (01/01/70 00:02:00), 2.0 (01/01/70 00:01:00), 2.0 (01/01/70 \
             00:00:00)] were greater than the threshold (1.0)."
        );
    }

    #[test]
    fn data_points_that_cross_say_nothing_about_why_it_is_ok() {
        let three = of_rule(rule(3, 3, MissingData::Missing));
        let two_of_three = of_some(rule(3, 2, MissingData::Missing));

        assert_eq!(
            reason(&three, "XX0", State::Alarm),
            "1 datapoint [0.0 (01/01/70 00:02:00)] was not greater than the threshold (1.0)."
        );
        assert_eq!(
            reason(&two_of_three, "0X0", State::Alarm),
            "2 out of the last 3 datapoints [0.0 (01/01/70 00:02:00), 0.0 (01/01/70 00:00:00)] were \
             not greater than the threshold (1.0) (minimum 2 datapoints for ALARM -> OK transition)."
        );
    }

    #[test]
    fn who_says_how_many_must_cross_is_told_so() {
        let two_of_three = of_some(rule(3, 2, MissingData::Missing));
        let one = of_some(rule(1, 1, MissingData::Missing));

        assert_eq!(
            reason(&two_of_three, "X0X", State::Ok),
            "2 out of the last 3 datapoints [2.0 (01/01/70 00:02:00), 2.0 (01/01/70 00:00:00)] were \
             greater than the threshold (1.0) (minimum 2 datapoints for OK -> ALARM transition)."
        );
        assert_eq!(
            reason(&one, "X", State::InsufficientData),
            "1 out of the last 1 datapoints [2.0 (01/01/70 00:00:00)] was greater than the threshold \
             (1.0) (minimum 1 datapoint for OK -> ALARM transition)."
        );
    }

    #[test]
    fn of_many_data_points_the_latest_are_named() {
        let most = "2.0 (01/01/70 00:04:00), 2.0 (01/01/70 00:03:00), 2.0 (01/01/70 00:02:00), 2.0 \
                    (01/01/70 00:01:00), 2.0 (01/01/70 00:00:00)";
        let five = rule(5, 5, MissingData::Missing);

        let four = of_rule(rule(4, 4, MissingData::Missing));
        let named = reason(&four, "XXXX", State::Ok);
        assert!(named.starts_with("4 datapoints [2.0") && named.ends_with("threshold (1.0)."));
        assert_eq!(
            reason(&of_rule(five), "XXXXX", State::Ok),
            format!(
                "5 datapoints were greater than the threshold (1.0). The most recent datapoints \
                 which crossed the threshold: [{most}]."
            )
        );
        assert_eq!(
            reason(&of_some(five), "XXXXX", State::Ok),
            format!(
                "5 out of the last 5 datapoints were greater than the threshold (1.0). The most \
                 recent datapoints which crossed the threshold: [{most}] (minimum 5 datapoints for \
                 OK -> ALARM transition)."
            )
        );
        assert_eq!(
            reason(&of_rule(five), "00000", State::Alarm),
            format!(
                "5 datapoints were not greater than the threshold (1.0). The most recent \
                 datapoints: [{}].",
                most.replace("2.0", "0.0")
            )
        );
        let all = of_rule(rule(1_440, 1_440, MissingData::Missing));
        let many = reason(&all, &"X".repeat(1_440), State::Ok);
        assert!(many.starts_with("1440 datapoints were") && many.len() < 300, "{many}");
    }

    #[test]
    fn reasons_say_what_missing_data_were_taken_for() {
        let of = |periods, to_alarm, missing| of_rule(rule(periods, to_alarm, missing));
        let retained = State::InsufficientData;

        assert_eq!(
            reason(&of(1, 1, MissingData::NotBreaching), "-", retained),
            "no datapoints were received for 1 period and 1 missing datapoint was treated as \
             [NonBreaching]."
        );
        assert_eq!(
            reason(&of(2, 2, MissingData::Breaching), "----", retained),
            "no datapoints were received for 2 periods and 2 missing datapoints were treated as \
             [Breaching]."
        );
        assert_eq!(
            reason(&of(3, 2, MissingData::Breaching), "----0", retained),
            "1 datapoint was received for 3 periods and 2 missing datapoints were treated as \
             [Breaching].",
            "it does not say why"
        );
        assert_eq!(
            reason(&of(3, 3, MissingData::Breaching), "----X", retained),
            "1 datapoint [2.0 (01/01/70 00:04:00)] was greater than the threshold (1.0) and 2 missing \
             datapoints were treated as [Breaching]."
        );
        assert_eq!(
            reason(&of(3, 3, MissingData::Breaching), "----0", State::Alarm),
            "1 datapoint [0.0 (01/01/70 00:04:00)] was not greater than the threshold (1.0) and 2 \
             missing datapoints were treated as [Breaching]."
        );
        assert_eq!(
            reason(&of_some(rule(20, 1, MissingData::NotBreaching)), "----X", State::Ok),
            "1 out of the last 20 datapoints [2.0 (01/01/70 00:04:00)] was greater than the \
             threshold (1.0) and 19 missing datapoints were treated as [NonBreaching] (minimum 1 \
             datapoint for OK -> ALARM transition)."
        );
        assert_eq!(
            reason(&of_some(rule(3, 2, MissingData::Breaching)), "----0", retained),
            "1 datapoint was received for 3 periods and 2 missing datapoints were treated as \
             [Breaching].",
            "no minimum of what does not say why"
        );
        assert_eq!(
            reason(&of(1, 1, MissingData::Breaching), "X", State::Ok),
            "1 datapoint [2.0 (01/01/70 00:00:00)] was greater than the threshold (1.0).",
            "nothing is missing"
        );
        assert_eq!(
            reason(&of(3, 1, MissingData::Missing), "----X", State::Ok),
            "1 datapoint [2.0 (01/01/70 00:04:00)] was greater than the threshold (1.0)."
        );
    }
}
