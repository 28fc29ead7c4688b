//! Amazon CloudWatch, as far as it is about metrics and alarms.
//!
//! [`error`] assigns all codes, [`check`] holds rules that several actions share. What may wait for
//! the disk runs on the threads of [`monitor`], in the order that [`jobs`] says; [`queues`]
//! and [`topics`] are where the metrics of queues and topics come from; [`book`] keeps alarms, [`rounds`] has them evaluated,
//! [`evaluate`] judges them, [`act`] does what they are to do.

mod act;
mod alarms;
mod book;
mod check;
mod error;
mod evaluate;
mod get_data;
mod history;
mod jobs;
mod measured;
mod minutes;
mod monitor;
mod notification;
mod page;
mod put_alarm;
mod put_data;
mod queues;
mod resume;
mod rounds;
mod shown_alarm;
mod topics;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use millrace_broker::Shards;
use millrace_core::QueueKey;
use millrace_metrics::Scope;
use millrace_wire::cloudwatch::{self, Action as Input, Answer};
use millrace_wire::protocol::{ServiceMetadata, Target};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Response};

pub use act::QueueAccess;
pub(crate) use act::{Failure, Notice, Topics};
pub use book::{AlarmBook, convert_alarms};
pub(crate) use error::of_store;
pub use minutes::Minute;
pub use monitor::Monitor;

use crate::principal::Caller;
use crate::service::{Action, AwsService, Call};
use alarms::{SharedBook, Switch, lock};

/// CloudWatch: bytes of a request, compressed or not.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// The service.
pub(crate) struct CloudWatch {
    shards: Arc<Shards>,
    monitor: Arc<Monitor>,
    alarms: SharedBook,
}

impl CloudWatch {
    pub(crate) fn new(shards: Arc<Shards>, monitor: Arc<Monitor>) -> CloudWatch {
        let alarms = monitor.alarms().clone();
        CloudWatch { shards, monitor, alarms }
    }

    /// Regions and accounts that have alarms.
    pub(crate) fn scopes_of_alarms(&self) -> BTreeSet<Scope> {
        lock(&self.alarms).scopes().cloned().collect()
    }

    /// How many alarms of each account are in alarm; a moment ago, while they are being changed.
    pub(crate) fn in_alarm(&self) -> Arc<BTreeMap<String, u64>> {
        self.monitor.in_alarm()
    }

    /// Space that the history of metrics takes on the disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.monitor.store().disk_bytes()
    }

    /// Regions and accounts that have queues, or series of what was measured.
    pub(crate) async fn scopes_of_metrics(&self) -> Result<BTreeSet<Scope>, ApiError> {
        let store = self.monitor.store().clone();
        let mut scopes = self.monitor.run_scrape(move || store.scopes()).await?;
        for queue in self.shards.catalog().queues() {
            let QueueKey { region, account, .. } = queue.key();
            scopes.insert(Scope { region: region.clone(), account: account.clone() });
        }
        Ok(scopes)
    }

    async fn answer(&self, scope: &Scope, input: &Input) -> Result<Answer, ApiError> {
        match input {
            Input::DeleteAlarms(input) => self.delete_alarms(scope, input).await,
            Input::DescribeAlarmHistory(input) => self.describe_alarm_history(scope, input).await,
            Input::DescribeAlarms(input) => self.describe_alarms(scope, input).await,
            Input::DescribeAlarmsForMetric(input) => {
                self.describe_alarms_for_metric(scope, input).await
            }
            Input::DisableAlarmActions(input) => {
                self.set_actions_enabled(scope, input, Switch::Off).await
            }
            Input::EnableAlarmActions(input) => {
                self.set_actions_enabled(scope, input, Switch::On).await
            }
            Input::GetMetricData(input) => self.get_metric_data(scope, input).await,
            Input::GetMetricStatistics(input) => self.get_metric_statistics(scope, input).await,
            Input::ListMetrics(input) => self.list_metrics(scope, input).await,
            Input::ListTagsForResource(input) => self.list_tags(scope, input).await,
            Input::PutMetricAlarm(input) => self.put_metric_alarm(scope, input).await,
            Input::PutMetricData(input) => self.put_metric_data(scope, input).await,
            Input::SetAlarmState(input) => self.set_alarm_state(scope, input).await,
            Input::TagResource(input) => self.tag_resource(scope, input).await,
            Input::UntagResource(input) => self.untag_resource(scope, input).await,
        }
    }
}

/// The actions that are answered.
static ACTIONS: [Action<CloudWatch>; 15] = [
    Action::new("DeleteAlarms", ()),
    Action::new("DescribeAlarmHistory", ()),
    Action::new("DescribeAlarms", ()),
    Action::new("DescribeAlarmsForMetric", ()),
    Action::new("DisableAlarmActions", ()),
    Action::new("EnableAlarmActions", ()),
    Action::new("GetMetricData", ()),
    Action::new("GetMetricStatistics", ()),
    Action::new("ListMetrics", ()),
    Action::new("ListTagsForResource", ()),
    Action::new("PutMetricAlarm", ()),
    Action::new("PutMetricData", ()),
    Action::new("SetAlarmState", ()),
    Action::new("TagResource", ()),
    Action::new("UntagResource", ()),
];

impl AwsService for CloudWatch {
    const METADATA: &'static ServiceMetadata = &cloudwatch::SERVICE;
    const ACTIONS: &'static [Action<CloudWatch>] = &ACTIONS;
    const BODY_BYTES_MAX: Option<usize> = Some(BODY_BYTES_MAX);

    type Input<'a> = Input;
    type Answer = Answer;
    type Names = ();
    type Resource = Infallible;

    fn decode<'a>(
        &self,
        call: &Call<'a>,
        parameters: &'a mut Parameters<'_>,
    ) -> Result<Input, ApiError> {
        let input = cloudwatch::decode(call.target, parameters, call.request.body)?;
        // They may take ten times what they are written in, and the answer waits for a thread.
        *parameters = Parameters::default();
        Ok(input)
    }

    /// Alarms and metrics are looked for in the caller's account only.
    fn find(&self, (): (), _: &Call<'_>, _: &Input) -> Result<Option<Infallible>, ApiError> {
        Ok(None)
    }

    async fn act<'a>(
        &self,
        call: &Call<'a>,
        input: &Input,
        _: Option<Infallible>,
    ) -> Result<Answer, ApiError> {
        let Caller { principal, region, .. } = call.caller;
        let scope = Scope { region: region.to_string(), account: principal.account.to_string() };
        self.answer(&scope, input).await.map_err(|error| match input {
            Input::GetMetricStatistics(_)
            | Input::ListMetrics(_)
            | Input::ListTagsForResource(_)
            | Input::PutMetricData(_)
            | Input::TagResource(_)
            | Input::UntagResource(_) => error,
            _ => error::of_validation(error),
        })
    }

    fn encode(&self, call: &Call<'_>, answer: Answer) -> Response {
        let Target { action, protocol, .. } = call.target;
        cloudwatch::response(&answer, action, *protocol, call.request_id)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_has_all_actions() {
        assert!(super::ACTIONS.iter().map(|it| it.name).eq(millrace_wire::cloudwatch::ACTIONS));
    }
}
