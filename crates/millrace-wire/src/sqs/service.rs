//! Amazon SQS as requests show it.

use super::types::ACTIONS;
use crate::protocol::{ErrorXml, NOTHING, Protocol, ServiceMetadata};

/// The service.
pub static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "sqs",
    title: "SQS",
    scope: "sqs",
    legacy_host: Some("queue"),
    target_prefix: Some("AmazonSQS"),
    // Requests of the older ones are subsets.
    versions: &["2012-11-05", "2011-10-01", "2009-02-01", "2008-01-01"],
    protocols: &[Protocol::Json, Protocol::Query, Protocol::QueryAsJson],
    clue_actions: &ACTIONS,
    clue_parameters: &["QueueUrl", "QueueName"],
    xml_namespace: "http://queue.amazonaws.com/doc/2012-11-05/",
    error_xml: ErrorXml::WithDetail,
    ..NOTHING
};
