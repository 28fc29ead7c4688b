//! The two protocols that SQS speaks.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How requests are written and answers read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// AWS JSON 1.0: what Amazon's own libraries speak today.
    #[default]
    Json,
    /// AWS Query: forms as requests, XML as answers. Older servers speak nothing else.
    Query,
}

impl Protocol {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Protocol::Json => "application/x-amz-json-1.0",
            Protocol::Query => "application/x-www-form-urlencoded",
        }
    }
}

/// `json` or `query`.
impl FromStr for Protocol {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Protocol, &'static str> {
        match text {
            "json" => Ok(Protocol::Json),
            "query" => Ok(Protocol::Query),
            _ => Err("neither json nor query"),
        }
    }
}
