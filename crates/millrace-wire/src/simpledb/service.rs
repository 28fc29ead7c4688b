//! Amazon SimpleDB as requests show it.

use super::refusal::auth_refusal;
use crate::protocol::{ErrorXml, NOTHING, Protocol, ServiceMetadata};

/// The service.
pub static SERVICE: ServiceMetadata = ServiceMetadata {
    name: "simpledb",
    title: "SimpleDB",
    scope: "sdb",
    versions: &["2009-04-15"],
    protocols: &[Protocol::Query],
    clue_actions: &[
        "BatchDeleteAttributes",
        "BatchPutAttributes",
        "CreateDomain",
        "DeleteAttributes",
        "DeleteDomain",
        "DomainMetadata",
        "GetAttributes",
        "ListDomains",
        "PutAttributes",
        "Select",
    ],
    xml_namespace: "http://sdb.amazonaws.com/doc/2009-04-15/",
    error_xml: ErrorXml::OfSimpleDb,
    auth_refusal,
    ..NOTHING
};
