//! A queue of a scenario's own, seen through the client library: its connections are what
//! `position`, `drain` and `poll` are about.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use millrace_client::{
    QueuePeer,
    iron::{IronOptions, IronPeer},
    sqs::{SqsClient, SqsOptions, SqsPeer},
    transport::{Endpoint, TransportOptions},
};

use super::{
    Setting,
    sns::arn_in,
    watched::{Timed, Watched},
};
use crate::access::{Access, Keys, Protocol};
use crate::load::{self, Count, Mode, OwnQueue, Scenario, Shape};
use crate::{latency::Latencies, process, report::Recording};

/// A queue that exists until it is removed, or dropped.
pub(super) struct Queue<'a> {
    setting: &'a Setting,
    own: OwnQueue,
    timed: Timed,
    began: Duration,
}

/// What fills a queue: quick, and never what is measured.
const FILL_CONNECTIONS: usize = 16;

impl<'a> Queue<'a> {
    /// Its visibility timeout is longer than a run. Refused if a request there takes less than
    /// `batch` messages.
    pub(super) fn create(setting: &'a Setting, batch: u64) -> Result<Queue<'a>> {
        let scenario = Scenario {
            shape: Shape { batch, ..Shape::default() },
            progress: setting.progress.clone(),
            ..Scenario::new(Mode::Send, setting.endpoint.clone(), 1)
        };
        let timed = Arc::new(Mutex::new(Latencies::new()));
        let own = OwnQueue::new(&setting.endpoint, scenario.create_queue()?, &setting.progress);
        Ok(Queue { setting, own, timed, began: process::now() })
    }

    /// SQS: its URL, raw as it stood in the answer.
    pub(super) fn url(&self) -> &str {
        &self.own.name
    }

    /// Asks SQS for its ARN.
    pub(super) fn arn(&self) -> Result<String> {
        let sqs = self.setting.endpoint.dialect.sqs()?;
        let mut body = sqs.open("GetQueueAttributes", self.url());
        body.extend_from_slice(match sqs.protocol {
            Protocol::Json => b",\"AttributeNames\":[\"QueueArn\"]}".as_slice(),
            Protocol::Query => b"&AttributeName.1=QueueArn",
        });
        let answer = self.setting.endpoint.call_sqs("GetQueueAttributes", &body)?;
        arn_in(&answer).with_context(|| format!("{} has no ARN", self.url()))
    }

    /// Sends so many messages, in batches. Gives up if the run is to end early.
    pub(super) fn fill(&self, count: u64, size_bytes: usize) -> Result<()> {
        // Ten at a time, and one at a time what is left.
        for (count, batch) in [(count / 10 * 10, 10), (count % 10, 1)] {
            if count == 0 {
                continue;
            }
            let endpoint = self.setting.endpoint.clone();
            let scenario = Scenario {
                shape: Shape { batch, size_bytes, ..Shape::default() },
                count,
                progress: self.setting.progress.unseen(),
                ..Scenario::new(Mode::Send, endpoint, FILL_CONNECTIONS)
            };
            let report = load::run_on(&scenario, &self.own.name)?;
            let sent = report.count(Count::Sent);
            if sent != count {
                let why = report.first_error.as_deref().unwrap_or("no error");
                bail!("{sent} of {count} messages could be sent: {why}");
            }
        }
        Ok(())
    }

    /// A client with connections of its own. Its calls are timed.
    pub(super) fn peer(&self, transport: TransportOptions) -> Result<Watched> {
        let live = self.setting.progress.live().if_watched();
        Ok(Watched::new(self.queue_peer(transport)?, &self.timed, live))
    }

    fn queue_peer(&self, mut transport: TransportOptions) -> Result<QueuePeer> {
        transport.tls = self.setting.trust.options()?;
        // Longer than any stall that is to be measured.
        transport.answer_timeout = Duration::from_secs(60);
        let endpoint = Endpoint::from(&self.setting.url);
        match &self.setting.access {
            Access::Sqs { protocol, keys } => {
                let credentials = keys.as_ref().map(Keys::credentials);
                let region = keys.as_ref().map(|keys| keys.region.clone());
                let options = SqsOptions { region, credentials, protocol: *protocol, transport };
                let client = SqsClient::new(endpoint, options).context("client")?;
                // URLs come back raw, as JSON may write them.
                Ok(QueuePeer::Sqs(SqsPeer::new(client, self.own.name.replace("\\/", "/"))))
            }
            Access::Iron(project) => {
                let options = IronOptions {
                    version: project.version,
                    project_id: project.id.clone(),
                    token: project.token.clone(),
                    transport,
                };
                // What follows the last slash of the path; it needs no escaping.
                let name = self.own.name.rsplit('/').next().unwrap_or_default();
                let peer = IronPeer::new(endpoint, name, &options).context("client")?;
                Ok(QueuePeer::Iron(peer))
            }
        }
    }

    /// Deletes it, and tells what the calls of its peers took.
    pub(super) fn remove(self, front: &str) -> Vec<Recording> {
        drop(self.own);
        let timed = self.timed.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = process::now().saturating_sub(self.began);
        timed.recordings(front, self.began, elapsed)
    }
}
