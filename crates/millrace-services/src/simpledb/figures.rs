//! What Prometheus scrapes of the tables. Requests are counted by action, as those of all services.

use std::fmt;
use std::sync::Arc;

use millrace_tables::Tables;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::telemetry::Series;

/// The figures of the tables.
pub(crate) struct TableFigures(pub Arc<Tables>);

impl fmt::Debug for TableFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableFigures").finish_non_exhaustive()
    }
}

impl Collector for TableFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let (writes, reads) = self.0.waiting();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Series::new("millrace_simpledb_waiting_writes", "Writes that wait for the writer")
            .gauge(encoder, count(writes))?;
        Series::new("millrace_simpledb_waiting_reads", "Reads that wait for a reader")
            .gauge(encoder, count(reads))?;
        // A scrape has a thread of its own.
        match futures_executor::block_on(self.0.domain_count()) {
            Ok(domains) => Series::new("millrace_simpledb_domains", "Domains of all accounts")
                .gauge(encoder, domains),
            Err(error) => {
                tracing::debug!(%error, "domains cannot be counted");
                Ok(())
            }
        }
    }
}
