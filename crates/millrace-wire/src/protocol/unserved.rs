//! Services whose requests are recognised although nothing serves them yet: so a request with a
//! signature for one of them is not taken for another's, and its error has the right name space.

use super::metadata::{JSON_1_1, NOTHING, Protocol, ServiceMetadata};
use crate::codec::Fractions;

/// All of them.
pub static UNSERVED: [&ServiceMetadata; 3] = [&CLOUD_FORMATION, &IAM, &KMS];

static CLOUD_FORMATION: ServiceMetadata = ServiceMetadata {
    name: "cloudformation",
    title: "CloudFormation",
    scope: "cloudformation",
    versions: &["2010-05-15"],
    clue_actions: &["CreateStack", "DeleteStack", "DescribeStacks", "UpdateStack"],
    xml_namespace: "http://cloudformation.amazonaws.com/doc/2010-05-15/",
    // CDK and SAM compare the texts of events' times.
    xml_fractions: Fractions::Always,
    ..NOTHING
};

static IAM: ServiceMetadata = ServiceMetadata {
    name: "iam",
    title: "IAM",
    scope: "iam",
    versions: &["2010-05-08"],
    xml_namespace: "https://iam.amazonaws.com/doc/2010-05-08/",
    ..NOTHING
};

static KMS: ServiceMetadata = ServiceMetadata {
    name: "kms",
    title: "KMS",
    scope: "kms",
    target_prefix: Some("TrentService"),
    protocols: &[Protocol::Json],
    json_content_type: JSON_1_1,
    has_empty_json: true,
    ..NOTHING
};
