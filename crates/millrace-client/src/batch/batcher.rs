//! Gathers single entries into batch calls and gives each entry its own outcome.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{Id, JoinHandle, JoinSet, coop};
use tokio::time::{Instant, sleep_until};

use super::BatchOptions;
use crate::error::{CallError, EntryError};

/// How far a batch is looked for while groups are under way.
const SCAN_ENTRIES: usize = 1_000;
/// Longer lingering would keep messages from anybody for no use.
const LINGER_MAX: Duration = Duration::from_secs(3600);
/// Entries on their way to the gathering task, beside those that wait there.
const CHANNEL_ENTRIES: usize = 64;

/// Why an entry has no success to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The server's answer for this entry.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The call that carried it failed as a whole.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It came after `close`.
    #[error("closed")]
    Closed,
}

/// What can be gathered.
pub(super) trait Entry: Clone + Send + Sync + 'static {
    fn size_bytes(&self) -> usize;

    /// What must stay in order, if the peer keeps order at all.
    fn group(&self) -> Option<&ByteString>;
}

/// Makes batch calls.
pub(super) trait BatchCall: Send + Sync + 'static {
    type Entry: Entry;
    type Done: Send + 'static;

    fn call(
        &self,
        entries: &[Self::Entry],
    ) -> impl Future<Output = Result<Vec<Result<Self::Done, EntryError>>, CallError>> + Send;

    /// Whether entries of one group must be under way in one call at a time.
    fn keeps_order(&self) -> bool {
        false
    }

    fn max_batch(&self) -> usize;

    /// Of a call's entries together.
    fn max_batch_bytes(&self) -> usize {
        usize::MAX
    }
}

/// The way in. Clones share the batches. The task behind it ends after the last clone is gone, or
/// with [`Batcher::close`]; either way it first flushes what it has.
pub(super) struct Batcher<C: BatchCall> {
    entries: mpsc::Sender<Waiting<C>>,
    /// The bytes that may still come in. A message counts until its outcome is known.
    bytes: Arc<Semaphore>,
    max_bytes: usize,
    /// Held from the wait for room to the way in by what must stay in order: who was given room
    /// and not polled yet could be overtaken otherwise. Tokio's, because it is fair.
    order: Arc<tokio::sync::Mutex<()>>,
    keeps_order: bool,
    task: Arc<Task>,
}

/// The gathering task.
struct Task {
    /// Told to close.
    closing: Mutex<Option<oneshot::Sender<()>>>,
    /// A lock because whoever closes first takes the handle.
    handle: Mutex<Option<JoinHandle<()>>>,
}

/// Where an entry's outcome comes.
type Answer<C> = oneshot::Receiver<Result<<C as BatchCall>::Done, BatchError>>;

/// An entry and whoever waits for its outcome.
struct Waiting<C: BatchCall> {
    entry: C::Entry,
    since: Instant,
    outcome: oneshot::Sender<Result<C::Done, BatchError>>,
    _bytes: OwnedSemaphorePermit,
}

impl<C: BatchCall> Batcher<C> {
    /// Must be called within a runtime.
    pub(super) fn new(call: C, options: BatchOptions) -> Batcher<C> {
        let (entries, incoming) = mpsc::channel(CHANNEL_ENTRIES);
        let (closing, told_to_close) = oneshot::channel();
        let max_bytes = options.max_bytes.clamp(1, u32::MAX as usize);
        let keeps_order = call.keeps_order();
        let gatherer = Gatherer {
            call: Arc::new(call),
            options,
            waiting: VecDeque::new(),
            groups: HashSet::new(),
            calls: JoinSet::new(),
            groups_of: HashMap::new(),
        };
        let handle = tokio::spawn(gatherer.run(incoming, told_to_close));
        Batcher {
            entries,
            bytes: Arc::new(Semaphore::new(max_bytes)),
            max_bytes,
            order: Arc::default(),
            keeps_order,
            task: Arc::new(Task {
                closing: Mutex::new(Some(closing)),
                handle: Mutex::new(Some(handle)),
            }),
        }
    }

    /// The outcome of one entry, once the server has told it. Waits for room first.
    ///
    /// Cancel safety: an entry that found room goes out all the same.
    pub(super) async fn submit(&self, entry: C::Entry) -> Result<C::Done, BatchError> {
        let answer = self.enter(entry).await?;
        answer.await.unwrap_or(Err(BatchError::Closed))
    }

    /// Waits for room and hands the entry in. Those of ordered groups come in as they came here.
    async fn enter(&self, entry: C::Entry) -> Result<Answer<C>, BatchError> {
        let _turn = match entry.group().filter(|_| self.keeps_order) {
            // Queued at the first poll, even of a task that has used up its budget.
            Some(_) => Some(coop::unconstrained(self.order.lock()).await),
            None => None,
        };
        // What is larger than all the room takes all of it.
        let size = entry.size_bytes().clamp(1, self.max_bytes);
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(size as u32).await;
        let (outcome, answer) = oneshot::channel();
        let waiting = Waiting {
            entry,
            since: Instant::now(),
            outcome,
            _bytes: bytes.map_err(|_| BatchError::Closed)?,
        };
        self.entries.send(waiting).await.map_err(|_| BatchError::Closed)?;
        Ok(answer)
    }

    /// Takes nothing more, sends what is waiting without lingering, and returns when every entry
    /// has its outcome. Later calls return at once.
    pub(super) async fn close(&self) {
        if let Some(closing) = take(&self.task.closing) {
            let _ = closing.send(());
        }
        let handle = take(&self.task.handle);
        if let Some(handle) = handle {
            // A call that panics ends neither the task nor other calls; its entries are told that
            // it closed.
            let _ = handle.await;
        }
    }
}

impl<C: BatchCall> Clone for Batcher<C> {
    fn clone(&self) -> Batcher<C> {
        Batcher {
            entries: self.entries.clone(),
            bytes: Arc::clone(&self.bytes),
            max_bytes: self.max_bytes,
            order: Arc::clone(&self.order),
            keeps_order: self.keeps_order,
            task: Arc::clone(&self.task),
        }
    }
}

impl<C: BatchCall> std::fmt::Debug for Batcher<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Batcher").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Owns what waits and decides when a call starts.
struct Gatherer<C: BatchCall> {
    call: Arc<C>,
    options: BatchOptions,
    waiting: VecDeque<Waiting<C>>,
    /// Groups with a call under way.
    groups: HashSet<ByteString>,
    calls: JoinSet<()>,
    /// The groups of each call that has some.
    groups_of: HashMap<Id, Vec<ByteString>>,
}

impl<C: BatchCall> Gatherer<C> {
    async fn run(
        mut self,
        mut incoming: mpsc::Receiver<Waiting<C>>,
        mut told_to_close: oneshot::Receiver<()>,
    ) {
        let mut is_open = true;
        let mut is_told = false;
        loop {
            let linger_until = self.start_calls(is_open && !is_told);
            if !is_open && self.waiting.is_empty() && self.calls.is_empty() {
                return;
            }
            let has_room = self.waiting.len() < self.options.max_waiting.max(1);
            tokio::select! {
                biased;
                // First, for there may be entries to take in without end.
                told = &mut told_to_close, if !is_told => {
                    is_told = true;
                    // If the last clone is gone instead, the channel has ended, too.
                    if told.is_ok() {
                        incoming.close();
                    }
                }
                Some(done) = self.calls.join_next_with_id(), if !self.calls.is_empty() => {
                    // Also after a panic, of which its entries learn by themselves.
                    let call = done.map_or_else(|error| error.id(), |(call, ())| call);
                    for group in self.groups_of.remove(&call).unwrap_or_default() {
                        self.groups.remove(&group);
                    }
                }
                entry = incoming.recv(), if is_open && has_room => match entry {
                    Some(entry) => self.gather(entry, &mut incoming),
                    None => is_open = false,
                },
                () = sleep_until(linger_until.unwrap_or_else(Instant::now)),
                    if linger_until.is_some() => {}
            }
        }
    }

    /// Takes in all that has come, so that one call can carry it.
    fn gather(&mut self, entry: Waiting<C>, incoming: &mut mpsc::Receiver<Waiting<C>>) {
        self.waiting.push_back(entry);
        while self.waiting.len() < self.options.max_waiting {
            match incoming.try_recv() {
                Ok(entry) => self.waiting.push_back(entry),
                Err(_) => return,
            }
        }
    }

    /// Starts all calls that may start now; returns until when the rest lingers.
    fn start_calls(&mut self, may_linger: bool) -> Option<Instant> {
        loop {
            let calls = self.calls.len();
            if calls >= self.options.max_calls.max(1) {
                return None;
            }
            let (chosen, is_full) = self.choose();
            let first = *chosen.first()?;
            if !is_full && calls >= self.options.eager_calls.max(1) {
                return None;
            }
            let since = self.waiting.get(first).map(|waiting| waiting.since)?;
            let linger_until = since + self.options.linger.min(LINGER_MAX);
            if !is_full && may_linger && linger_until > Instant::now() {
                return Some(linger_until);
            }
            self.start(&chosen);
        }
    }

    /// The positions of the next batch, ascending, and whether no more would fit.
    fn choose(&self) -> (Vec<usize>, bool) {
        let (most, most_bytes) = (self.call.max_batch().max(1), self.call.max_batch_bytes());
        let keeps_order = self.call.keeps_order();
        let mut chosen = Vec::new();
        let mut bytes = 0;
        let mut left_out: HashSet<&ByteString> = HashSet::new();
        for (position, waiting) in self.waiting.iter().take(SCAN_ENTRIES).enumerate() {
            if chosen.len() == most {
                return (chosen, true);
            }
            let group = waiting.entry.group().filter(|_| keeps_order);
            if group.is_some_and(|g| self.groups.contains(g) || left_out.contains(g)) {
                continue;
            }
            let size = waiting.entry.size_bytes();
            if !chosen.is_empty() && bytes + size > most_bytes {
                if group.is_none() {
                    return (chosen, true);
                }
                // Those behind it in its group must not overtake it.
                left_out.extend(group);
                continue;
            }
            bytes += size;
            chosen.push(position);
        }
        let is_full = chosen.len() == most || !left_out.is_empty();
        (chosen, is_full)
    }

    fn start(&mut self, chosen: &[usize]) {
        let mut batch = Vec::with_capacity(chosen.len());
        for position in chosen.iter().rev() {
            batch.extend(self.waiting.remove(*position));
        }
        batch.reverse();
        let groups: Vec<ByteString> = if self.call.keeps_order() {
            batch.iter().filter_map(|waiting| waiting.entry.group().cloned()).collect()
        } else {
            Vec::new()
        };
        let call = Arc::clone(&self.call);
        let task = self.calls.spawn(async move { carry_out(&*call, batch).await });
        if !groups.is_empty() {
            self.groups.extend(groups.iter().cloned());
            self.groups_of.insert(task.id(), groups);
        }
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

async fn carry_out<C: BatchCall>(call: &C, batch: Vec<Waiting<C>>) {
    let (entries, outcomes): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|waiting| (waiting.entry, (waiting.outcome, waiting._bytes))).unzip();
    let answers = call.call(&entries).await;
    // Whoever gave up waiting needs no outcome.
    match answers {
        Ok(answers) => {
            for ((outcome, _bytes), answer) in outcomes.into_iter().zip(answers) {
                let _ = outcome.send(answer.map_err(BatchError::Entry));
            }
        }
        Err(error) => {
            for (outcome, _bytes) in outcomes {
                let _ = outcome.send(Err(BatchError::Call(error.clone())));
            }
        }
    }
}
