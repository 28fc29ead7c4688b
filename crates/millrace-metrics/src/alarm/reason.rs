//! Why an alarm is in its state, for people and for programs.

use std::cmp::Reverse;

use millrace_core::{Date, Timestamp};
use serde_json::{Value, json};

use super::{Alarm, Rule, State, Verdict, WatchedPoint};

/// Data points that a reason names, so that it stays below CloudWatch's 1,023 characters.
const REASON_POINTS: usize = 20;

/// Data points that StateReasonData holds at most, the latest, and those of them that it tells more
/// about: CloudWatch's limit is 4,000 characters.
const DATA_POINTS: usize = 100;
const EVALUATED_POINTS: usize = 10;

impl Rule {
    pub(super) fn reason(
        &self,
        state: State,
        recent: &[WatchedPoint],
        crossing: usize,
        missing: usize,
    ) -> String {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        if state == State::InsufficientData {
            let verb = if missing == 1 { "was" } else { "were" };
            return format!(
                "Insufficient Data: {missing} datapoint{} {verb} unknown.",
                plural(missing)
            );
        }
        let is_alarm = state == State::Alarm;
        // What is there does not say why.
        if recent.is_empty() || (is_alarm && crossing < self.to_alarm as usize && missing > 0) {
            return self.reason_of_missing(recent.len(), missing);
        }
        let told: Vec<&WatchedPoint> = recent
            .iter()
            .filter(|point| !is_alarm || self.comparison.crosses(point.value, self.threshold))
            .collect();
        let shown = told.iter().take(REASON_POINTS);
        let shown = shown.map(|point| format!("{:?} ({})", point.value, shown_time(point.time_s)));
        let more = (told.len() > REASON_POINTS).then(|| "...".to_owned());
        let values = shown.chain(more).collect::<Vec<_>>().join(", ");
        let (words, threshold) = (self.comparison.words(), self.threshold);
        let verb = match (is_alarm, told.len()) {
            (true, 1) => "was",
            (true, _) => "were",
            (false, 1) => "was not",
            (false, _) => "were not",
        };
        let count = match (is_alarm, self.periods) {
            (true, 2..) => format!("{crossing} out of the last {}", self.periods),
            _ => told.len().to_string(),
        };
        let s = if self.periods > 1 && is_alarm { "s" } else { plural(told.len()) };
        format!(
            "Threshold Crossed: {count} datapoint{s} [{values}] {verb} {words} the threshold \
             ({threshold:?})."
        )
    }

    fn reason_of_missing(&self, received: usize, missing: usize) -> String {
        let (periods, treatment) = (self.periods, self.missing.treatment());
        let received = match received {
            0 => "no datapoints were".to_owned(),
            1 => "1 datapoint was".to_owned(),
            _ => format!("{received} datapoints were"),
        };
        let s = if periods == 1 { "" } else { "s" };
        let missing = match missing {
            1 => "1 missing datapoint was".to_owned(),
            _ => format!("{missing} missing datapoints were"),
        };
        format!(
            "Threshold Crossed: {received} received for {periods} period{s} and {missing} treated \
             as [{treatment}]."
        )
    }
}

/// StateReasonData: what was looked at, as JSON for programs. Only one metric has a `statistic` and a
/// `unit`.
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
    use super::super::rule::tests::{judged, point, rule, watched};
    use super::*;
    use crate::alarm::MissingData;

    #[test]
    fn times_are_told_as_cloudwatch_tells_them() {
        assert_eq!(time_text(1_767_323_045_678), "2026-01-02T03:04:05.678+0000");
    }

    #[test]
    fn reasons_name_the_data_points() {
        let one = Rule { threshold: 21.0, ..rule(1, 1, MissingData::Missing) };
        // 2026-01-02T03:04:00Z.
        let at = |value: f64| {
            let points = [point(1_767_323_040, value)];
            one.judge(&watched(&points, 1_767_323_100), State::Ok)
        };
        let verdict = at(21.5);
        assert_eq!(
            verdict.reason,
            "Threshold Crossed: 1 datapoint [21.5 (02/01/26 03:04:00)] was greater than the \
             threshold (21.0)."
        );
        assert_eq!(
            at(3.0).reason,
            "Threshold Crossed: 1 datapoint [3.0 (02/01/26 03:04:00)] was not greater than the \
             threshold (21.0)."
        );
        assert_eq!(
            judged(&rule(3, 2, MissingData::Missing), "X0X", State::Ok).reason,
            "Threshold Crossed: 2 out of the last 3 datapoints [2.0 (01/01/70 00:02:00), 2.0 \
             (01/01/70 00:00:00)] were greater than the threshold (1.0)."
        );
        let many = judged(&rule(1_440, 1_440, MissingData::Missing), &"X".repeat(1_440), State::Ok);
        assert!(many.reason.starts_with("Threshold Crossed: 1440 out of the last 1440 datapoints"));
        assert!(many.reason.contains(", ...] were greater") && many.reason.len() < 1_023);
        assert_eq!(
            judged(&one, "-", State::Ok).reason,
            "Insufficient Data: 1 datapoint was unknown."
        );
    }

    #[test]
    fn reasons_say_what_missing_data_were_taken_for() {
        let reason = |periods, missing, pattern| {
            judged(&rule(periods, periods, missing), pattern, State::InsufficientData).reason
        };

        assert_eq!(
            reason(1, MissingData::NotBreaching, "-"),
            "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint \
             was treated as [NonBreaching]."
        );
        assert_eq!(
            reason(2, MissingData::Breaching, "----"),
            "Threshold Crossed: no datapoints were received for 2 periods and 2 missing datapoints \
             were treated as [Breaching]."
        );
        assert_eq!(
            reason(3, MissingData::Breaching, "----X"),
            "Threshold Crossed: 1 datapoint was received for 3 periods and 2 missing datapoints \
             were treated as [Breaching]."
        );
    }
}
