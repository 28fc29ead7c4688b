//! Amazon CloudWatch as requests show it.

use crate::protocol::{NOTHING, Protocol, ServiceMetadata};

/// The service.
pub static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "cloudwatch",
    title: "CloudWatch",
    scope: "monitoring",
    target_prefix: Some("GraniteServiceVersion20100801"),
    versions: &["2010-08-01"],
    protocols: &[Protocol::Json, Protocol::Query, Protocol::QueryAsJson, Protocol::Cbor],
    clue_actions: &[
        "DescribeAlarms",
        "GetMetricData",
        "GetMetricStatistics",
        "ListMetrics",
        "PutMetricAlarm",
        "PutMetricData",
    ],
    xml_namespace: "http://monitoring.amazonaws.com/doc/2010-08-01/",
    ..NOTHING
};
