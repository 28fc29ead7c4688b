//! The server's own figures for Prometheus: connections, bytes, and the room on its disk.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use millrace_server::{Closed, Counters};
use millrace_services::Series;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

#[derive(Debug)]
pub(crate) struct ServerFigures {
    /// What all connections have done.
    pub(crate) counters: Arc<Counters>,
    /// Where the data is, if it is on a disk.
    pub(crate) data: Option<PathBuf>,
}

impl Collector for ServerFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let encoder = &mut encoder;
        let totals = self.counters.totals();
        Series::new("millrace_connections", "Connections that are open")
            .gauge(encoder, totals.open)?;
        Series::new(
            "millrace_idle_polling",
            "Whether cores without work poll, as they do under load",
        )
        .gauge(encoder, u64::from(totals.is_polling))?;
        Series::new("millrace_connections_opened", "Connections accepted")
            .counter(encoder, totals.opened)?;
        Series::new("millrace_http_requests", "HTTP requests answered, health included")
            .counter(encoder, totals.requests)?;
        Series::bytes("millrace_http_in", "Requests as received")
            .counter(encoder, totals.bytes_in)?;
        Series::bytes("millrace_http_out", "Responses as sent")
            .counter(encoder, totals.bytes_out)?;
        let closed = Closed::ALL.map(|why| ([("reason", why.name())], totals.closed_for(why)));
        Series::new("millrace_connections_closed", "Connections that ended, by reason")
            .counters(encoder, closed)?;
        self.encode_disk(encoder)
    }
}

impl ServerFigures {
    fn encode_disk(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let found = self.data.as_ref().and_then(|data| rustix::fs::statvfs(data).ok());
        let Some(disk) = found else { return Ok(()) };
        let available = disk.f_bavail.saturating_mul(disk.f_frsize);
        Series::bytes(
            "millrace_disk_available",
            "Free for the server on the file system of its data",
        )
        .gauge(encoder, available)
    }
}
