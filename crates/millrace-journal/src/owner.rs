//! The owner of an epoch: the one record of an OPEN frame, which the journal keeps to itself.
//!
//! ```text
//!  0         1        17             25           27
//!  ┌─────────┬────────┬──────────────┬────────────┬──────┬─────┐
//!  │ version │ nonce  │ opened_at_ms │ node_len   │ node │ url │
//!  │ u8 = 1  │        │ u64 LE       │ u16 LE     │      │     │
//!  └─────────┴────────┴──────────────┴────────────┴──────┴─────┘
//! ```
//! It is the record's index; the payload is empty, and the record's CRC is inverted, so that a gap
//! that `repair` puts over the frame never keeps it among its records. Without the nonce, two owners that open behind
//! the same frame would write the same bytes, and each would take the other's frame for its own.
//! OPEN frames of earlier versions, and those that `repair` writes, have no record.

use bytes::{BufMut, Bytes, BytesMut};

use crate::frame::{FRAME_HEADER_BYTES, padding};
use crate::record::{Record, records};

const VERSION: u8 = 1;
const FIXED_BYTES: usize = 1 + 16 + 8 + 2;

/// A longer name or URL is left out.
pub const OWNER_TEXT_BYTES_MAX: usize = 1024;

/// The process that starts an epoch, as the log tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Random: no two openings share it.
    pub nonce: [u8; 16],
    /// Name of the node, for people. May be empty.
    pub node: String,
    /// Where other nodes reach it. May be empty.
    pub url: String,
    /// Wall time of the opening, in milliseconds since 1970.
    pub opened_at_ms: u64,
}

impl Owner {
    /// An owner that nobody asks for: of tests and tools.
    #[must_use]
    pub fn unnamed(nonce: u128) -> Self {
        let nonce = nonce.to_le_bytes();
        Self { nonce, node: String::new(), url: String::new(), opened_at_ms: 0 }
    }

    /// The owner that the body of an OPEN frame names. None without a record, or with one of a
    /// later version.
    #[must_use]
    pub fn decode(body: &[u8]) -> Option<Self> {
        let (_, record) = records(body).next()?;
        let (version, rest) = record.index.split_first()?;
        if *version != VERSION {
            return None;
        }
        let (nonce, rest) = rest.split_first_chunk::<16>()?;
        let (opened_at_ms, rest) = rest.split_first_chunk::<8>()?;
        let (node_len, rest) = rest.split_first_chunk::<2>()?;
        let (node, url) = rest.split_at_checked(u16::from_le_bytes(*node_len).into())?;
        Some(Self {
            nonce: *nonce,
            node: String::from_utf8(node.to_vec()).ok()?,
            url: String::from_utf8(url.to_vec()).ok()?,
            opened_at_ms: u64::from_le_bytes(*opened_at_ms),
        })
    }

    /// Length of the OPEN frame.
    #[must_use]
    pub fn frame_bytes(&self) -> u32 {
        (FRAME_HEADER_BYTES + self.body().len()) as u32
    }

    /// The body of the OPEN frame: one record and its padding.
    #[must_use]
    pub(crate) fn body(&self) -> Bytes {
        let (node, url) = (bounded(&self.node), bounded(&self.url));
        let mut index = Vec::with_capacity(FIXED_BYTES + node.len() + url.len());
        index.put_u8(VERSION);
        index.put_slice(&self.nonce);
        index.put_u64_le(self.opened_at_ms);
        index.put_u16_le(node.len() as u16);
        index.put_slice(node.as_bytes());
        index.put_slice(url.as_bytes());
        let record = Record { index: &index, payload: &[] };
        let mut header = record.header();
        header.iter_mut().take(4).for_each(|byte| *byte = !*byte);
        let mut body = BytesMut::new();
        record.encode(&header, &mut body);
        body.put_bytes(0, padding(body.len()));
        body.freeze()
    }
}

fn bounded(text: &str) -> &str {
    if text.len() <= OWNER_TEXT_BYTES_MAX { text } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_reads_back_as_it_was_written() {
        let owner = Owner {
            nonce: [7; 16],
            node: "node-1".into(),
            url: "http://10.0.0.1:4566".into(),
            opened_at_ms: 1_700_000_000_000,
        };

        assert_eq!(Owner::decode(&owner.body()), Some(owner.clone()));
        assert_eq!(owner.frame_bytes() % 8, 0);
        assert_eq!(Owner::decode(&[]), None, "as earlier versions wrote it");
        let mut of_later_version = BytesMut::from(&owner.body()[..]);
        of_later_version[12] = VERSION + 1;
        assert_eq!(Owner::decode(&of_later_version), None);
    }

    #[test]
    fn a_name_that_is_too_long_is_left_out() {
        let long = "n".repeat(OWNER_TEXT_BYTES_MAX + 1);
        let owner = Owner { node: long.clone(), url: long, ..Owner::unnamed(1) };

        assert_eq!(Owner::decode(&owner.body()), Some(Owner::unnamed(1)));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let body = Owner { node: "node".into(), ..Owner::unnamed(1) }.body();
        for at in 0..body.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = BytesMut::from(&body[..]);
                bytes[at] = value;
                let _ = Owner::decode(&bytes);
                let _ = Owner::decode(&bytes[..at]);
            }
        }
    }
}
