//! The actions about alarms, but for the one that puts them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_core::{Arn, Timestamp};
use millrace_metrics::Scope;
use millrace_metrics::alarm::{Alarm, State};
use millrace_wire::ApiError;
use millrace_wire::cloudwatch::{
    AlarmNames, Answer, DescribeAlarms, DescribeAlarmsForMetric, ResourceTags, SetAlarmState, Tag,
};

use super::book::{AlarmBook, AlarmError};
use super::shown_alarm::shown;
use super::{CloudWatch, act, check, error};

/// CloudWatch: names in one request.
const NAMES_MAX: usize = 100;
/// CloudWatch: characters of a reason.
const REASON_CHARS: usize = 1_023;
/// CloudWatch: characters of StateReasonData.
const REASON_DATA_CHARS: usize = 4_000;

const STATES: &str = "INSUFFICIENT_DATA, ALARM, OK";

/// The alarms, shared by requests and the thread that evaluates them.
pub(super) type SharedBook = Arc<Mutex<AlarmBook>>;

pub(super) fn lock(book: &SharedBook) -> MutexGuard<'_, AlarmBook> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CloudWatch {
    pub(super) async fn describe_alarms(
        &self,
        scope: &Scope,
        input: &DescribeAlarms,
    ) -> Result<Answer, ApiError> {
        check::at_most_of(&input.alarm_names, NAMES_MAX, "alarmNames")?;
        let state = input.state_value.as_deref().map(state).transpose()?;
        let max = check::max_records(input.max_records)?;
        let after: Option<String> = check::place(input.next_token.as_ref())?;
        let has_metric_alarms = check::has_metric_alarms(&input.alarm_types)?;
        check_relation(input)?;
        // Only composite alarms have children, and are parents.
        let is_of_composite =
            input.children_of_alarm_name.is_some() || input.parents_of_alarm_name.is_some();
        let has_any = has_metric_alarms && !is_of_composite;
        let input = input.clone();
        self.read_alarms(scope, move |book, scope| {
            let is_wanted = |alarm: &&Alarm| {
                has_any
                    && is_described(alarm, &input)
                    && state.is_none_or(|state| alarm.state == state)
                    && after.as_ref().is_none_or(|after| alarm.name > *after)
            };
            let mut found = book.of_scope(scope).filter(is_wanted);
            let alarms: Vec<&Alarm> = found.by_ref().take(max).collect();
            let last = alarms.last().filter(|_| found.next().is_some());
            let next_token = last.and_then(|alarm| check::token(&alarm.name));
            let alarms = alarms.into_iter().map(shown).collect();
            let (composite_alarms, log_alarms) = (Vec::new(), Vec::new());
            Answer::DescribeAlarms { composite_alarms, alarms, log_alarms, next_token }
        })
        .await
    }

    pub(super) async fn describe_alarms_for_metric(
        &self,
        scope: &Scope,
        input: &DescribeAlarmsForMetric,
    ) -> Result<Answer, ApiError> {
        let namespace = check::name(input.namespace.as_ref(), "Namespace")?;
        let metric = check::name(input.metric_name.as_ref(), "MetricName")?;
        let entity = check::entity(scope, namespace, &input.dimensions, "Dimensions")?;
        if let Some(statistic) = &input.statistic {
            check::statistic(statistic, "statistic")?;
        }
        check::unit(input.unit.as_ref())?;
        let (input, metric) = (input.clone(), metric.to_owned());
        self.read_alarms(scope, move |book, scope| {
            let wanted = input.statistic.as_deref().or(input.extended_statistic.as_deref());
            let is_wanted = |alarm: &&Alarm| {
                let period_s = i64::try_from(alarm.period_s).unwrap_or(i64::MAX);
                alarm.metric().is_some_and(|(of, name, statistic, unit)| {
                    *of == entity
                        && name == metric
                        && wanted.is_none_or(|wanted| wanted == statistic)
                        && input.unit.as_deref().is_none_or(|wanted| Some(wanted) == unit)
                        && input.period_s.is_none_or(|wanted| wanted == period_s)
                })
            };
            let alarms = book.of_scope(scope).filter(is_wanted).map(shown).collect();
            Answer::DescribeAlarmsForMetric { alarms }
        })
        .await
    }

    pub(super) async fn delete_alarms(
        &self,
        scope: &Scope,
        input: &AlarmNames,
    ) -> Result<Answer, ApiError> {
        let names = some_names(input)?;
        self.change_alarms(scope, move |book, scope, now| {
            for name in &names {
                // One that is not there, or no longer, is no error.
                book.delete(scope, name, now)?;
            }
            Ok(())
        })
        .await
        .map(|()| Answer::Done)
    }

    pub(super) async fn set_actions_enabled(
        &self,
        scope: &Scope,
        input: &AlarmNames,
        switch: Switch,
    ) -> Result<Answer, ApiError> {
        let names = some_names(input)?;
        self.change_alarms(scope, move |book, scope, now| {
            for name in &names {
                let Some(mut alarm) = book.alarm(scope, name).cloned() else { continue };
                alarm.actions_enabled = switch == Switch::On;
                alarm.configured_at = now.0;
                book.put(alarm, now)?;
            }
            Ok(())
        })
        .await
        .map(|()| Answer::Done)
    }

    pub(super) async fn set_alarm_state(
        &self,
        scope: &Scope,
        input: &SetAlarmState,
    ) -> Result<Answer, ApiError> {
        let name = check::name(input.alarm_name.as_ref(), "AlarmName")?.to_owned();
        let value = input.state_value.as_deref().ok_or_else(|| error::missing("StateValue"))?;
        let state = state(value)?;
        let reason = input.state_reason.clone().ok_or_else(|| error::missing("StateReason"))?;
        check::at_most(Some(&reason), REASON_CHARS, "StateReason")?;
        let data = input.state_reason_data.as_ref();
        check::at_most(data, REASON_DATA_CHARS, "StateReasonData")?;
        let data = input.state_reason_data.clone().filter(|data| !data.is_empty());
        if let Some(data) = &data {
            serde_json::from_str::<serde::de::IgnoredAny>(data).map_err(|_| {
                error::invalid_format("The parameter StateReasonData must be a JSON text.")
            })?;
        }
        let changed = self.change_alarms(scope, move |book, scope, now| {
            book.set_state(scope, &name, state, (reason, data), now)
        });
        if let Some(owed) = changed.await? {
            act::announce(&owed.change);
            let acted = self.monitor.act(owed).await?;
            let home = self.shards.home().map_err(error::of_broker)?;
            home.committed(acted).await.map_err(error::of_broker)?;
        }
        Ok(Answer::Done)
    }

    pub(super) async fn tag_resource(
        &self,
        scope: &Scope,
        input: &ResourceTags,
    ) -> Result<Answer, ApiError> {
        let (name, tags) = (self.known_alarm(scope, input).await?, input.tags.clone());
        check::tags(&tags)?;
        self.change_alarms(scope, move |book, scope, _| {
            book.tag(scope, &name, |known| {
                known.extend(tags.into_iter().map(<(String, String)>::from))
            })
        })
        .await
        .map(|()| Answer::Empty {})
    }

    pub(super) async fn untag_resource(
        &self,
        scope: &Scope,
        input: &ResourceTags,
    ) -> Result<Answer, ApiError> {
        let (name, keys) = (self.known_alarm(scope, input).await?, input.tag_keys.clone());
        self.change_alarms(scope, move |book, scope, _| {
            book.tag(scope, &name, |known| known.retain(|key, _| !keys.contains(key)))
        })
        .await
        .map(|()| Answer::Empty {})
    }

    pub(super) async fn list_tags(
        &self,
        scope: &Scope,
        input: &ResourceTags,
    ) -> Result<Answer, ApiError> {
        // CloudWatch: an alarm that does not exist has none.
        let name = alarm_name(scope, input)?;
        self.read_alarms(scope, move |book, scope| {
            let tags = book.alarm(scope, &name).map(|alarm| alarm.tags.clone());
            Answer::ListTagsForResource {
                tags: tags.unwrap_or_default().into_iter().map(Tag::from).collect(),
            }
        })
        .await
    }

    /// Reads the alarms of a scope on a thread that may compute for long.
    pub(super) async fn read_alarms<T: Send + 'static>(
        &self,
        scope: &Scope,
        read: impl FnOnce(&AlarmBook, &Scope) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let (book, of) = (self.alarms.clone(), scope.clone());
        Ok(self.monitor.run(&scope.account, move |_| read(&lock(&book), &of)).await?)
    }

    /// Changes the alarms of a scope on a thread that may compute for long; resolves when that is
    /// durable.
    pub(super) async fn change_alarms<T: Send + 'static>(
        &self,
        scope: &Scope,
        change: impl FnOnce(&mut AlarmBook, &Scope, Timestamp) -> Result<T, AlarmError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (shards, book, of) = (self.shards.clone(), self.alarms.clone(), scope.clone());
        let change = move || {
            let mut book = lock(&book);
            Ok((change(&mut book, &of, shards.now())?, book.latest()))
        };
        let changed = self.monitor.run_change(&scope.account, change).await?;
        let (value, ticket) = changed.map_err(error::of_alarm)?;
        let home = self.shards.home().map_err(error::of_broker)?;
        home.committed(ticket).await.map_err(error::of_broker)?;
        Ok(value)
    }

    /// The name of the alarm that an ARN names, which must exist.
    async fn known_alarm(&self, scope: &Scope, input: &ResourceTags) -> Result<String, ApiError> {
        let name = alarm_name(scope, input)?;
        let wanted = name.clone();
        let is_there =
            self.read_alarms(scope, move |book, scope| book.alarm(scope, &wanted).is_some());
        let text = input.resource_arn.as_deref().unwrap_or_default();
        is_there.await?.then_some(name).ok_or_else(|| error::resource_not_found(text))
    }
}

/// The name of the alarm that an ARN names, whether or not there is one.
fn alarm_name(scope: &Scope, input: &ResourceTags) -> Result<String, ApiError> {
    let text = input.resource_arn.as_deref().ok_or_else(|| error::missing("ResourceARN"))?;
    let arn = Arn::parse(text).filter(|arn| {
        arn.service == "cloudwatch" && arn.region == scope.region && arn.account == scope.account
    });
    let arn = arn.ok_or_else(|| error::invalid_value("Invalid resource ARN."))?;
    let name = arn.resource.strip_prefix("alarm:");
    Ok(name.ok_or_else(|| error::resource_not_found(text))?.to_owned())
}

/// Whose names are given, one at least.
fn some_names(input: &AlarmNames) -> Result<Vec<String>, ApiError> {
    if input.names.is_empty() {
        return Err(error::missing("AlarmNames"));
    }
    check::at_most_of(&input.names, NAMES_MAX, "alarmNames")?;
    Ok(input.names.clone())
}

/// Whether alarms act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    On,
    Off,
}

fn is_described(alarm: &Alarm, input: &DescribeAlarms) -> bool {
    let all = [&alarm.ok_actions, &alarm.alarm_actions, &alarm.insufficient_data_actions];
    let mut actions = all.into_iter().flatten();
    (input.alarm_names.is_empty() || input.alarm_names.contains(&alarm.name))
        && input.alarm_name_prefix.as_ref().is_none_or(|prefix| alarm.name.starts_with(prefix))
        && input.action_prefix.as_ref().is_none_or(|p| actions.any(|action| action.starts_with(p)))
}

/// CloudWatch: who asks for children or parents may say nothing else but MaxRecords and NextToken.
fn check_relation(input: &DescribeAlarms) -> Result<(), ApiError> {
    let relations = [&input.children_of_alarm_name, &input.parents_of_alarm_name];
    let texts = [&input.alarm_name_prefix, &input.state_value, &input.action_prefix];
    let is_more = !input.alarm_names.is_empty()
        || !input.alarm_types.is_empty()
        || texts.into_iter().any(Option::is_some);
    match relations.into_iter().flatten().count() {
        0 => Ok(()),
        1 if !is_more => Ok(()),
        _ => Err(error::validation(
            "ChildrenOfAlarmName and ParentsOfAlarmName cannot be combined with other parameters \
             but MaxRecords and NextToken.",
        )),
    }
}

fn state(name: &str) -> Result<State, ApiError> {
    State::of_name(name).ok_or_else(|| error::not_in_enum(name, "stateValue", STATES))
}

#[cfg(test)]
pub(super) mod tests;
