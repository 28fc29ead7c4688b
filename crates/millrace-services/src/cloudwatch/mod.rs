//! Amazon CloudWatch, as far as it is about metrics and alarms.
//!
//! [`error`] assigns all codes, [`check`] holds rules that several actions share. What may wait for
//! the disk runs on the threads of [`monitor`], in the order that [`jobs`] says; [`queues`] is where
//! the metrics of queues come from; [`book`] keeps alarms, [`rounds`] has them evaluated,
//! [`evaluate`] judges them, [`act`] does what they are to do.

mod act;
mod alarms;
mod book;
mod check;
mod error;
mod evaluate;
mod get_data;
mod gzip;
mod history;
mod jobs;
mod minutes;
mod monitor;
mod notification;
mod page;
mod put_alarm;
mod put_data;
mod queues;
mod rounds;
mod shown_alarm;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_broker::Shards;
use millrace_core::QueueKey;
use millrace_metrics::Scope;
use millrace_wire::cloudwatch::{self, Action, Answer};
use millrace_wire::protocol::Target;
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Request, Response};

pub use act::QueueAccess;
pub use book::{AlarmBook, convert_alarms};
pub(crate) use error::of_store;
pub(crate) use gzip::Inflater;
pub use minutes::Minute;
pub use monitor::Monitor;

use crate::auth::Caller;
use alarms::{SharedBook, Switch, lock};

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

    /// Answers one request, whose content encoding is undone.
    pub(crate) async fn call(
        &self,
        request: &Request<'_>,
        target: &Target<'_>,
        parameters: Parameters<'_>,
        (caller, request_id): (&Caller<'_>, &str),
    ) -> Result<Response, ApiError> {
        if request.body.len() as u64 > gzip::BODY_BYTES_MAX {
            return Err(gzip::too_large());
        }
        let action = cloudwatch::decode(target, &parameters, request.body)?;
        // They may take ten times what they are written in, and the answer waits for a thread.
        drop(parameters);
        let (region, account) = (caller.region.to_string(), caller.account.to_string());
        let scope = Scope { region, account };
        let answer = self.act(&scope, &action).await.map_err(|error| match action {
            Action::GetMetricStatistics(_)
            | Action::ListMetrics(_)
            | Action::ListTagsForResource(_)
            | Action::PutMetricData(_)
            | Action::TagResource(_)
            | Action::UntagResource(_) => error,
            _ => error::of_validation(error),
        })?;
        Ok(cloudwatch::response(&answer, &target.action, target.protocol, request_id))
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

    async fn act(&self, scope: &Scope, action: &Action) -> Result<Answer, ApiError> {
        match action {
            Action::DeleteAlarms(input) => self.delete_alarms(scope, input).await,
            Action::DescribeAlarmHistory(input) => self.describe_alarm_history(scope, input).await,
            Action::DescribeAlarms(input) => self.describe_alarms(scope, input).await,
            Action::DescribeAlarmsForMetric(input) => {
                self.describe_alarms_for_metric(scope, input).await
            }
            Action::DisableAlarmActions(input) => {
                self.set_actions_enabled(scope, input, Switch::Off).await
            }
            Action::EnableAlarmActions(input) => {
                self.set_actions_enabled(scope, input, Switch::On).await
            }
            Action::GetMetricData(input) => self.get_metric_data(scope, input).await,
            Action::GetMetricStatistics(input) => self.get_metric_statistics(scope, input).await,
            Action::ListMetrics(input) => self.list_metrics(scope, input).await,
            Action::ListTagsForResource(input) => self.list_tags(scope, input).await,
            Action::PutMetricAlarm(input) => self.put_metric_alarm(scope, input).await,
            Action::PutMetricData(input) => self.put_metric_data(scope, input).await,
            Action::SetAlarmState(input) => self.set_alarm_state(scope, input).await,
            Action::TagResource(input) => self.tag_resource(scope, input).await,
            Action::UntagResource(input) => self.untag_resource(scope, input).await,
        }
    }
}
