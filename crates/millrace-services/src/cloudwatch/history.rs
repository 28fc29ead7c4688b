//! DescribeAlarmHistory.

use millrace_metrics::Scope;
use millrace_metrics::alarm::{HistoryItem, HistoryKind};
use millrace_wire::ApiError;
use millrace_wire::cloudwatch::{AlarmHistoryItem, Answer, DescribeAlarmHistory};
use millrace_wire::codec::Time;

use super::book::history_of;
use super::{CloudWatch, check, error};

/// Names an item: its time in milliseconds, and how many before it have the same. Tokens are made
/// of it, for items are added between two pages.
type Key = (u64, u64);

impl CloudWatch {
    pub(super) async fn describe_alarm_history(
        &self,
        scope: &Scope,
        input: &DescribeAlarmHistory,
    ) -> Result<Answer, ApiError> {
        let kind = input.history_item_type.as_deref().map(kind).transpose()?;
        let has_metric_alarms = check::has_metric_alarms(&input.alarm_types)?;
        let max = check::max_records(input.max_records)?;
        let is_ascending = check::is_ascending(input.scan_by.as_deref())?;
        let after: Option<Key> = check::place(input.next_token.as_ref())?;
        let home = self.shards.home().map_err(error::of_broker)?;
        let (scope, input) = (scope.clone(), input.clone());
        let read = move |scope: &Scope| {
            let is_wanted = |item: &HistoryItem| {
                has_metric_alarms
                    && input.alarm_contributor_id.is_none()
                    && item.scope == *scope
                    && input.alarm_name.as_ref().is_none_or(|name| item.alarm == *name)
                    && kind.is_none_or(|kind| kind == Some(item.kind))
                    && input.start_date.is_none_or(|start| Time::of_ms(item.at) >= start)
                    && input.end_date.is_none_or(|end| Time::of_ms(item.at) <= end)
            };
            let is_left = |key: Key| {
                after.is_none_or(|after| if is_ascending { key > after } else { key < after })
            };
            let mut items: Vec<(Key, HistoryItem)> = keyed(history_of(home.kept(), &scope.account))
                .filter(|(key, item)| is_left(*key) && is_wanted(item))
                .collect();
            items.sort_by_key(|(key, _)| *key);
            if !is_ascending {
                items.reverse();
            }
            let last = items.get(max.saturating_sub(1)).filter(|_| items.len() > max);
            let next_token = last.and_then(|(key, _)| check::token(key));
            let items = items.into_iter().take(max).map(|(_, item)| shown(item)).collect();
            Answer::DescribeAlarmHistory { items, next_token }
        };
        let account = scope.account.clone();
        Ok(self.monitor.run(&account, move |_| read(&scope)).await?)
    }
}

fn keyed(items: Vec<HistoryItem>) -> impl Iterator<Item = (Key, HistoryItem)> {
    items.into_iter().scan((0, 0), |(at, same), item| {
        *same = if item.at == *at { *same + 1 } else { 0 };
        *at = item.at;
        Some(((*at, *same), item))
    })
}

/// The kind of that name; none if it is one of the contributors to an alarm, which no alarm here has.
fn kind(name: &str) -> Result<Option<HistoryKind>, ApiError> {
    let kind = HistoryKind::of_name(name);
    if kind.is_some() || matches!(name, "AlarmContributorStateUpdate" | "AlarmContributorAction") {
        return Ok(kind);
    }
    let allowed = "ConfigurationUpdate, StateUpdate, Action, AlarmContributorStateUpdate, \
                   AlarmContributorAction";
    Err(error::not_in_enum(name, "historyItemType", allowed))
}

fn shown(item: HistoryItem) -> AlarmHistoryItem {
    AlarmHistoryItem {
        alarm_name: item.alarm,
        alarm_type: "MetricAlarm".to_owned(),
        timestamp: Time::of_ms(item.at),
        item_type: item.kind.name().to_owned(),
        summary: item.summary,
        data: item.data,
    }
}

#[cfg(test)]
mod tests {
    use millrace_metrics::alarm::State;
    use millrace_wire::cloudwatch::PutMetricAlarm;

    use super::*;
    use crate::cloudwatch::alarms::lock;
    use crate::cloudwatch::alarms::tests::{scope, service};
    use crate::cloudwatch::put_alarm::alarm;
    use crate::cloudwatch::put_alarm::tests::example;

    #[tokio::test]
    async fn items_that_are_added_between_pages_repeat_nothing() {
        let service = service();
        // What is older than the history goes back is forgotten.
        let start = service.shards.now();
        let put = |after_ms: u64, count: usize| {
            let at = start.plus_millis(after_ms);
            for _ in 0..count {
                let alarm = alarm(&scope(), &example(), at).unwrap();
                lock(&service.alarms).put(alarm, at).unwrap();
            }
        };
        let page = async |next_token: Option<String>| {
            let max_records = Some(2);
            let input =
                DescribeAlarmHistory { max_records, next_token, ..DescribeAlarmHistory::default() };
            match service.describe_alarm_history(&scope(), &input).await.unwrap() {
                Answer::DescribeAlarmHistory { items, next_token } => {
                    let after_ms = items.iter().map(|item| item.timestamp.0 - start.0 as i64);
                    (after_ms.collect::<Vec<_>>(), next_token)
                }
                _ => panic!("another answer"),
            }
        };
        put(1_000, 3);
        put(2_000, 1);

        let (first, token) = page(None).await;
        put(3_000, 2);
        let (second, end) = page(token).await;

        assert_eq!((first, second), (vec![2_000, 1_000], vec![1_000, 1_000]));
        assert_eq!(end, None);
        let alarm_types = vec!["CompositeAlarm".to_owned()];
        let input = DescribeAlarmHistory { alarm_types, ..DescribeAlarmHistory::default() };
        let composite = service.describe_alarm_history(&scope(), &input).await.unwrap();
        assert!(
            matches!(composite, Answer::DescribeAlarmHistory { items, .. } if items.is_empty())
        );
    }

    #[tokio::test]
    async fn items_of_one_moment_stand_on_one_page_each() {
        let service = service();
        let at = service.shards.now().plus_millis(1_000);
        for name in ["a", "b", "c", "d"] {
            let input = PutMetricAlarm { alarm_name: Some(name.into()), ..example() };
            lock(&service.alarms).put(alarm(&scope(), &input, at).unwrap(), at).unwrap();
        }

        for (scan_by, expected) in [
            ("TimestampAscending", ["a", "b", "c", "d"]),
            ("TimestampDescending", ["d", "c", "b", "a"]),
        ] {
            let (mut found, mut token) = (Vec::new(), None);
            for _ in expected {
                let input = DescribeAlarmHistory {
                    // The thread may evaluate an alarm at any time, which is another kind.
                    history_item_type: Some("ConfigurationUpdate".into()),
                    scan_by: Some(scan_by.into()),
                    max_records: Some(1),
                    next_token: token,
                    ..DescribeAlarmHistory::default()
                };
                let answer = service.describe_alarm_history(&scope(), &input).await.unwrap();
                let Answer::DescribeAlarmHistory { items, next_token } = answer else {
                    panic!("another answer");
                };
                found.extend(items.into_iter().map(|item| item.alarm_name));
                token = next_token;
            }
            assert_eq!((found, token), (expected.map(str::to_owned).to_vec(), None), "{scan_by}");
        }
    }

    #[tokio::test]
    async fn items_are_told_by_alarm_kind_and_time_in_either_direction() {
        let service = service();
        let start = service.shards.now();
        for (after_ms, name) in [(1, "a"), (2, "b"), (3, "a")] {
            let at = start.plus_millis(after_ms);
            // The thread, which may evaluate it at any time, leaves its state alone.
            let treat_missing_data = Some("ignore".to_owned());
            let alarm_name = Some(name.to_owned());
            let input = PutMetricAlarm { alarm_name, treat_missing_data, ..example() };
            lock(&service.alarms).put(alarm(&scope(), &input, at).unwrap(), at).unwrap();
        }
        let at = start.plus_millis(4);
        let why = ("by hand".to_owned(), None);
        lock(&service.alarms).set_state(&scope(), "a", State::Ok, why, at).unwrap();
        let told = async |change: &dyn Fn(&mut DescribeAlarmHistory)| {
            let mut input = DescribeAlarmHistory::default();
            change(&mut input);
            match service.describe_alarm_history(&scope(), &input).await.unwrap() {
                Answer::DescribeAlarmHistory { items, next_token } => {
                    let after_ms = items.iter().map(|item| item.timestamp.0 - start.0 as i64);
                    (after_ms.collect::<Vec<_>>(), next_token)
                }
                _ => panic!("another answer"),
            }
        };
        let times = async |change: &dyn Fn(&mut DescribeAlarmHistory)| told(change).await.0;

        assert_eq!(times(&|_| ()).await, [4, 3, 2, 1]);
        assert_eq!(times(&|input| input.alarm_name = Some("a".into())).await, [4, 3, 1]);
        let kind = "StateUpdate".to_owned();
        assert_eq!(times(&|input| input.history_item_type = Some(kind.clone())).await, [4]);
        for kind in ["AlarmContributorStateUpdate", "AlarmContributorAction"] {
            assert!(times(&|input| input.history_item_type = Some(kind.into())).await.is_empty());
        }
        assert!(times(&|input| input.alarm_contributor_id = Some("c".into())).await.is_empty());
        let ms = |after_ms: u64| Some(Time::of_ms(start.0 + after_ms));
        assert_eq!(times(&|input| input.start_date = ms(3)).await, [4, 3]);
        assert_eq!(times(&|input| input.end_date = ms(2)).await, [2, 1]);
        let ascending = |input: &mut DescribeAlarmHistory, token: Option<String>| {
            input.scan_by = Some("TimestampAscending".into());
            (input.max_records, input.next_token) = (Some(3), token);
        };
        let (first, token) = told(&|input| ascending(input, None)).await;
        assert_eq!(first, [1, 2, 3]);
        assert_eq!(told(&|input| ascending(input, token.clone())).await, (vec![4], None));
    }
}
