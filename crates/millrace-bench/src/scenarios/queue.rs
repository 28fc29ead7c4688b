//! A queue of a scenario's own, seen through the client library: its connections are what
//! `position`, `drain` and `poll` are about.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_client::{
    Credentials,
    sqs::{SqsClient, SqsOptions, SqsPeer},
    transport::{Endpoint, TransportOptions},
};

use super::Setting;
use crate::load::{self, Count, Mode, Scenario, Shape};

/// A queue that exists until it is removed.
pub(super) struct Queue<'a> {
    setting: &'a Setting,
    pub(super) url: String,
}

/// What fills a queue: quick, and never what is measured.
const FILL_CONNECTIONS: usize = 16;

impl<'a> Queue<'a> {
    /// Its visibility timeout is longer than a run.
    pub(super) fn create(setting: &'a Setting) -> Result<Queue<'a>> {
        let scenario = Scenario::new(Mode::Send, setting.endpoint.clone(), 1);
        Ok(Queue { setting, url: scenario.create_queue()? })
    }

    /// Sends so many messages, in batches.
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
                ..Scenario::new(Mode::Send, endpoint, FILL_CONNECTIONS)
            };
            let sent = load::run_on(&scenario, &self.url)?.count(Count::Sent);
            if sent != count {
                bail!("{sent} of {count} messages could be sent");
            }
        }
        Ok(())
    }

    /// A client with connections of its own.
    pub(super) fn peer(&self, transport: TransportOptions) -> Result<SqsPeer> {
        self.peer_at(&self.setting.url, transport)
    }

    /// The same, by way of another address.
    pub(super) fn peer_at(&self, url: &str, mut transport: TransportOptions) -> Result<SqsPeer> {
        transport.tls = self.setting.trust.options()?;
        // Longer than any stall that is to be measured.
        transport.answer_timeout = Duration::from_secs(60);
        let credentials = self.setting.keys.as_ref().map(|keys| Credentials {
            access_key: keys.access_key.clone(),
            secret: keys.secret_key.clone(),
            session_token: keys.session_token.clone(),
        });
        let region = self.setting.keys.as_ref().map(|keys| keys.region.clone());
        let endpoint = Endpoint::parse(url).context("endpoint")?;
        let client = SqsClient::new(endpoint, SqsOptions { region, credentials, transport });
        // URLs come back raw, as JSON may write them.
        Ok(SqsPeer::new(client.context("client")?, self.url.replace("\\/", "/")))
    }

    pub(super) fn remove(self) -> Result<()> {
        self.setting.endpoint.delete_queue(&self.url)
    }
}
