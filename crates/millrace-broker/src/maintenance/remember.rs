//! Takes remembered sends out of segments that are about to go: they are appended again, piece by
//! piece. There may be a hundred thousand in a segment, and clients' records wait behind them.

use std::sync::Arc;
use std::time::Duration;

use millrace_engine::record::{Records, RememberedRecord};
use millrace_journal::record::RECORD_HEADER_BYTES;
use millrace_journal::{Purpose, Record, SegmentId};

use super::shorten::{COMMIT_PAUSE, LogState, Truncation};
use crate::append::journal_records;
use crate::error::BrokerError;
use crate::queue::SharedQueue;

/// Bytes of a `Remembered` record in the journal.
pub(super) const REMEMBERED_BYTES: u64 =
    (RECORD_HEADER_BYTES + RememberedRecord::INDEX_BYTES) as u64;
/// Sends that are appended again under a queue's lock.
const UNDER_ONE_LOCK: usize = 100;
/// Sends that are appended again before their commit is awaited: more in a second than are sent.
const AT_A_TIME: usize = 1_000;

/// Sends of segments that are about to go are being appended again.
pub(super) struct Remembering {
    /// Segments before it go.
    boundary: SegmentId,
    /// Queues that are left to do.
    queues: Vec<Arc<SharedQueue>>,
    /// Where to go on in the last of them.
    next: u64,
}

impl Remembering {
    pub(super) fn new(queues: &[Arc<SharedQueue>], boundary: SegmentId) -> Remembering {
        Remembering { boundary, queues: queues.to_vec(), next: 0 }
    }
}

impl Truncation {
    /// Appends a piece again. After the last, the segments may go when all is committed.
    pub(super) fn remember_again(
        &self,
        log: &mut LogState,
        mut remembering: Remembering,
    ) -> Result<Duration, BrokerError> {
        let last = remembering.boundary.0.saturating_sub(1);
        let mut appended = 0;
        while appended < AT_A_TIME {
            let Some(queue) = remembering.queues.last() else {
                // Everything so far: also what moved messages out of these segments.
                log.pending = Some((self.common.log.latest(), remembering.boundary));
                return Ok(Duration::ZERO);
            };
            match self.append_remembered(queue, last, &mut remembering.next)? {
                Some(count) => appended += count,
                None => {
                    remembering.queues.pop();
                    remembering.next = 0;
                }
            }
        }
        log.appended = Some(self.common.log.latest());
        log.remembering = Some(remembering);
        Ok(COMMIT_PAUSE)
    }

    /// Appends some sends again that records up to that segment remember, those excepted that have
    /// expired, and returns how many. None: there are no more.
    fn append_remembered(
        &self,
        queue: &SharedQueue,
        last: u32,
        next: &mut u64,
    ) -> Result<Option<usize>, BrokerError> {
        let mut state = queue.lock();
        // What a deleted queue remembers nobody needs.
        let sends = match state.is_deleted {
            true => None,
            false => state.queue.remembered_to(last, next, UNDER_ONE_LOCK),
        };
        let Some(sends) = sends else { return Ok(None) };
        let now = self.common.now();
        let current: Vec<_> = sends.iter().filter(|send| send.expires > now).collect();
        if current.is_empty() {
            return Ok(Some(0));
        }
        let index_bytes = current.len() * RememberedRecord::INDEX_BYTES;
        let mut records = Records::with_capacity(index_bytes);
        current.iter().for_each(|send| state.queue.remember_again(send, &mut records));
        let records = journal_records(&records);
        let bytes = records.iter().map(Record::encoded_bytes).sum();
        let reservation = self.common.log.reserve(bytes, Purpose::Reclaim)?;
        let mut positions = Vec::with_capacity(records.len());
        self.common.log.append(reservation, &records, &mut positions);
        for (send, position) in current.iter().zip(positions) {
            state.queue.remembered_at(send, position.0);
        }
        Ok(Some(current.len()))
    }
}
