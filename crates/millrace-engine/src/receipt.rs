//! Receipt handles: opaque, sealed tokens of one receive.
//!
//! ```text
//! queue incarnation u64 | sequence u64 | slot u32 | receive count u32 | SipHash-2-4-128 of it all
//! ```
//! 40 bytes, shown as 54 characters of unpadded base64url. A `-` in the first place is written `.`,
//! since command lines take words that begin with `-` for options; it is read as either. The key is
//! drawn once per data directory and journaled, so handles survive restarts and cannot be guessed.

use std::borrow::Cow;
use std::hash::Hasher;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millrace_core::{QueueId, ShardId};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::record::{DecodeError, Input, Records};
use crate::replay::Replay;

pub(crate) const SECRET: u8 = 13;

/// What a receipt handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub queue: QueueId,
    pub seq: u64,
    pub slot: u32,
    /// The lease epoch: which receive of the message the handle belongs to.
    pub receive_count: u32,
}

/// A receipt handle that may be forged.
pub struct SealedHandle([u8; 40]);

/// Seals and opens receipt handles; also hashes deduplication ids.
#[derive(Clone, Copy)]
pub struct ReceiptKey([u8; 16]);

impl ReceiptKey {
    pub fn new(secret: [u8; 16]) -> ReceiptKey {
        ReceiptKey(secret)
    }

    /// The handle's text.
    pub fn seal(&self, handle: &Handle) -> String {
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&handle.queue.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&handle.seq.to_le_bytes());
        bytes[16..20].copy_from_slice(&handle.slot.to_le_bytes());
        bytes[20..24].copy_from_slice(&handle.receive_count.to_le_bytes());
        let mac = self.hash(&bytes[..24]).to_le_bytes();
        bytes[24..].copy_from_slice(&mac);
        let mut text = URL_SAFE_NO_PAD.encode(bytes);
        if text.starts_with('-') {
            text.replace_range(..1, ".");
        }
        text
    }

    /// The handle that `text` holds; `None` if this key did not seal it.
    pub fn open(&self, text: &str) -> Option<Handle> {
        SealedHandle::parse(text)?.open(self)
    }

    /// Keyed 128-bit hash: the same for the same bytes, unguessable without the key.
    pub fn hash(&self, bytes: &[u8]) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }
}

impl SealedHandle {
    /// `None` if the text is not of the form of a receipt handle.
    pub fn parse(text: &str) -> Option<SealedHandle> {
        if text.len() != 54 {
            return None;
        }
        let text = match text.strip_prefix('.') {
            Some(behind) => Cow::Owned(format!("-{behind}")),
            None => Cow::Borrowed(text),
        };
        let mut bytes = [0; 40];
        let decoded = URL_SAFE_NO_PAD.decode_slice(&*text, &mut bytes);
        (decoded == Ok(bytes.len())).then_some(SealedHandle(bytes))
    }

    /// The shard whose key has sealed it, if any has.
    pub fn shard(&self) -> ShardId {
        ShardId(self.0[7])
    }

    /// The handle, if this key sealed it.
    pub fn open(&self, key: &ReceiptKey) -> Option<Handle> {
        let (said, mac) = self.0.split_at(24);
        // Comparing 128-bit integers takes the same time wherever they differ.
        if u128::from_le_bytes(*mac.first_chunk()?) != key.hash(said) {
            return None;
        }
        Some(Handle {
            queue: QueueId(u64::from_le_bytes(*said.first_chunk()?)),
            seq: u64::from_le_bytes(*said.get(8..)?.first_chunk()?),
            slot: u32::from_le_bytes(*said.get(16..)?.first_chunk()?),
            receive_count: u32::from_le_bytes(*said.get(20..)?.first_chunk()?),
        })
    }
}

/// The secret that keys are made of, as journaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretRecord {
    pub secret: [u8; 16],
}

impl SecretRecord {
    /// Adds the record.
    pub fn write(&self, records: &mut Records<'_>) {
        records.add(SECRET, self.secret.len(), &[], |out| out.bytes(&self.secret));
    }

    pub(crate) fn read(from: &mut Input<'_>) -> Result<SecretRecord, DecodeError> {
        Ok(SecretRecord { secret: from.array()? })
    }

    pub(crate) fn replay(&self, replay: &mut Replay, position: u64) {
        replay.secret = Some((self.secret, position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: Handle = Handle { queue: QueueId(9), seq: 1 << 41, slot: 77, receive_count: 3 };

    #[test]
    fn a_handle_names_the_shard_that_sealed_it() {
        let handle = Handle { queue: QueueId(3 << 56 | 9), ..HANDLE };
        let text = ReceiptKey::new([1; 16]).seal(&handle);

        assert_eq!(SealedHandle::parse(&text).unwrap().shard(), ShardId(3));
    }

    #[test]
    fn handle_round_trips() {
        let key = ReceiptKey::new([1; 16]);

        assert_eq!(key.open(&key.seal(&HANDLE)), Some(HANDLE));
    }

    #[test]
    fn no_handle_begins_with_a_dash_and_those_that_did_open() {
        let key = ReceiptKey::new([1; 16]);
        for id in 0..=512 {
            let handle = Handle { queue: QueueId(id), ..HANDLE };

            let sealed = key.seal(&handle);

            let first = sealed.chars().next().unwrap();
            assert!(first.is_ascii_alphanumeric() || "._".contains(first), "{sealed}");
            assert_eq!(sealed.len(), 54);
            assert_eq!(key.open(&sealed), Some(handle));
            // As versions before this rule wrote it.
            assert_eq!(key.open(&sealed.replacen('.', "-", 1)), Some(handle));
        }
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let key = ReceiptKey::new([1; 16]);
        let sealed = key.seal(&HANDLE);
        for at in 0..sealed.len() {
            for other in ["A", "_", "!", "0"] {
                let mut changed = sealed.clone();
                changed.replace_range(at..=at, other);
                assert_eq!(key.open(&changed).is_some(), changed == sealed, "{changed}");
            }
        }
    }

    #[test]
    fn foreign_and_garbage_handles_do_not_open() {
        let key = ReceiptKey::new([1; 16]);
        assert_eq!(key.open(&ReceiptKey::new([2; 16]).seal(&HANDLE)), None);
        for text in
            ["", ".", "..", "garbage", "é", &".".repeat(54), &"A".repeat(54), &"A".repeat(2000)]
        {
            assert_eq!(key.open(text), None, "{text}");
        }
    }
}
