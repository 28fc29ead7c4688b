//! A metric as Prometheus scrapes it: its description, and behind that all its series.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// What the series of one name have in common. The encoder adds the unit to the name, and to that
/// of a counter `_total`. Errors are the encoder's.
pub struct Series<'a> {
    pub name: &'a str,
    pub help: &'a str,
    pub unit: Option<&'a Unit>,
}

impl<'a> Series<'a> {
    /// Of things that are counted.
    pub fn new(name: &'a str, help: &'a str) -> Series<'a> {
        Series { name, help, unit: None }
    }

    /// In bytes.
    pub fn bytes(name: &'a str, help: &'a str) -> Series<'a> {
        Series { name, help, unit: Some(&Unit::Bytes) }
    }

    /// In seconds.
    pub fn seconds(name: &'a str, help: &'a str) -> Series<'a> {
        Series { name, help, unit: Some(&Unit::Seconds) }
    }

    /// A value that goes up and down, without labels.
    pub fn gauge(self, encoder: &mut DescriptorEncoder<'_>, value: u64) -> fmt::Result {
        self.one(encoder, &ConstGauge::new(value))
    }

    /// A count that only grows, without labels.
    pub fn counter(self, encoder: &mut DescriptorEncoder<'_>, count: u64) -> fmt::Result {
        self.one(encoder, &ConstCounter::new(count))
    }

    /// A gauge for each set of labels.
    pub fn gauges<L: EncodeLabelSet>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let values = values.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.each(encoder, MetricType::Gauge, values)
    }

    /// A counter for each set of labels.
    pub fn counters<L: EncodeLabelSet>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        counts: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let counts = counts.into_iter().map(|(labels, count)| (labels, ConstCounter::new(count)));
        self.each(encoder, MetricType::Counter, counts)
    }

    fn one(self, encoder: &mut DescriptorEncoder<'_>, metric: &impl EncodeMetric) -> fmt::Result {
        let Series { name, help, unit } = self;
        metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
    }

    fn each<L: EncodeLabelSet, M: EncodeMetric>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        metric_type: MetricType,
        metrics: impl Iterator<Item = (L, M)>,
    ) -> fmt::Result {
        let Series { name, help, unit } = self;
        let mut family = encoder.encode_descriptor(name, help, unit, metric_type)?;
        for (labels, metric) in metrics {
            metric.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
