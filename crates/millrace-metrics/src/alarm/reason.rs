//! Why an alarm is in its state, as people read it.

use super::{Rule, State, WatchedPoint};
use crate::calendar::Date;

/// Data points that a reason names, so that it stays below CloudWatch's 1,023 characters.
const REASON_POINTS: usize = 20;

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
        if recent.is_empty() {
            let (periods, name) = (self.periods, self.missing.name());
            return format!(
                "Threshold Crossed: no datapoints were received for {periods} period{} and \
                 {missing} missing datapoint{} were treated as [{name}].",
                plural(periods as usize),
                plural(missing)
            );
        }
        let is_alarm = state == State::Alarm;
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
}
