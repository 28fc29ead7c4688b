//! Places for handlers that several workers share, and whose turn a free one is.
//!
//! Every worker polls its own queue, so that none waits for the long poll of another; they meet
//! only where a handler may start. The queue of the lowest rank goes first. Queues of one rank take
//! turns by weight: each start moves a queue's *pass* ahead by 1 / weight, and the lowest pass is
//! next. A queue that had nothing to do gets no credit for it.
//!
//! A queue whose receive is under way may *expect* messages, for about a round trip: slots are kept
//! for as many as it had the last time. Otherwise the next queue would take every slot that a slow
//! handler leaves, because no message is received before there is a slot for it.
//!
//! ```text
//!   rank 0:  orders  weight 3  pass  8 ──► next       a start: pass 8 + 1/3
//!            letters weight 1  pass  9
//!   rank 1:  reports weight 1  pass  2                only when rank 0 wants nothing
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What one start costs a queue of weight 1.
const STRIDE: u64 = 1 << 32;

/// Places for a number of handlers. Clones are the same places.
#[derive(Clone, Debug)]
pub struct Slots {
    /// The lock is held for a look at each queue.
    turns: Arc<Mutex<Turns>>,
}

/// When a queue gets a free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Whatever waits in a lower rank goes first, always.
    pub rank: u32,
    /// How many handlers start for this queue, against the weights of the others in its rank, while
    /// messages of all wait; 0 counts as 1.
    pub weight: u32,
}

/// One worker's part in [`Slots`]. The worker gives it up when it ends.
#[derive(Debug)]
pub struct Share {
    slots: Slots,
    queue: usize,
    woken: Arc<Notify>,
}

/// A place that is taken, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    queue: usize,
}

impl Slots {
    /// Places for `handlers` at a time; 0 counts as 1.
    pub fn new(handlers: usize) -> Slots {
        let turns = Turns { handlers: handlers.max(1), queues: Vec::new() };
        Slots { turns: Arc::new(Mutex::new(turns)) }
    }

    /// A part for one worker.
    pub fn share(&self, priority: Priority) -> Share {
        let woken = Arc::new(Notify::new());
        let queue = self.turns().add(Queue {
            priority,
            woken: Arc::clone(&woken),
            state: State::Idle,
            is_short: false,
            running: 0,
            pass: 0,
            last: 0,
        });
        Share { slots: self.clone(), queue, woken }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        // A panic inside cannot leave the counts half changed.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Priority {
    /// Like all others.
    fn default() -> Priority {
        Priority { rank: 0, weight: 1 }
    }
}

impl Share {
    /// Takes a slot if one is free and it is this queue's turn. If not, the queue is noted as
    /// waiting and [`Share::woken`] resolves when it may be its turn.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut turns = self.slots.turns();
        turns.enter(self.queue, State::Waiting);
        let is_next = turns.next() == Some(self.queue);
        if is_next {
            turns.start(self.queue);
        }
        turns.wake_next(self.queue);
        is_next.then(|| Slot { slots: self.slots.clone(), queue: self.queue })
    }

    /// Nothing of this queue waits for a slot, but messages for so many handlers may come at any
    /// moment.
    pub(crate) fn expect(&self, handlers: usize) {
        let state = if handlers > 0 { State::Expecting(handlers) } else { State::Idle };
        let mut turns = self.slots.turns();
        if turns.enter(self.queue, state) {
            turns.wake_next(self.queue);
        }
    }

    /// Handlers that the queue may count on besides those that it has running: the free slots, or
    /// its part of all slots where others have taken more than theirs. After 0, [`Share::woken`]
    /// resolves when a slot is given back.
    pub(crate) fn free(&self) -> usize {
        let mut turns = self.slots.turns();
        let free = turns.free().max(turns.due(self.queue));
        if let Some(queue) = turns.queues.get_mut(self.queue) {
            queue.is_short = free == 0;
        }
        free
    }

    /// Resolves when there may be something to take. Cancel safe: a wake-up that nobody waited for
    /// is kept.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut turns = self.slots.turns();
        if let Some(queue) = turns.queues.get_mut(self.queue) {
            queue.state = State::Gone;
        }
        turns.wake_next(self.queue);
        turns.wake_short(self.queue);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut turns = self.slots.turns();
        if let Some(queue) = turns.queues.get_mut(self.queue) {
            queue.running = queue.running.saturating_sub(1);
        }
        turns.wake_next(self.queue);
        turns.wake_short(self.queue);
    }
}

#[derive(Debug)]
struct Turns {
    handlers: usize,
    queues: Vec<Queue>,
}

#[derive(Debug)]
struct Queue {
    priority: Priority,
    woken: Arc<Notify>,
    state: State,
    /// It could not count on any slot when it last asked.
    is_short: bool,
    running: usize,
    /// The lowest of its rank is next.
    pass: u64,
    /// Its pass when it last started a handler.
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing waits for a slot.
    Idle,
    /// Nothing does, but messages for so many handlers may be about to come.
    Expecting(usize),
    /// Something does.
    Waiting,
    /// Its worker has ended.
    Gone,
}

impl Turns {
    /// The index of the queue, in the place of one whose worker has ended if there is any.
    fn add(&mut self, queue: Queue) -> usize {
        let is_over = |old: &Queue| old.state == State::Gone && old.running == 0;
        let index = self.queues.iter().position(is_over).unwrap_or(self.queues.len());
        match self.queues.get_mut(index) {
            Some(old) => *old = queue,
            None => self.queues.push(queue),
        }
        index
    }

    fn free(&self) -> usize {
        let running: usize = self.queues.iter().map(|queue| queue.running).sum();
        self.handlers.saturating_sub(running)
    }

    /// The part of all slots that is the queue's if all want some, less what it has.
    fn due(&self, index: usize) -> usize {
        let Some(queue) = self.queues.get(index) else { return 0 };
        let rank = queue.priority.rank;
        let above = self.queues.iter().filter(|other| other.priority.rank < rank);
        let left = self.handlers.saturating_sub(above.map(|other| other.running).sum());
        let mates = self.queues.iter().filter(|other| other.priority.rank == rank);
        let weights: u64 =
            mates.filter(|other| other.state != State::Gone).map(Queue::weight).sum();
        let part = (left as u64).saturating_mul(queue.weight()).div_ceil(weights.max(1));
        usize::try_from(part).unwrap_or(left).saturating_sub(queue.running)
    }

    /// Whose turn a free slot is.
    fn next(&self) -> Option<usize> {
        let turn = |(index, queue): &(usize, &Queue)| (queue.priority.rank, queue.pass, *index);
        let waiting = |(_, queue): &(usize, &Queue)| queue.state == State::Waiting;
        let first = self.queues.iter().enumerate().filter(waiting).min_by_key(turn)?;
        let kept = self.queues.iter().enumerate().map(|other| match other.1.state {
            State::Expecting(handlers) if turn(&other) < turn(&first) => handlers,
            _ => 0,
        });
        (self.free() > kept.sum()).then_some(first.0)
    }

    /// Returns whether the state changed.
    fn enter(&mut self, index: usize, state: State) -> bool {
        let Some(queue) = self.queues.get(index) else { return false };
        let (before, rank) = (queue.state, queue.priority.rank);
        let mates = self.queues.iter().filter(|other| other.priority.rank == rank);
        let now = mates.map(|other| other.last).max().unwrap_or(0);
        if let Some(queue) = self.queues.get_mut(index) {
            queue.state = state;
            if before == State::Idle {
                queue.pass = queue.pass.max(now);
            }
        }
        before != state
    }

    fn start(&mut self, index: usize) {
        if let Some(queue) = self.queues.get_mut(index) {
            queue.running += 1;
            queue.last = queue.pass;
            queue.pass = queue.pass.saturating_add(STRIDE / queue.weight());
        }
    }

    /// Wakes whose turn it is, unless it is `by`, who is awake.
    fn wake_next(&self, by: usize) {
        let next = self.next().filter(|next| *next != by);
        if let Some(queue) = next.and_then(|next| self.queues.get(next)) {
            queue.woken.notify_one();
        }
    }

    /// Wakes who may receive more now.
    fn wake_short(&mut self, by: usize) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            if queue.is_short && index != by {
                queue.is_short = false;
                queue.woken.notify_one();
            }
        }
    }
}

impl Queue {
    fn weight(&self) -> u64 {
        u64::from(self.priority.weight.max(1))
    }
}

#[cfg(test)]
mod tests;
