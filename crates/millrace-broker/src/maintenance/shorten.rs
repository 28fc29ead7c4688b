//! Keeps the log short: drops segments that nothing needs and moves stragglers out of the oldest.
//!
//! Only the tail of the log goes, so a delete always outlives the send that it cancels. What still
//! counts in a segment about to go (definitions, tasks, remembered sends, the secret) is appended
//! again first, and what is held (`holds`) stays. When the log is longer than twice the live bytes
//! plus a slack, the live messages of the oldest segment are appended again, too.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_core::Timestamp;
use millrace_engine::record::{Records, SecretRecord};
use millrace_journal::record::RECORD_HEADER_BYTES;
use millrace_journal::{Purpose, SegmentId, SegmentInfo, Ticket, Unavailable};

use super::remember::{REMEMBERED_BYTES, Remembering};
use super::{LONGEST_PAUSE, PAUSE};
use crate::append::append_one;
use crate::catalog::Catalog;
use crate::common::Common;
use crate::error::BrokerError;
use crate::kept::Kept;
use crate::move_task::MoveTasks;
use crate::queue::{SharedQueue, new_definition};

/// Until a commit under way is looked at again.
pub(super) const COMMIT_PAUSE: Duration = Duration::from_millis(5);
/// Until sends that are remembered for five minutes are fewer, or the log is longer.
const REST_MS: u64 = 10_000;
/// Bytes of a definition's record beside its index, and of a frame of its own.
const DEFINITION_OVERHEAD_BYTES: usize = RECORD_HEADER_BYTES + 64;

/// Keeps the journal of one shard short.
pub(crate) struct Truncation {
    pub(super) common: Arc<Common>,
    pub(super) catalog: Arc<Catalog>,
    kept: Arc<Kept>,
    move_tasks: Arc<MoveTasks>,
    state: Mutex<LogState>,
}

/// How far the log is looked after.
pub(super) struct LogState {
    secret: ([u8; 16], u64),
    /// What must be committed before all segments before that one may go.
    pub(super) pending: Option<(Ticket, SegmentId)>,
    /// Ticket of the latest piece that was appended again.
    pub(super) appended: Option<Ticket>,
    pub(super) remembering: Option<Remembering>,
    /// Until then remembered sends are left where they are.
    rests_until: Timestamp,
    /// A segment that is to go, and since when something in it could not be read.
    unreadable: Option<(SegmentId, Timestamp)>,
}

/// Whether what is not a message was appended again.
enum Again {
    /// All but the remembered sends, which follow piece by piece.
    Begun,
    /// Not before further segments can go with these: their messages are to be moved first.
    WhenMoreIsFreed,
    /// No further segment can be had, and what is left of the active one is too little.
    NoRoom,
    Later,
}

impl LogState {
    fn new(secret: ([u8; 16], u64)) -> LogState {
        LogState {
            secret,
            pending: None,
            appended: None,
            remembering: None,
            rests_until: Timestamp(0),
            unreadable: None,
        }
    }
}

impl Truncation {
    pub(crate) fn new(
        common: Arc<Common>,
        catalog: Arc<Catalog>,
        (kept, move_tasks): (Arc<Kept>, Arc<MoveTasks>),
        secret: ([u8; 16], u64),
    ) -> Truncation {
        let state = Mutex::new(LogState::new(secret));
        Truncation { common, catalog, kept, move_tasks, state }
    }

    /// Drops and moves what it can. Returns how soon to look again.
    pub(crate) fn look(&self) -> Duration {
        self.shorten_log().unwrap_or_else(|error| {
            tracing::warn!(%error, "the log could not be shortened");
            PAUSE
        })
    }

    fn shorten_log(&self) -> Result<Duration, BrokerError> {
        let mut log = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.waits_for_commit(&mut log) {
            return Ok(COMMIT_PAUSE);
        }
        if let Some(remembering) = log.remembering.take() {
            return self.remember_again(&mut log, remembering);
        }
        let rest_ms = log.rests_until.millis_since(self.common.now());
        if rest_ms > 0 {
            return Ok(Duration::from_millis(rest_ms));
        }
        let (segments, queues) = self.log_and_queues();
        // Also if nothing can go: those who were refused may have given up, and nobody else would
        // find out that there is room again.
        let lacks_segment = self.lacks_segment();
        // Looked at again even if nobody asks: what makes the log longer may not tell.
        let [oldest, .., active] = segments.as_slice() else { return Ok(LONGEST_PAUSE) };
        let active = active.id;
        let (live_bytes, mut boundary) = self.live(&queues, active);
        let held = self.common.holds.oldest_segment().unwrap_or(active);
        boundary = boundary.min(held);
        let mut straggling = oldest.id;
        if boundary > oldest.id {
            let mut again = self.append_catalog_again(&mut log, &queues, &segments, boundary)?;
            if matches!(again, Again::NoRoom) {
                // One segment less has to be made, and less stands before that one.
                boundary = oldest.id.next();
                again = self.append_catalog_again(&mut log, &queues, &segments, boundary)?;
            }
            match again {
                Again::Begun => return Ok(Duration::ZERO),
                Again::WhenMoreIsFreed if boundary < active => straggling = boundary,
                Again::WhenMoreIsFreed | Again::NoRoom | Again::Later => {
                    log.rests_until = self.common.now().plus_millis(REST_MS);
                    return Ok(Duration::from_millis(REST_MS));
                }
            }
        }
        if straggling >= held {
            // Moved messages would free nothing.
            return Ok(LONGEST_PAUSE);
        }
        let log_bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        // Where no further segment can be had there is no slack: it is what is wanted.
        let slack_bytes = if lacks_segment { 0 } else { self.common.options.slack_bytes };
        let is_long = log_bytes > live_bytes.saturating_mul(2).saturating_add(slack_bytes);
        let is_worth_it = if lacks_segment {
            let straggling_bytes = live_bytes_in(&queues, straggling);
            // However much is live behind it: a few messages must not keep a full disk full.
            (is_long || is_half_dead(&segments, straggling, straggling_bytes))
                && self.has_room_for(straggling_bytes)
        } else {
            is_long
        };
        if is_worth_it {
            self.relocate_messages(straggling, &mut log.unreadable)?;
            log.appended = Some(self.common.log.latest());
            return Ok(COMMIT_PAUSE);
        }
        Ok(LONGEST_PAUSE)
    }

    pub(super) fn queues(&self) -> Vec<Arc<SharedQueue>> {
        self.catalog.of_shard(self.common.shard)
    }

    /// Whether what was appended for the log's sake is still on its way. Once it is there, the
    /// segments that it stands for go.
    fn waits_for_commit(&self, log: &mut LogState) -> bool {
        if let Some((ticket, boundary)) = log.pending {
            let Some(outcome) = self.common.log.outcome(ticket) else { return true };
            log.pending = None;
            // Who has begun to hold it meanwhile keeps it.
            let boundary =
                self.common.holds.oldest_segment().map_or(boundary, |held| held.min(boundary));
            if outcome.is_ok()
                && let Err(error) = self.common.log.truncate_before(boundary)
            {
                tracing::warn!(%error, "old segments could not be dropped");
            }
        }
        if log.appended.is_some_and(|ticket| self.common.log.outcome(ticket).is_none()) {
            return true;
        }
        log.appended = None;
        false
    }

    /// Segments, and the queues that may need them. What a message's move takes to a queue that is
    /// made later is told from here on.
    fn log_and_queues(&self) -> (Vec<SegmentInfo>, Vec<Arc<SharedQueue>>) {
        self.common.moved_from.store(u32::MAX, Ordering::Release);
        // A queue that is being made is in the log before it is in the catalog.
        let _changes = self.catalog.changes();
        (self.common.log.segments(), self.queues())
    }

    /// Bytes that messages need, and the oldest segment that one is in, `active` if there is none.
    fn live(&self, queues: &[Arc<SharedQueue>], active: SegmentId) -> (u64, SegmentId) {
        // Queues are looked at one after the other: what moves on meanwhile from one that is still
        // to come to one that was seen already, or is not among them, tells of itself.
        let (mut live_bytes, mut oldest) = (0, active);
        for queue in queues {
            let state = queue.lock();
            live_bytes += state.queue.live_bytes();
            if let Some(segment) = state.queue.oldest_segment() {
                oldest = oldest.min(SegmentId(segment));
            }
        }
        let moved_from = self.common.moved_from.load(Ordering::Acquire);
        (live_bytes, oldest.min(SegmentId(moved_from)))
    }

    fn lacks_segment(&self) -> bool {
        let asked = self.common.log.reserve(0, Purpose::Store);
        matches!(asked, Err(Unavailable::DiskFull | Unavailable::TooManyFiles))
    }

    /// Whether all messages of a segment fit into what is left on a full disk. A part frees
    /// nothing, and takes the room of those who could free the rest by receiving and deleting.
    fn has_room_for(&self, live_bytes: u64) -> bool {
        // Records grow when they are appended again.
        let bytes = live_bytes + live_bytes / 4;
        self.common.log.reserve(bytes as usize, Purpose::Relocate).is_ok()
    }

    /// Appends again what is not a message and stands before `boundary`.
    fn append_catalog_again(
        &self,
        log: &mut LogState,
        queues: &[Arc<SharedQueue>],
        segments: &[SegmentInfo],
        boundary: SegmentId,
    ) -> Result<Again, BrokerError> {
        let last = boundary.0.saturating_sub(1);
        let is_before = |position: u64| (position >> 32) < u64::from(boundary.0);
        let (mut sends, mut definition_bytes) = (0, self.kept.bytes_before(is_before));
        for queue in queues {
            let state = queue.lock();
            if is_before(state.definition_position) {
                let definition = queue.definition();
                let index_bytes = new_definition(&definition, &state.queue)?.index_bytes();
                definition_bytes += (DEFINITION_OVERHEAD_BYTES + index_bytes) as u64;
            }
            sends += state.queue.remembered_count_to(last);
        }
        let freed = segments.iter().filter(|segment| segment.id < boundary);
        let freed_bytes: u64 = freed.map(|segment| segment.bytes).sum();
        // Copying more than a third would hardly free anything, and again and again.
        if definition_bytes > freed_bytes / 3 {
            return Ok(Again::WhenMoreIsFreed);
        }
        let bytes = sends * REMEMBERED_BYTES + definition_bytes;
        if bytes > freed_bytes / 3 {
            return Ok(Again::Later); // Sends expire soon.
        }
        // Begun and not ended, it would take what is left for deletes, and free nothing.
        if self.lacks_segment()
            && self.common.log.reserve(bytes as usize, Purpose::Reclaim).is_err()
        {
            return Ok(Again::NoRoom);
        }
        if is_before(log.secret.1) {
            let mut records = Records::default();
            SecretRecord { secret: log.secret.0 }.write(&mut records);
            log.secret.1 = self.append_again(&records)?;
        }
        for queue in queues {
            let mut state = queue.lock();
            if !state.is_deleted && is_before(state.definition_position) {
                let mut records = Records::default();
                new_definition(&queue.definition(), &state.queue)?.write(&mut records);
                state.definition_position = self.append_again(&records)?;
            }
        }
        self.move_tasks.forget_ended_tasks()?;
        self.kept.append_again(is_before, |records| self.append_again(records))?;
        log.remembering = Some(Remembering::new(queues, boundary));
        Ok(Again::Begun)
    }

    fn append_again(&self, records: &Records<'_>) -> Result<u64, BrokerError> {
        let (_, position) = append_one(&self.common.log, Purpose::Reclaim, records)?;
        Ok(position)
    }
}

/// Bytes of a segment that messages need.
fn live_bytes_in(queues: &[Arc<SharedQueue>], id: SegmentId) -> u64 {
    queues.iter().map(|queue| queue.lock().queue.live_bytes_in(id.0)).sum()
}

fn is_half_dead(segments: &[SegmentInfo], id: SegmentId, live_bytes: u64) -> bool {
    let segment = segments.iter().find(|segment| segment.id == id);
    segment.is_some_and(|segment| live_bytes <= segment.bytes / 2)
}

#[cfg(test)]
mod tests;
