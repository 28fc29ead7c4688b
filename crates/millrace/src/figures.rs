//! The server's own figures for Prometheus: connections, bytes, and the room on its disk.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use millrace_server::{Closed, Counters};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

#[derive(Debug)]
pub(crate) struct ServerFigures {
    /// What all connections have done.
    pub(crate) counters: Arc<Counters>,
    /// Where the data is, if it is on a disk.
    pub(crate) data: Option<PathBuf>,
}

impl Collector for ServerFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let totals = self.counters.totals();
        let gauges = [
            ("millrace_connections", "Connections that are open", totals.open),
            (
                "millrace_idle_polling",
                "Whether cores without work poll, as they do under load",
                u64::from(totals.is_polling),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)?;
        }
        let counters = [
            ("millrace_connections_opened", "Connections accepted", None, totals.opened),
            (
                "millrace_http_requests",
                "HTTP requests answered, health included",
                None,
                totals.requests,
            ),
            ("millrace_http_in", "Requests as received", Some(&Unit::Bytes), totals.bytes_in),
            ("millrace_http_out", "Responses as sent", Some(&Unit::Bytes), totals.bytes_out),
        ];
        for (name, help, unit, count) in counters {
            let counter = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            ConstCounter::new(count).encode(counter)?;
        }
        let name = "millrace_connections_closed";
        let help = "Connections that ended, by reason";
        let mut closed = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for reason in Closed::ALL {
            let labels = [("reason", reason.name())];
            let count = totals.closed_for(reason);
            ConstCounter::new(count).encode(closed.encode_family(&labels)?)?;
        }
        self.encode_disk(&mut encoder)
    }
}

impl ServerFigures {
    fn encode_disk(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let found = self.data.as_ref().and_then(|data| rustix::fs::statvfs(data).ok());
        let Some(disk) = found else { return Ok(()) };
        let name = "millrace_disk_available";
        let help = "Free for the server on the file system of its data";
        let unit = Some(&Unit::Bytes);
        let gauge = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        ConstGauge::new(disk.f_bavail.saturating_mul(disk.f_frsize)).encode(gauge)
    }
}
