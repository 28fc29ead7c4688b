//! Identifiers. They are drawn outside (randomness is an argument) and only formatted here.

use std::fmt;

use crate::digest::hex;

/// One incarnation of a queue: a queue deleted and created again has another id, so that receipt
/// handles of the first do not fit the second. Never reused within a data directory.
///
/// ```text
/// shard u8 | epoch u16 | number u40
/// ```
/// Sequences of messages are made up in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u64);

/// A shard: one journal and the queues in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u8);

impl QueueId {
    /// The shard that the queue is in.
    pub fn shard(self) -> ShardId {
        ShardId((self.0 >> 56) as u8)
    }
}

impl ShardId {
    /// Epochs of one journal: the 16 bits that ids have for them.
    pub const EPOCHS: u64 = 1 << 16;

    /// The first queue id, and the first sequence, of an epoch of the shard's journal. `None` if
    /// ids have no room for that epoch.
    pub fn first_id(self, epoch: u64) -> Option<u64> {
        (epoch < ShardId::EPOCHS).then(|| u64::from(self.0) << 56 | epoch << 40)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// 128 bits, shown as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub [u8; 16]);

impl MessageId {
    /// A version 4 UUID from 128 random bits.
    pub fn from_random(random: u128) -> MessageId {
        let mut bytes = random.to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        MessageId(bytes)
    }

    /// The 36 characters of the UUID text form.
    pub fn text(&self) -> [u8; 36] {
        let digits = hex(&self.0);
        let mut out = [b'-'; 36];
        out[..8].copy_from_slice(&digits[..8]);
        out[9..13].copy_from_slice(&digits[8..12]);
        out[14..18].copy_from_slice(&digits[12..16]);
        out[19..23].copy_from_slice(&digits[16..20]);
        out[24..].copy_from_slice(&digits[20..]);
        out
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_shard_and_epoch() {
        assert_eq!(ShardId(0).first_id(1), Some(1 << 40));
        assert_eq!(ShardId(3).first_id(0xffff), Some(0x03ff_ff00_0000_0000));
        assert_eq!(ShardId(255).first_id(0x1_0000), None);
        assert_eq!(QueueId(0x03ff_ff00_0000_0007).shard(), ShardId(3));
        assert_eq!(QueueId(7).shard(), ShardId(0));
    }

    #[test]
    fn message_id_is_a_version_4_uuid() {
        assert_eq!(MessageId::from_random(0).to_string(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(
            MessageId::from_random(u128::MAX).to_string(),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
        assert_eq!(
            MessageId::from_random(0x0123456789abcdef0123456789abcdef).to_string(),
            "01234567-89ab-4def-8123-456789abcdef"
        );
    }
}
