//! Tokens: the hash that is kept of one, and new ones.

use std::fmt;

use millrace_core::{hex_text, sha256_hex};
use millrace_wire::sigv4::equal_in_constant_time;
use serde::{Deserialize, Serialize};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 20;
/// Random bytes of the id by which a token is revoked.
const ID_BYTES: usize = 4;

/// The SHA-256 of a token, as hexadecimal digits. Tokens are random and long, so that a slow hash
/// would protect nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenHash(String);

impl TokenHash {
    pub(super) fn of(token: &str) -> TokenHash {
        TokenHash(sha256_hex(token.as_bytes()))
    }

    /// Compares in a time that says nothing about where two hashes differ.
    pub(super) fn is(&self, other: &TokenHash) -> bool {
        equal_in_constant_time(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenHash")
    }
}

/// A token that nobody can guess, and an id for it.
pub(super) fn new_token() -> Result<(String, String), getrandom::Error> {
    let mut token = [0; TOKEN_BYTES];
    let mut id = [0; ID_BYTES];
    getrandom::fill(&mut token)?;
    getrandom::fill(&mut id)?;
    Ok((hex_text(&token), hex_text(&id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_matches_its_token_only_and_does_not_show_it() {
        let hash = TokenHash::of("secret");
        assert!(hash.is(&TokenHash::of("secret")));
        for other in ["", "Secret", "secret ", &hash.0] {
            assert!(!hash.is(&TokenHash::of(other)), "{other}");
        }
        let shown = format!("{hash:?} {}", serde_json::to_string(&hash).unwrap());
        assert!(!shown.contains("secret"));
    }

    #[test]
    fn each_token_is_another() {
        let (first, second) = (new_token().unwrap(), new_token().unwrap());
        assert_eq!((first.0.len(), first.1.len()), (40, 8));
        assert!(first.0 != second.0);
    }
}
