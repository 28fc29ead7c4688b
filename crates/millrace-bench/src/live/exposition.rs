//! The sums as Prometheus' text format, 0.0.4, which scrapers, gateways and importers all read.

use std::fmt;

use hdrhistogram::Histogram;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text::encode_registry},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use super::{Event, Live, Standing, View};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// 100 µs to 52 s, a factor of 2 each.
const BUCKETS: usize = 20;
const FIRST_BUCKET_S: f64 = 1e-4;
/// Of the last second; 1 is the longest.
const QUANTILES: [(&str, f64); 5] =
    [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999), ("1", 1.0)];
const MESSAGES: [(&str, Event); 3] =
    [("sent", Event::Sent), ("received", Event::Received), ("deleted", Event::Deleted)];

/// All series.
pub(super) fn text(live: &Live) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(live.view()));
    let mut families = String::new();
    // Writing to a string cannot fail.
    let _ = encode_registry(&mut families, &registry);
    as_text(&families)
}

impl View {
    fn encode_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Messages, by what has become of them";
        let name = "millrace_bench_messages";
        let mut messages = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (outcome, event) in MESSAGES {
            let labels = [("outcome", outcome)];
            ConstCounter::new(self.total(event)).encode(messages.encode_family(&labels)?)?;
        }
        let counters = [
            ("requests", "Requests answered", Event::Requests),
            ("failed_requests", "Requests refused or not answered", Event::Failed),
            ("connections_opened", "Connections opened", Event::Opened),
            ("connections_closed", "Connections that the server ended", Event::Closed),
            ("connections_reused", "Requests over a connection that had served one", Event::Reused),
        ];
        for (name, help, event) in counters {
            let name = format!("millrace_bench_{name}");
            let counter = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            ConstCounter::new(self.total(event)).encode(counter)?;
        }
        Ok(())
    }

    fn encode_gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "What is measured";
        let name = "millrace_bench_run_info";
        let mut run = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let labels = [("run", self.run.as_str())];
        ConstGauge::new(1_u64).encode(run.encode_family(&labels)?)?;
        let help = "How far the run is";
        let name = "millrace_bench_progress";
        let share =
            encoder.encode_descriptor(name, help, Some(&Unit::Ratios), MetricType::Gauge)?;
        ConstGauge::new(self.share).encode(share)?;
        let help = "Messages of the last second, by what has become of them";
        let name = "millrace_bench_messages_per_second";
        let mut rates = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (outcome, event) in MESSAGES {
            let labels = [("outcome", outcome)];
            ConstGauge::new(self.rate(event)).encode(rates.encode_family(&labels)?)?;
        }
        let Standing { waiting, duplicated, foreign, out_of_order } = self.standing;
        let gauges = [
            ("requests_in_flight", "Requests under way", self.in_flight),
            ("messages_waiting", "Acknowledged and not yet received, of this run", waiting),
            ("messages_duplicated", "Receives beyond the first, of this run", duplicated),
            ("messages_foreign", "Of another run or altered, in this run", foreign),
            ("messages_out_of_order", "Received behind a later one, of this run", out_of_order),
        ];
        for (name, help, value) in gauges {
            let name = format!("millrace_bench_{name}");
            let gauge = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)?;
        }
        Ok(())
    }

    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let help = "How long operations took, by kind";
        let name = "millrace_bench_latency";
        let mut latency = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        for (name, histogram) in self.all.named_histograms() {
            let (sum_s, buckets) = sum_and_buckets(histogram);
            let labels = [("operation", name)];
            let mut family = latency.encode_family(&labels)?;
            family.encode_histogram::<NoLabelSet>(sum_s, histogram.len(), &buckets, None)?;
        }
        let help = "How long they took in the last second, by quantile";
        let name = "millrace_bench_latency_quantile";
        let mut quantile = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (name, histogram) in self.last.named_histograms() {
            for (label, share) in QUANTILES {
                let labels = [("operation", name), ("quantile", label)];
                let value_s = histogram.value_at_quantile(share) as f64 / 1e9;
                ConstGauge::new(value_s).encode(quantile.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Collector for View {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_counters(&mut encoder)?;
        self.encode_gauges(&mut encoder)?;
        self.encode_latencies(&mut encoder)
    }
}

/// In seconds: of all that was recorded, and by upper bound how often.
fn sum_and_buckets(histogram: &Histogram<u64>) -> (f64, Vec<(f64, u64)>) {
    let bounds = (0..BUCKETS as i32).map(|bucket| FIRST_BUCKET_S * 2f64.powi(bucket));
    let mut buckets: Vec<(f64, u64)> =
        bounds.chain([f64::INFINITY]).map(|bound_s| (bound_s, 0)).collect();
    let mut sum_s = 0.0;
    for step in histogram.iter_recorded() {
        let value_s = step.value_iterated_to() as f64 / 1e9;
        sum_s += value_s * step.count_at_value() as f64;
        if let Some((_, count)) = buckets.iter_mut().find(|(bound_s, _)| value_s <= *bound_s) {
            *count += step.count_at_value();
        }
    }
    (sum_s, buckets)
}

/// OpenMetrics names a counter without `_total` and has a line for units; the older format, the
/// only one that a Pushgateway reads, does not.
fn as_text(families: &str) -> String {
    let mut text = String::with_capacity(families.len());
    let mut help = "";
    for line in families.lines() {
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(name) = line.strip_prefix("# TYPE ") {
            let counter = name.strip_suffix(" counter");
            let named = counter.map(|name| format!("# HELP {name} "));
            match (counter, named.and_then(|front| help.strip_prefix(&front))) {
                (Some(name), Some(help)) => {
                    text += &format!("# HELP {name}_total {help}\n# TYPE {name}_total counter\n");
                }
                _ => text += &format!("{help}\n{line}\n"),
            }
        } else if !line.starts_with("# ") {
            text += &format!("{line}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::latency::Verb;

    #[test]
    fn every_series_is_there_with_its_type() {
        let live = Live::default();
        live.watch_closely();
        live.begin("pc \"10\"");
        live.add(Event::Sent, 7);
        live.add(Event::Opened, 2);
        live.record(Verb::Send, Duration::from_millis(1));
        live.record(Verb::Send, Duration::from_millis(100));
        live.stands(Standing { waiting: 5, ..Standing::default() });
        live.roll();

        let text = text(&live);

        for line in [
            "# TYPE millrace_bench_messages_total counter",
            "millrace_bench_messages_total{outcome=\"sent\"} 7",
            "millrace_bench_messages_per_second{outcome=\"sent\"} 7",
            "millrace_bench_connections_opened_total 2",
            "millrace_bench_messages_waiting 5",
            "millrace_bench_run_info{run=\"pc \\\"10\\\"\"} 1",
            "# TYPE millrace_bench_latency_seconds histogram",
            "millrace_bench_latency_seconds_count{operation=\"send\"} 2",
            "millrace_bench_latency_seconds_bucket{le=\"0.0016\",operation=\"send\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
        assert!(text.contains("quantile=\"0.99\"") && !text.contains("# UNIT"), "{text}");
    }
}
