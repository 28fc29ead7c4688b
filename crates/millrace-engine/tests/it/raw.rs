//! Index parts by their bytes, as the format has them. The engine writes them only with the changes
//! that they record.

use millrace_core::{QueueId, Timestamp};
use millrace_engine::record::{MovedSlot, SlotSeq};
use millrace_engine::{Definition, Kind};

/// A message that is ready at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawSent<'a> {
    pub(crate) queue: QueueId,
    pub(crate) at: SlotSeq,
    pub(crate) sent: Timestamp,
    pub(crate) kind: Kind,
    pub(crate) group: Option<&'a str>,
}

impl RawSent<'_> {
    /// With the version of its content.
    pub(crate) fn index(&self, version: u8) -> Vec<u8> {
        [&[16, version], &self.fields()[..]].concat()
    }

    /// As it was written before contents had versions.
    pub(crate) fn index_before_versions(&self) -> Vec<u8> {
        [&[1], &self.fields()[..]].concat()
    }

    /// As relocated, never received.
    pub(crate) fn relocated(&self, version: u8) -> Vec<u8> {
        [&[17, version], &self.fields()[..], &self.never_received()].concat()
    }

    /// As relocated before contents had versions.
    pub(crate) fn relocated_before_versions(&self) -> Vec<u8> {
        [&[10], &self.fields()[..], &self.never_received()].concat()
    }

    /// Times and count of receives, the state ready, no source, and when it was first sent.
    fn never_received(&self) -> Vec<u8> {
        let sent = self.sent.0.to_le_bytes();
        [&sent[..], &[0; 8], &[0; 4], &[2], &[0; 2], &sent].concat()
    }

    fn fields(&self) -> Vec<u8> {
        let mut out = self.queue.0.to_le_bytes().to_vec();
        out.extend(slot(self.at));
        out.extend([self.sent.0.to_le_bytes(), [0; 8]].concat());
        out.extend([0; 16]);
        out.push(u8::from(self.kind == Kind::Fifo));
        match self.group {
            Some(group) => out.extend(text(group)),
            None => out.extend([255; 2]),
        }
        out.extend([0; 16]);
        out
    }
}

pub(crate) fn moved(from: QueueId, to: QueueId, at: Timestamp, slots: &[MovedSlot]) -> Vec<u8> {
    let mut out = vec![6];
    out.extend([from.0, to.0, at.0].map(u64::to_le_bytes).concat());
    out.extend(text("arn"));
    out.extend((slots.len() as u32).to_le_bytes());
    for moved in slots {
        out.extend([slot(moved.from), slot(moved.to)].concat());
    }
    out
}

pub(crate) fn defined(definition: &Definition) -> Vec<u8> {
    [vec![8], serde_json::to_vec(definition).expect("definitions are JSON")].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

fn slot(at: SlotSeq) -> Vec<u8> {
    [&at.slot.to_le_bytes()[..], &at.seq.to_le_bytes()].concat()
}
