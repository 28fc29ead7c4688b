//! A view of the journal: data outside it, such as a database, that is built from records of its
//! own. The broker does not interpret these records.
//!
//! One thread uses a view. An append returns after its commit. The journal keeps the records until
//! the view says that it has stored them durably itself, and never relocates them. A kept document
//! records the state of the view.
//!
//! All methods may block: do not call them in async code.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use millrace_engine::record::{Record, Records, ViewRecord};
use millrace_journal::{
    Position, Purpose, ReadError, Record as JournalRecord, Ticket, Unavailable,
};
use thiserror::Error;

use crate::append::journal_records;
use crate::common::Common;
use crate::error::BrokerError;
use crate::holds::Hold;
use crate::kept::{Kept, KeptChange, VIEWS};

/// Pause between two checks of a commit that clients no longer wait for.
const OVERDUE_PAUSE: Duration = Duration::from_millis(20);

/// Error of an append.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// Nothing was appended. A later attempt may succeed.
    #[error("journal: {0}")]
    Refused(Unavailable),
    /// It is not known whether the record was appended. The journal takes no more records until it
    /// is opened again.
    #[error("journal: {0}")]
    Ended(Unavailable),
}

/// Callback with the position and the bytes of each record.
pub type VisitRecord<'a, E> = dyn FnMut(Position, &[u8]) -> Result<(), E> + 'a;

/// See the module.
pub struct View {
    name: &'static str,
    common: Arc<Common>,
    kept: Arc<Kept>,
    /// Where the journal ended before this run.
    end: Position,
    /// The latest record of the view before this run.
    latest: Option<Position>,
    /// None while the view holds everything durably.
    hold: Mutex<Option<Hold>>,
}

impl View {
    /// Must be called before the journal can be shortened. From then on the journal keeps the
    /// view's records until [`View::remember`].
    pub(crate) fn new(
        name: &'static str,
        common: Arc<Common>,
        kept: Arc<Kept>,
        end: Position,
        latest: Option<Position>,
    ) -> View {
        // A view without a document has no records, so there is nothing to keep.
        let is_used = latest.is_some() || kept.get(VIEWS, name).is_some();
        let hold = Mutex::new(is_used.then(|| common.holds.hold_from(Position(0))));
        View { name, common, kept, end, latest, hold }
    }

    /// Appends a change and waits for its commit; returns where it is. Calls `overdue` once if that
    /// takes longer than clients wait.
    pub fn append(
        &self,
        change: &[u8],
        overdue: &mut dyn FnMut(&Unavailable),
    ) -> Result<Position, ViewError> {
        let log = &self.common.log;
        let mut records = Records::default();
        ViewRecord { view: self.name }.write(change, &mut records);
        let records = journal_records(&records);
        let bytes = records.iter().map(JournalRecord::encoded_bytes).sum();
        let reservation = log.reserve(bytes, Purpose::Store).map_err(ViewError::Refused)?;
        self.hold().get_or_insert_with(|| self.common.holds.hold_from(log.tail()));
        let mut positions = Vec::with_capacity(1);
        let ticket = log.append_before_commit_here(reservation, &records, &mut positions);
        let position = positions.first().copied().unwrap_or_default();
        match self.commit(ticket) {
            Ok(()) => Ok(position),
            Err(reason @ Unavailable::NotSettled(_)) if log.ended().is_none() => {
                overdue(&reason);
                self.wait_on(ticket).map(|()| position)
            }
            Err(reason) => Err(ViewError::Ended(reason)),
        }
    }

    /// Shows the records behind `after` that are kept from before this run, in order.
    pub fn replay<E: From<ReadError>>(
        &self,
        after: Position,
        visit: &mut VisitRecord<'_, E>,
    ) -> Result<(), E> {
        if self.latest.is_none_or(|latest| latest <= after) {
            return Ok(());
        }
        let log = &self.common.log;
        let segments = log.segments().into_iter().map(|segment| segment.id);
        for segment in segments.filter(|segment| *segment >= after.segment()) {
            let mut outcome = Ok(());
            let read = log.replay_segment(segment, &mut |record| {
                let is_of_view = record.position > after
                    && matches!(
                        Record::decode(record.index),
                        Ok(Record::View(ViewRecord { view })) if view == self.name
                    );
                if is_of_view {
                    outcome = log
                        .read(record.position, record.record_len)
                        .map_err(E::from)
                        .and_then(|bytes| visit(record.position, bytes.payload()));
                }
                if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            outcome?;
            read?;
        }
        Ok(())
    }

    /// The oldest place that the journal had at the start: no record from here on is missing.
    pub fn oldest(&self) -> Position {
        self.common.log.opened().first
    }

    /// Where the journal ended before this run.
    pub fn end(&self) -> Position {
        self.end
    }

    /// The first place that nothing has been appended to yet.
    pub fn tail(&self) -> Position {
        self.common.log.tail()
    }

    /// The stored document.
    pub fn remembered(&self) -> Option<Arc<[u8]>> {
        self.kept.get(VIEWS, self.name).map(|document| document.bytes)
    }

    /// Stores the document and waits for its commit. The caller states that the view has durably
    /// stored all its records, so the journal no longer keeps them.
    pub fn remember(&self, document: &[u8]) -> Result<(), BrokerError> {
        if self.remembered().is_none_or(|known| *known != *document) {
            let change = KeptChange::put(VIEWS, self.name, document);
            let ticket = self.kept.change(&[change], Purpose::Reclaim)?;
            self.commit(ticket)?;
        }
        *self.hold() = None;
        self.common.want_maintenance();
        Ok(())
    }

    /// Keeps the records that a copy of the view may still need if the copy is made after this
    /// call. Also returns the position up to which such a copy is complete.
    pub fn hold_for_copy(&self) -> (Hold, Position) {
        let own = self.hold();
        let from = own.as_ref().and_then(Hold::from).unwrap_or_else(|| self.common.log.tail());
        (self.common.holds.hold_from(from), from)
    }

    /// Commits on this thread, or waits for the one that does.
    fn commit(&self, ticket: Ticket) -> Result<(), Unavailable> {
        if !self.common.log.commit_here() {
            self.common.log.commit_elsewhere();
        }
        block_on(self.common.commits.wait(ticket))
    }

    /// Waits for the outcome, however long it takes.
    fn wait_on(&self, ticket: Ticket) -> Result<(), ViewError> {
        loop {
            match self.common.log.outcome(ticket) {
                Some(Ok(())) => return Ok(()),
                Some(Err(reason)) => return Err(ViewError::Ended(reason)),
                None => thread::sleep(OVERDUE_PAUSE),
            }
        }
    }

    fn hold(&self) -> MutexGuard<'_, Option<Hold>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
