//! The room that the log has left, as its owner counts it.
//!
//! The log is asked once for each segment, and what it said is counted down, for the times when it
//! does not answer.

use std::time::Duration;

use millrace_journal::SegmentId;

/// Kept free beyond what was granted, for OPEN frames and the log's own overhead.
const KEPT_SEGMENTS: u64 = 2;
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Room {
    segment_bytes: u32,
    /// That the log was last heard to have, less what was appended since.
    left_bytes: u64,
    /// When there was too little.
    refused_at: Option<Duration>,
}

impl Room {
    pub(crate) fn new(segment_bytes: u32) -> Self {
        Self { segment_bytes, left_bytes: 0, refused_at: None }
    }

    pub(crate) fn take(&mut self, bytes: u32) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes.into());
    }

    /// Returns true if there is too little for all segments up to `segment` behind the active one.
    pub(crate) fn lacks(&self, segment: SegmentId, active: SegmentId) -> bool {
        let segments = u64::from(segment.0.saturating_sub(active.0)) + KEPT_SEGMENTS;
        self.left_bytes < segments * u64::from(self.segment_bytes)
    }

    /// Returns true if the log is to be asked again. One that is full is, about once a second.
    pub(crate) fn may_ask(&self, now: Duration) -> bool {
        self.refused_at.is_none_or(|refused_at| now >= refused_at + ASK_AGAIN_AFTER)
    }

    /// Notes whether there was too little.
    pub(crate) fn note(&mut self, is_lacking: bool, now: Duration) {
        if !is_lacking {
            self.refused_at = None;
        } else if self.may_ask(now) {
            self.refused_at = Some(now);
        }
    }

    /// It answered. What was appended meanwhile is not counted; there is enough kept for that.
    pub(crate) fn set(&mut self, left_bytes: u64) {
        self.left_bytes = left_bytes;
    }
}
