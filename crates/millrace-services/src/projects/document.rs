//! A project as it is kept.

use millrace_broker::Collection;
use serde::{Deserialize, Serialize};

use super::token::TokenHash;

pub(super) const PROJECTS: Collection<ProjectDocument> =
    Collection::new("projects", |project| project.id.clone());

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProjectDocument {
    pub id: String,
    pub region: String,
    pub account: String,
    pub created_ms: u64,
    #[serde(default)]
    pub tokens: Vec<TokenDocument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenDocument {
    /// The name for revoking it, which opens nothing.
    pub id: String,
    #[serde(default)]
    pub label: String,
    pub hash: TokenHash,
    pub created_ms: u64,
}
