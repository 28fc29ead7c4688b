//! The server's own figures for Prometheus: connections and bytes.

use std::fmt;
use std::sync::Arc;

use millrace_server::{Closed, Counters};
use millrace_services::Figures;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Counters of all listeners' connections.
pub(crate) struct ServerFigures(pub(crate) Arc<Counters>);

impl Figures for ServerFigures {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let totals = self.0.totals();
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
        Ok(())
    }
}
