//! Amazon CloudWatch as requests show it.

use crate::protocol::{ErrorXml, Protocol, ServiceMetadata};

/// The service.
pub static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "cloudwatch",
    title: "CloudWatch",
    scope: "monitoring",
    legacy_host: None,
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
    clue_parameters: &[],
    xml_namespace: "http://monitoring.amazonaws.com/doc/2010-08-01/",
    error_xml: ErrorXml::Plain,
};
