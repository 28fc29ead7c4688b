//! Pages of GetMetricData.
//!
//! A token names the last data point that was shown, not how many there were: data may arrive
//! between two pages.

use millrace_wire::cloudwatch::{Answer, Message, MetricDataResult};
use millrace_wire::codec::Time;
use serde::{Deserialize, Serialize};

use super::check;

/// A series to be answered, in the order asked for.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Which of the queries it answers, and which of that query's series it is.
    pub query: usize,
    pub number: usize,
    pub id: String,
    /// Digest of the series' identity; others of the query may have the same.
    pub identity: [u8; 16],
    pub label: String,
    /// Start in seconds, and value.
    pub points: Vec<(u64, f64)>,
    pub messages: Vec<Message>,
}

/// Where a page begins.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Place {
    query: usize,
    number: usize,
    /// Digest of the series' identity, which finds it if a search finds others before it meanwhile.
    identity: [u8; 16],
    /// The last data point of the series that was shown, seconds; none: none of it was.
    after_s: Option<u64>,
}

impl Curve {
    fn name_bytes(&self) -> usize {
        let messages = self.messages.iter().map(|message| message.code.len() + message.value.len());
        self.id.len() + self.label.len() + messages.sum::<usize>()
    }
}

impl Place {
    fn of(curve: &Curve, after_s: Option<u64>) -> Place {
        let Curve { query, number, .. } = *curve;
        Place { query, number, identity: curve.identity, after_s }
    }

    fn is_of(&self, curve: &Curve) -> bool {
        self.query == curve.query && self.identity == curve.identity
    }

    /// The first curve of the page: the series if it is the only one of that identity, else what
    /// stands where it stood.
    fn first(&self, curves: &[Curve]) -> usize {
        let is_before = |curve: &Curve| (curve.query, curve.number) < (self.query, self.number);
        let mut found = (0..).zip(curves).filter(|(_, curve)| self.is_of(curve));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => at,
            _ => curves.partition_point(is_before),
        }
    }

    /// What of its first curve was not shown yet.
    fn rest(&self, points: &[(u64, f64)], is_ascending: bool) -> usize {
        let Some(after_s) = self.after_s else { return 0 };
        points.partition_point(|(time_s, _)| match is_ascending {
            true => *time_s <= after_s,
            false => *time_s >= after_s,
        })
    }
}

/// Bytes of ids, labels and messages of a page, beyond which it takes no further series.
const PAGE_BYTES: usize = 4 << 20;

/// Up to `room` data points from a place on; a series is cut where the page ends.
pub(super) fn one_page(
    curves: Vec<Curve>,
    place: Option<&Place>,
    is_ascending: bool,
    mut room: usize,
) -> Answer {
    let first = place.map_or(0, |place| place.first(&curves));
    let mut results = Vec::new();
    let mut next = None;
    let mut bytes = 0;
    for (at, curve) in curves.into_iter().enumerate().skip(first) {
        // If the series is gone, another one stands at its place, of which nothing was shown.
        let place = place.filter(|place| at == first && place.is_of(&curve));
        let skipped = place.map_or(0, |place| place.rest(&curve.points, is_ascending));
        let left = curve.points.get(skipped..).unwrap_or_default();
        bytes += curve.name_bytes();
        if (room == 0 && !left.is_empty()) || (bytes > PAGE_BYTES && at > first) {
            next = Some(Place::of(&curve, None));
            break;
        }
        let shown = left.get(..room).unwrap_or(left);
        room -= shown.len();
        let is_cut = shown.len() < left.len();
        if is_cut {
            next = Some(Place::of(&curve, shown.last().map(|(time_s, _)| *time_s)));
        }
        results.push(MetricDataResult {
            timestamps: shown.iter().map(|(time_s, _)| Time::of_ms(time_s * 1000)).collect(),
            values: shown.iter().map(|(_, value)| *value).collect(),
            id: curve.id,
            label: curve.label,
            status_code: if is_cut { "PartialData" } else { "Complete" }.to_owned(),
            messages: (!curve.messages.is_empty()).then_some(curve.messages),
        });
        if is_cut {
            break;
        }
    }
    let next_token = next.as_ref().and_then(check::token);
    Answer::GetMetricData { results, messages: Vec::new(), next_token }
}

#[cfg(test)]
mod tests {
    use millrace_core::md5;

    use super::*;

    fn curve(query: usize, number: usize, label: &str, times: &[u64]) -> Curve {
        let points = times.iter().map(|time_s| (*time_s, *time_s as f64)).collect();
        let (id, label) = (format!("m{query}"), label.to_owned());
        let identity = md5(label.as_bytes());
        Curve { query, number, id, identity, label, points, messages: Vec::new() }
    }

    /// What a page shows, as label and times, and the token of the next.
    fn page(
        curves: &[Curve],
        token: Option<&String>,
        room: usize,
    ) -> (Vec<String>, Option<String>) {
        let place = check::place(token).unwrap();
        let Answer::GetMetricData { results, next_token, .. } =
            one_page(curves.to_vec(), place.as_ref(), false, room)
        else {
            panic!("another answer");
        };
        let shown = |result: &MetricDataResult| format!("{}{:?}", result.label, result.values);
        (results.iter().map(shown).collect(), next_token)
    }

    #[test]
    fn pages_hold_each_data_point_once() {
        let curves =
            [curve(0, 0, "a", &[3, 2, 1]), curve(1, 0, "b", &[]), curve(2, 0, "c", &[9, 8])];

        let (first, token) = page(&curves, None, 2);
        assert_eq!(first, ["a[3.0, 2.0]"]);
        let (second, token) = page(&curves, token.as_ref(), 2);
        assert_eq!(second, ["a[1.0]", "b[]", "c[9.0]"]);
        let (third, token) = page(&curves, token.as_ref(), 2);
        assert_eq!((third, token), (vec!["c[8.0]".to_owned()], None));
        let (all, token) = page(&curves, None, 5);
        assert_eq!((all.len(), token), (3, None));
        let (first, token) = page(&curves, None, 3);
        assert_eq!(first, ["a[3.0, 2.0, 1.0]", "b[]"]);
        assert_eq!(page(&curves, token.as_ref(), 3).0, ["c[9.0, 8.0]"]);
    }

    #[test]
    fn pages_go_on_in_either_direction_and_say_what_is_left() {
        let page = |times: &[u64], is_ascending: bool, token: Option<&String>| {
            let place = check::place(token).unwrap();
            let curves = vec![curve(0, 0, "a", times), curve(1, 0, "a", &[])];
            let Answer::GetMetricData { results, next_token, .. } =
                one_page(curves, place.as_ref(), is_ascending, 2)
            else {
                panic!("another answer");
            };
            let first = results.into_iter().next().unwrap();
            (
                first.timestamps.iter().map(|time| time.0 as u64).collect::<Vec<_>>(),
                first.status_code,
                next_token,
            )
        };

        for (times, is_ascending) in [([1, 2, 3, 4], true), ([4, 3, 2, 1], false)] {
            let (first, status, token) = page(&times, is_ascending, None);
            assert_eq!(
                (first, status),
                (vec![times[0] * 1000, times[1] * 1000], "PartialData".to_owned())
            );
            let (second, status, token) = page(&times, is_ascending, token.as_ref());
            assert_eq!(
                (second, status),
                (vec![times[2] * 1000, times[3] * 1000], "Complete".to_owned())
            );
            assert_eq!(token, None, "of the other there is nothing to show");
        }
    }

    #[test]
    fn a_page_of_long_labels_ends_before_it_is_large() {
        let long = "x".repeat(PAGE_BYTES / 4);
        let curves: Vec<_> = (0..6).map(|number| curve(0, number, &long, &[1])).collect();

        let (first, token) = page(&curves, None, 100);
        assert_eq!(first.len(), 3);
        let (second, token) = page(&curves, token.as_ref(), 100);
        assert_eq!((second.len(), token), (3, None));
    }

    #[test]
    fn data_that_arrive_between_pages_repeat_nothing() {
        let before = [curve(0, 0, "a", &[3, 2, 1])];
        let (_, token) = page(&before, None, 2);
        let mut since = curve(0, 0, "a", &[5, 4, 3, 2, 1]);
        since.label = "highest: 5".into();
        assert_eq!(page(&[since], token.as_ref(), 2).0, ["highest: 5[1.0]"]);

        let found_since = [curve(0, 0, "Z", &[7]), curve(0, 1, "a", &[3, 2, 1])];
        assert_eq!(page(&found_since, token.as_ref(), 2).0, ["a[1.0]"]);
        for at in [0, 1] {
            let gone = [curve(at, 0, "b", &[7])];
            assert_eq!(page(&gone, token.as_ref(), 2).0, ["b[7.0]"]);
        }
        assert!(page(&[], token.as_ref(), 2).0.is_empty());
    }
}
