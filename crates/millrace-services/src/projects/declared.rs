//! Projects declared in the configuration. They are not kept: without its declaration, a token is
//! not valid any more.

use super::token::TokenHash;

/// A project of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredProject {
    pub id: String,
    pub region: String,
    /// Twelve digits.
    pub account: String,
    pub tokens: Vec<DeclaredToken>,
}

/// A token of the configuration: its name and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredToken {
    pub name: String,
    pub(super) hash: TokenHash,
}

impl DeclaredToken {
    /// Hashes the token.
    pub fn new(name: &str, token: &str) -> DeclaredToken {
        DeclaredToken { name: name.to_owned(), hash: TokenHash::of(token) }
    }
}
