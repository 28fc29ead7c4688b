//! Tokens: where the next page begins.
//!
//! ```text
//! base64url( version u8 | fingerprint u64 | walk u8 | part u8 | item i64 | key ), little-endian
//! ```

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use siphasher::sip::SipHasher13;

use std::hash::Hasher;

use super::Query;
use super::ast::Select;
use super::error::SelectError;

/// To be raised when walks are numbered in another way, or another order.
const VERSION: u8 = 1;
/// The longest key is a value or an item name; a forged token may have another.
const TOKEN_BYTES_MAX: usize = 4096;

/// Where a walk has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The number of the walk among those that the plan could choose.
    pub walk: u8,
    /// The number of the walk's part.
    pub part: u8,
    /// The value that the index is walked by, or the item's name.
    pub key: String,
    /// Zero if the key is the item's name.
    pub item: i64,
}

/// Stands for everything that decides which items are found, in which order.
pub(super) fn fingerprint(query: &Query<'_>, select: &Select) -> u64 {
    let mut hasher = SipHasher13::new();
    for text in [query.region, query.account, &select.to_string()] {
        hasher.write_u64(text.len() as u64);
        hasher.write(text.as_bytes());
    }
    hasher.finish()
}

impl Position {
    pub(super) fn to_token(&self, fingerprint: u64) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(fingerprint.to_le_bytes());
        bytes.extend([self.walk, self.part]);
        bytes.extend(self.item.to_le_bytes());
        bytes.extend(self.key.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(super) fn from_token(token: &str, fingerprint: u64) -> Result<Position, SelectError> {
        decode(token, fingerprint).ok_or(SelectError::Token)
    }
}

fn decode(token: &str, fingerprint: u64) -> Option<Position> {
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (version, rest) = bytes.split_first()?;
    let (found, rest) = rest.split_first_chunk()?;
    if *version != VERSION || u64::from_le_bytes(*found) != fingerprint {
        return None;
    }
    let ([walk, part], rest) = rest.split_first_chunk()?;
    let (item, key) = rest.split_first_chunk()?;
    let key = String::from_utf8(key.to_vec()).ok()?;
    Some(Position { walk: *walk, part: *part, key, item: i64::from_le_bytes(*item) })
}
