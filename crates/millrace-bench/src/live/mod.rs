//! What a run has done so far: counted where it happens, summed up once a second, and shown by a
//! terminal ([`screen`]), by HTTP ([`listen`]) and to a gateway ([`push`]).
//!
//! Nothing is counted unless somebody watches, and for the bar of a terminal alone no latency is
//! recorded. Whatever watches never disturbs the run: it copies the sums under their lock, and
//! shows the copy without it.

mod exposition;
mod listen;
mod push;
mod screen;
mod terminal;
mod watch;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

pub(crate) use watch::{Interrupts, Watch, WatchFlags};

use crate::{
    latency::{Latencies, Verb},
    load::Events,
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Messages.
    Sent,
    Received,
    Deleted,
    /// Requests answered, refused ones included.
    Requests,
    /// Requests refused or not answered.
    Failed,
    /// Connections.
    Opened,
    /// Requests over a connection that had served one before.
    Reused,
    /// Connections that the server ended.
    Closed,
}

/// What a shell says of a command that was interrupted.
const INTERRUPTED: i32 = 130;
const EVENTS: usize = 8;
/// Numbers by [`Event`].
pub(crate) type Counts = [u64; EVENTS];

/// What has become of the messages of a run, as far as can be told while it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Acknowledged and not yet received.
    pub(crate) waiting: u64,
    pub(crate) duplicated: u64,
    /// Of another run, or altered.
    pub(crate) foreign: u64,
    pub(crate) out_of_order: u64,
}

/// Shared by who measures and who shows.
#[derive(Debug)]
pub(crate) struct Live {
    is_watched: AtomicBool,
    is_watched_closely: AtomicBool,
    is_ending: Arc<AtomicBool>,
    /// The terminal is ours: nobody else may write to it. Ends under the lock of `view`, lest a
    /// note be kept that nobody prints.
    has_screen: AtomicBool,
    counts: [AtomicU64; EVENTS],
    in_flight: AtomicI64,
    /// Of this second. A lock of its own: it is taken once a request. Never held with `view`.
    latest: Mutex<Latencies>,
    /// Taken once a second and by whoever looks.
    view: Mutex<View>,
}

/// The sums at the end of a second. Histograms are shared, so that a copy costs little.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) run: String,
    pub(crate) began: Instant,
    /// How far the run is, of 1.
    pub(crate) share: f64,
    pub(crate) message: String,
    pub(crate) totals: Counts,
    pub(crate) in_flight: u64,
    pub(crate) standing: Standing,
    /// The last seconds' counts, at most [`SHOWN`].
    pub(crate) recent: VecDeque<Counts>,
    /// Of the last second in which anything was timed.
    pub(crate) last: Arc<Latencies>,
    pub(crate) all: Arc<Latencies>,
    /// What there is to say while the terminal is taken: the latest, at most [`NOTES`].
    pub(crate) notes: VecDeque<String>,
}

/// A request that is under way until this is dropped.
pub(crate) struct UnderWay<'a>(&'a Live);

/// Seconds that are remembered.
pub(crate) const SHOWN: usize = 120;
const NOTES: usize = 32;
/// Seconds of a line of bars.
const BARRED: usize = 30;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Default for Live {
    fn default() -> Live {
        let view = View {
            run: String::new(),
            began: Instant::now(),
            share: 0.0,
            message: String::new(),
            totals: Counts::default(),
            in_flight: 0,
            standing: Standing::default(),
            recent: VecDeque::new(),
            last: Arc::new(Latencies::new()),
            all: Arc::new(Latencies::new()),
            notes: VecDeque::new(),
        };
        Live {
            is_watched: AtomicBool::new(false),
            is_watched_closely: AtomicBool::new(false),
            is_ending: Arc::default(),
            has_screen: AtomicBool::new(false),
            counts: Default::default(),
            in_flight: AtomicI64::new(0),
            latest: Mutex::new(Latencies::new()),
            view: Mutex::new(view),
        }
    }
}

impl Live {
    /// What nobody looks at, and ends when this does.
    pub(crate) fn unseen(&self) -> Live {
        Live { is_ending: Arc::clone(&self.is_ending), ..Live::default() }
    }

    /// From now on somebody looks at messages and requests.
    pub(crate) fn watch(&self) {
        self.is_watched.store(true, Relaxed);
    }

    /// The same, and at latencies and connections, too.
    pub(crate) fn watch_closely(&self) {
        self.watch();
        self.is_watched_closely.store(true, Relaxed);
    }

    pub(crate) fn is_watched_closely(&self) -> bool {
        self.is_watched_closely.load(Relaxed)
    }

    /// The same, if anybody looks: what is not looked at need not be counted.
    pub(crate) fn if_watched(self: &Arc<Live>) -> Option<Arc<Live>> {
        self.is_watched.load(Relaxed).then(|| Arc::clone(self))
    }

    /// Asks the run to end and report what it has.
    pub(crate) fn end_early(&self) {
        self.is_ending.store(true, Relaxed);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// From now on the terminal is ours.
    fn take_screen(&self) {
        self.has_screen.store(true, Relaxed);
    }

    /// No more; returns the lines that were kept.
    fn free_screen(&self) -> VecDeque<String> {
        let mut view = self.sums();
        self.has_screen.store(false, Relaxed);
        std::mem::take(&mut view.notes)
    }

    fn has_screen(&self) -> bool {
        self.has_screen.load(Relaxed)
    }

    /// Keeps a line until the terminal is free; gives it back if it is.
    pub(crate) fn keep_note<'a>(&self, line: &'a str) -> Option<&'a str> {
        let mut view = self.sums();
        if !self.has_screen() {
            return Some(line);
        }
        if view.notes.len() == NOTES {
            view.notes.pop_front();
        }
        view.notes.push_back(line.to_owned());
        None
    }

    /// Another run begins; sums go on.
    pub(crate) fn begin(&self, run: &str) {
        let mut view = self.sums();
        run.clone_into(&mut view.run);
        (view.began, view.share, view.standing) = (Instant::now(), 0.0, Standing::default());
        view.message.clear();
        view.recent.clear();
    }

    /// `share` of 1 is done.
    pub(crate) fn at(&self, share: f64, message: &str) {
        let mut view = self.sums();
        view.share = share.clamp(0.0, 1.0);
        message.clone_into(&mut view.message);
    }

    pub(crate) fn add(&self, event: Event, number: u64) {
        self.counts[event as usize].fetch_add(number, Relaxed);
    }

    pub(crate) fn record(&self, verb: Verb, taken: Duration) {
        if self.is_watched_closely() {
            self.latest.lock().unwrap_or_else(PoisonError::into_inner).record(verb, taken);
        }
    }

    /// A request over one connection was answered with success.
    pub(crate) fn answered(&self, verb: Verb, taken: Duration, connection: Events) {
        self.record(verb, taken);
        self.finished(connection);
    }

    /// A request over one connection came to an end.
    pub(crate) fn finished(&self, connection: Events) {
        self.add(Event::Requests, 1);
        match connection.opened {
            0 => self.add(Event::Reused, 1),
            opened => self.add(Event::Opened, opened),
        }
        self.add(Event::Closed, connection.closed_by_server);
    }

    /// A request that does not count, as of a warm-up, came to an end. Connections always do.
    pub(crate) fn warmed_up(&self, connection: Events) {
        self.add(Event::Opened, connection.opened);
    }

    pub(crate) fn stands(&self, standing: Standing) {
        self.sums().standing = standing;
    }

    pub(crate) fn under_way(&self) -> UnderWay<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        UnderWay(self)
    }

    /// A second ends.
    pub(crate) fn roll(&self) {
        let last = self.is_watched_closely().then(|| {
            let fresh = Latencies::new();
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *latest, fresh)
        });
        let totals: Counts = std::array::from_fn(|index| self.counts[index].load(Relaxed));
        let mut view = self.sums();
        let before = view.totals;
        let passed = std::array::from_fn(|index| totals[index].saturating_sub(before[index]));
        if view.recent.len() == SHOWN {
            view.recent.pop_front();
        }
        view.recent.push_back(passed);
        view.totals = totals;
        view.in_flight = u64::try_from(self.in_flight.load(Relaxed)).unwrap_or(0);
        if let Some(last) = last.filter(|last| last.named_histograms().next().is_some()) {
            Arc::make_mut(&mut view.all).merge(&last);
            view.last = Arc::new(last);
        }
    }

    /// A copy of the sums: whoever looks keeps nobody waiting.
    pub(crate) fn view(&self) -> View {
        self.sums().clone()
    }

    fn sums(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    pub(crate) fn total(&self, event: Event) -> u64 {
        self.totals[event as usize]
    }

    /// Of the last second.
    pub(crate) fn rate(&self, event: Event) -> u64 {
        self.recent.back().map_or(0, |counts| counts[event as usize])
    }

    /// What the run is about: messages, deleted or else received or sent; else requests.
    pub(crate) fn shown(&self) -> Event {
        let has = |event: Event| self.recent.iter().any(|counts| counts[event as usize] > 0);
        let events = [Event::Deleted, Event::Received, Event::Sent];
        events.into_iter().find(|event| has(*event)).unwrap_or(Event::Requests)
    }

    /// The last seconds of it.
    pub(crate) fn messages(&self) -> impl Iterator<Item = u64> + '_ {
        let shown = self.shown();
        self.recent.iter().map(move |counts| counts[shown as usize])
    }

    /// The last seconds as bars, the highest of them as high as can be.
    pub(crate) fn bars(&self) -> String {
        let all: Vec<u64> = self.messages().collect();
        let last = all.get(all.len().saturating_sub(BARRED)..).unwrap_or_default();
        let highest = last.iter().copied().max().unwrap_or(0).max(1);
        let bar = |value: &u64| {
            let step = (value * (BARS.len() as u64 - 1)).div_ceil(highest);
            BARS.get(step as usize).copied().unwrap_or(BARS[0])
        };
        last.iter().map(bar).collect()
    }
}

impl Event {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Event::Sent => "sent",
            Event::Received => "received",
            Event::Deleted => "deleted",
            Event::Requests => "requests",
            Event::Failed => "failed requests",
            Event::Opened => "opened connections",
            Event::Reused => "reused connections",
            Event::Closed => "closed connections",
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
