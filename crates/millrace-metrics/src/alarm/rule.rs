//! When an alarm is in alarm. Pure: data points and the present state go in, a state comes out.

use serde::{Deserialize, Serialize};

/// The state of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Ok,
    Alarm,
    InsufficientData,
}

impl State {
    pub const ALL: [State; 3] = [State::Ok, State::Alarm, State::InsufficientData];

    /// By the name that CloudWatch gives it.
    pub fn of_name(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            State::Ok => "OK",
            State::Alarm => "ALARM",
            State::InsufficientData => "INSUFFICIENT_DATA",
        }
    }
}

/// How a data point is compared with the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    GreaterThanOrEqualToThreshold,
    GreaterThanThreshold,
    LessThanThreshold,
    LessThanOrEqualToThreshold,
}

impl Comparison {
    pub fn of_name(name: &str) -> Option<Comparison> {
        let all = [
            Comparison::GreaterThanOrEqualToThreshold,
            Comparison::GreaterThanThreshold,
            Comparison::LessThanThreshold,
            Comparison::LessThanOrEqualToThreshold,
        ];
        all.into_iter().find(|comparison| comparison.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Comparison::GreaterThanOrEqualToThreshold => "GreaterThanOrEqualToThreshold",
            Comparison::GreaterThanThreshold => "GreaterThanThreshold",
            Comparison::LessThanThreshold => "LessThanThreshold",
            Comparison::LessThanOrEqualToThreshold => "LessThanOrEqualToThreshold",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Comparison::GreaterThanOrEqualToThreshold => "greater than or equal to",
            Comparison::GreaterThanThreshold => "greater than",
            Comparison::LessThanThreshold => "less than",
            Comparison::LessThanOrEqualToThreshold => "less than or equal to",
        }
    }

    pub(super) fn crosses(self, value: f64, threshold: f64) -> bool {
        match self {
            Comparison::GreaterThanOrEqualToThreshold => value >= threshold,
            Comparison::GreaterThanThreshold => value > threshold,
            Comparison::LessThanThreshold => value < threshold,
            Comparison::LessThanOrEqualToThreshold => value <= threshold,
        }
    }
}

/// What a period without a data point counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MissingData {
    #[default]
    Missing,
    Ignore,
    Breaching,
    NotBreaching,
}

impl MissingData {
    pub fn of_name(name: &str) -> Option<MissingData> {
        use MissingData::{Breaching, Ignore, Missing, NotBreaching};
        let all = [Missing, Ignore, Breaching, NotBreaching];
        all.into_iter().find(|kind| kind.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            MissingData::Missing => "missing",
            MissingData::Ignore => "ignore",
            MissingData::Breaching => "breaching",
            MissingData::NotBreaching => "notBreaching",
        }
    }

    /// As reasons call what counts as something.
    pub(super) fn treatment(self) -> Option<&'static str> {
        match self {
            MissingData::Missing | MissingData::Ignore => None,
            MissingData::Breaching => Some("Breaching"),
            MissingData::NotBreaching => Some("NonBreaching"),
        }
    }
}

/// `to_alarm` of `periods` data points must cross the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    pub comparison: Comparison,
    pub threshold: f64,
    pub periods: u32,
    /// At most `periods`.
    pub to_alarm: u32,
    pub missing: MissingData,
}

/// A data point that an alarm looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchedPoint {
    /// Start of its period, seconds.
    pub time_s: u64,
    pub value: f64,
    /// How many values it is made of; none: of an expression.
    pub samples: Option<f64>,
}

/// What an evaluation looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched<'a> {
    /// In order of time.
    pub points: &'a [WatchedPoint],
    pub period_s: u64,
    /// When the last period ended.
    pub end_s: u64,
    /// If the data points that count are made of fewer values, the state stays; zero: of any.
    pub samples_min: f64,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub state: State,
    /// The data points that decided, the latest first.
    pub points: Vec<WatchedPoint>,
    /// The periods without one that counted as the alarm says: their starts in seconds, the latest
    /// first. Empty if the state stays, for nobody asks then.
    pub missing: Vec<u64>,
}

impl Rule {
    /// Periods that are looked at, so that a few missing data points do not matter.
    pub fn range_periods(&self) -> u64 {
        // CloudWatch's example looks at five periods for an alarm over three.
        u64::from(self.periods) + 2
    }

    /// Judges the data points of the last [`Rule::range_periods`] periods, in order of time.
    ///
    /// The latest `periods` data points that are there count. If there are fewer, periods without
    /// one count as the alarm says; the cases are those of the CloudWatch user guide, "Configuring
    /// how CloudWatch alarms treat missing data".
    pub fn judge(&self, watched: &Watched<'_>, present: State) -> Verdict {
        let wanted = self.periods as usize;
        let recent: Vec<WatchedPoint> = watched.points.iter().rev().take(wanted).copied().collect();
        let crosses = |point: &WatchedPoint| self.comparison.crosses(point.value, self.threshold);
        let crossing = recent.iter().filter(|point| crosses(point)).count();
        let missing = wanted - recent.len();
        let to_alarm = self.to_alarm as usize;
        let state = if watched.is_low_on_samples(&recent) {
            present
        } else if crossing >= to_alarm {
            State::Alarm
        } else {
            match (self.missing, recent.len() - crossing) {
                (MissingData::Breaching, _) if crossing + missing >= to_alarm => State::Alarm,
                (MissingData::Breaching | MissingData::NotBreaching, _) | (_, 1..) => State::Ok,
                (MissingData::Ignore, 0) => present,
                (MissingData::Missing, 0) if recent.is_empty() => State::InsufficientData,
                // "Avoiding premature transitions to alarm state": data may yet come that does not
                // cross, until the oldest that does is as old as would suffice.
                (MissingData::Missing, 0) if watched.age_of(recent.last()) < self.to_alarm => {
                    present
                }
                (MissingData::Missing, 0) => State::Alarm,
            }
        };
        let told = if state == present { 0 } else { missing };
        let missing = watched.periods_without(&recent).take(told).collect();
        Verdict { state, points: recent, missing }
    }
}

impl Watched<'_> {
    /// Without any data point it is data that are missing, not samples.
    fn is_low_on_samples(&self, recent: &[WatchedPoint]) -> bool {
        let samples: f64 = recent.iter().filter_map(|point| point.samples).sum();
        !recent.is_empty() && samples < self.samples_min
    }

    /// Starts of periods, the latest first.
    fn periods_without(&self, recent: &[WatchedPoint]) -> impl Iterator<Item = u64> {
        let period_s = self.period_s.max(1);
        let starts =
            (1..).map_while(move |back: u64| self.end_s.checked_sub(back.checked_mul(period_s)?));
        starts.filter(|start_s| !recent.iter().any(|point| point.time_s == *start_s))
    }

    /// Periods from the start of a data point to the end; the latest has the age of one.
    fn age_of(&self, point: Option<&WatchedPoint>) -> u32 {
        let age_s = point.map_or(0, |point| self.end_s.saturating_sub(point.time_s));
        u32::try_from(age_s.div_ceil(self.period_s.max(1))).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::alarm) fn rule(periods: u32, to_alarm: u32, missing: MissingData) -> Rule {
        let comparison = Comparison::GreaterThanThreshold;
        Rule { comparison, threshold: 1.0, periods, to_alarm, missing }
    }

    pub(in crate::alarm) fn point(time_s: u64, value: f64) -> WatchedPoint {
        WatchedPoint { time_s, value, samples: None }
    }

    pub(in crate::alarm) fn watched(points: &[WatchedPoint], end_s: u64) -> Watched<'_> {
        Watched { points, period_s: 60, end_s, samples_min: 0.0 }
    }

    /// `0` does not cross, `X` does, `-` is missing; the latest stands last.
    fn points(pattern: &str) -> Vec<WatchedPoint> {
        let value = |symbol: char| match symbol {
            '0' => Some(0.0),
            'X' => Some(2.0),
            _ => None,
        };
        let point = |at: u64, c| Some(point(at * 60, value(c)?));
        (0..).zip(pattern.chars()).filter_map(|(at, c)| point(at, c)).collect()
    }

    pub(in crate::alarm) fn judged(rule: &Rule, pattern: &str, present: State) -> Verdict {
        let end_s = pattern.len() as u64 * 60;
        rule.judge(&watched(&points(pattern), end_s), present)
    }

    /// The tables of the CloudWatch user guide, and below them what it says under "Avoiding
    /// premature transitions to alarm state". The retained state stands as INSUFFICIENT_DATA.
    #[test]
    fn missing_data_is_treated_as_the_user_guide_says() {
        use State::{Alarm, InsufficientData as Retained, Ok};
        let kinds = [
            MissingData::Missing,
            MissingData::Ignore,
            MissingData::Breaching,
            MissingData::NotBreaching,
        ];
        for (pattern, to_alarm, expected) in [
            ("0-X-X", 3, [Ok, Ok, Ok, Ok]),
            ("0----", 3, [Ok, Ok, Ok, Ok]),
            ("-----", 3, [Retained, Retained, Alarm, Ok]),
            ("0XX-X", 3, [Alarm, Alarm, Alarm, Alarm]),
            ("--X--", 3, [Alarm, Retained, Alarm, Ok]),
            ("0-X-X", 2, [Alarm, Alarm, Alarm, Alarm]),
            ("00X0X", 2, [Alarm, Alarm, Alarm, Alarm]),
            ("0-X--", 2, [Ok, Ok, Alarm, Ok]),
            ("----0", 2, [Ok, Ok, Alarm, Ok]),
            ("---X-", 2, [Alarm, Retained, Alarm, Ok]),
            ("----X", 3, [Retained, Retained, Alarm, Ok]),
            ("---X-", 3, [Retained, Retained, Alarm, Ok]),
            ("---XX", 3, [Retained, Retained, Alarm, Ok]),
            ("--X-X", 3, [Alarm, Retained, Alarm, Ok]),
            ("----X", 2, [Retained, Retained, Alarm, Ok]),
            ("----X", 1, [Alarm, Alarm, Alarm, Alarm]),
        ] {
            for (kind, expected) in kinds.into_iter().zip(expected) {
                let verdict = judged(&rule(3, to_alarm, kind), pattern, Retained);
                assert_eq!(verdict.state, expected, "{pattern}, {to_alarm} of 3, {}", kind.name());
            }
        }
    }

    #[test]
    fn what_crosses_is_said_by_the_comparison() {
        // Below the threshold, at it, above it.
        for (name, expected) in [
            ("GreaterThanOrEqualToThreshold", [false, true, true]),
            ("GreaterThanThreshold", [false, false, true]),
            ("LessThanThreshold", [true, false, false]),
            ("LessThanOrEqualToThreshold", [true, true, false]),
        ] {
            let comparison = Comparison::of_name(name).unwrap();
            assert_eq!([0.5, 1.0, 1.5].map(|value| comparison.crosses(value, 1.0)), expected);
            assert_eq!(comparison.name(), name);
        }
    }

    #[test]
    fn names_read_back() {
        let states = ["OK", "ALARM", "INSUFFICIENT_DATA"];
        assert_eq!(states.map(|name| State::of_name(name).unwrap().name()), states);
        let kinds = ["missing", "ignore", "breaching", "notBreaching"];
        assert_eq!(kinds.map(|name| MissingData::of_name(name).unwrap().name()), kinds);
        assert!(State::of_name("ok").is_none() && MissingData::of_name("Missing").is_none());
    }

    /// The user guide's example: an alarm over three periods looks at five.
    #[test]
    fn two_periods_more_are_looked_at_than_count() {
        assert_eq!(rule(3, 2, MissingData::Missing).range_periods(), 5);
    }

    #[test]
    fn a_verdict_names_the_periods_that_counted_without_a_data_point() {
        let rule = rule(4, 2, MissingData::Breaching);
        let changed = judged(&rule, "XX-0--", State::Ok);
        assert_eq!(changed.state, State::Alarm);
        // Three data points are there, so that one period is missing: the latest without any.
        assert_eq!(changed.missing, [5 * 60]);
        let changed = judged(&rule, "---0--", State::Ok);
        assert_eq!((changed.state, changed.missing), (State::Alarm, vec![300, 240, 120]));
        let stays = judged(&rule, "---0--", State::Alarm);
        assert_eq!((stays.state, stays.missing), (State::Alarm, Vec::new()));
    }

    #[test]
    fn few_samples_change_nothing_if_they_are_to_be_ignored() {
        let two = rule(2, 2, MissingData::Missing);
        let judged = |samples: [f64; 2], samples_min| {
            let mut points = points("XX");
            for (point, samples) in points.iter_mut().zip(samples) {
                point.samples = Some(samples);
            }
            two.judge(&Watched { samples_min, ..watched(&points, 120) }, State::Ok).state
        };

        assert_eq!(judged([500.0, 499.0], 1_000.0), State::Ok);
        assert_eq!(judged([500.0, 500.0], 1_000.0), State::Alarm);
        assert_eq!(judged([1.0, 1.0], 0.0), State::Alarm);
        let none = Watched { samples_min: 1_000.0, ..watched(&[], 120) };
        assert_eq!(two.judge(&none, State::Ok).state, State::InsufficientData);
    }
}
