//! Looking at messages without receiving them, page by page.

use millrace_engine::record::SlotSeq;
use millrace_engine::{BrowseCursor, BrowseFilter, MessageView};
use millrace_journal::{Position, ReadError};

use crate::error::BrokerError;
use crate::message::Peeked;
use crate::queue::SharedQueue;

/// Entries that are visited before the queue's lock is given to others: some microseconds.
const VISITS_PER_LOCK: usize = 512;
/// Messages of one such look: they may be of 1 MiB, and `max_bytes` counts once they are read.
const MESSAGES_PER_LOCK: usize = 10;

/// One look at a queue.
#[derive(Clone, Copy, Debug)]
pub struct Browse {
    pub filter: BrowseFilter,
    pub from: BrowseCursor,
    /// Messages wanted.
    pub limit: usize,
    /// Entries visited at most; what is left is behind the cursor.
    pub max_visits: usize,
    /// Stored bytes read at most, one message at the least.
    pub max_bytes: usize,
}

/// What a look at a queue showed.
#[derive(Debug)]
pub struct Browsed {
    pub messages: Vec<Peeked>,
    /// Messages that are there and cannot be read.
    pub damaged: u64,
    /// None at the end.
    pub next: Option<BrowseCursor>,
}

/// Why a message is not shown.
enum Unseen {
    /// It has left the queue since it was found.
    Left,
    Damaged,
}

/// Looks at the messages of a queue.
pub struct Browser<'q>(pub(crate) &'q SharedQueue);

impl Browser<'_> {
    /// Messages as they are, read back outside the queue's lock. Nothing is received, counted or
    /// journaled. Blocks for reads, mostly of the page cache. Messages that leave between the two
    /// steps are left out, and so are those that are damaged.
    pub fn page(&self, browse: &Browse) -> Result<Browsed, BrokerError> {
        // Ends what is due, so that no message is shown as hidden past its time.
        self.0.count_messages();
        let mut browsed = Browsed { messages: Vec::new(), damaged: 0, next: Some(browse.from) };
        let (mut visits, mut bytes) = (browse.max_visits, 0);
        while let Some(from) = browsed.next
            && browsed.messages.len() < browse.limit
            && visits > 0
        {
            let at_a_time = visits.min(VISITS_PER_LOCK);
            visits -= at_a_time;
            let wanted = (browse.limit - browsed.messages.len()).min(MESSAGES_PER_LOCK);
            let page = {
                let state = self.0.lock();
                if state.is_deleted {
                    return Err(BrokerError::QueueDoesNotExist);
                }
                state.queue.browse(browse.filter, from, wanted, at_a_time)
            };
            for view in page.messages {
                bytes += view.delivery.record_len as usize;
                match self.look_at(view)? {
                    Ok(peeked) => browsed.messages.push(peeked),
                    Err(Unseen::Damaged) => browsed.damaged += 1,
                    Err(Unseen::Left) => {}
                }
            }
            browsed.next = page.next;
            if bytes >= browse.max_bytes {
                break;
            }
        }
        Ok(browsed)
    }

    /// Up to `limit` messages, oldest first, all read at once; fails if one cannot be read. What is
    /// over has not ended for it. For simulations.
    pub fn peek(&self, limit: usize) -> Result<Vec<Peeked>, BrokerError> {
        let views: Vec<_> = self.0.lock().queue.messages().take(limit).collect();
        let peeked = views
            .into_iter()
            .map(|view| self.read_back(view).map_err(|error| crate::deliver::unreadable(&error)));
        peeked.collect()
    }

    /// The message that [`Browser::page`] showed at that place, if it still is in the queue.
    pub fn one(&self, at: SlotSeq) -> Result<Option<Peeked>, BrokerError> {
        let Some(view) = self.0.lock().queue.find(at) else { return Ok(None) };
        Ok(self.look_at(view)?.ok())
    }

    /// The states of the messages at these places; `None` for one that has left. Nothing is read
    /// back.
    pub fn states(&self, places: &[SlotSeq]) -> Result<Vec<Option<MessageView>>, BrokerError> {
        // Ends what is due, as for a page.
        self.0.count_messages();
        let mut states = Vec::with_capacity(places.len());
        for some in places.chunks(VISITS_PER_LOCK) {
            let state = self.0.lock();
            if state.is_deleted {
                return Err(BrokerError::QueueDoesNotExist);
            }
            states.extend(some.iter().map(|place| state.queue.find(*place)));
        }
        Ok(states)
    }

    /// The message as it is.
    fn look_at(&self, mut view: MessageView) -> Result<Result<Peeked, Unseen>, BrokerError> {
        loop {
            let (at, position) = (view.delivery.at, view.delivery.position);
            let error = match self.read_back(view) {
                Ok(peeked) => return Ok(Ok(peeked)),
                Err(error @ (ReadError::Gone(_) | ReadError::Damaged(_))) => error,
                Err(error) => return Err(crate::deliver::unreadable(&error)),
            };
            // Its record may have been moved on, for the log's sake.
            let found = self.0.lock().queue.find(at);
            match found {
                Some(again) if again.delivery.position != position => view = again,
                Some(_) => {
                    tracing::debug!(queue = %self.0.key(), %error, "message left out");
                    return Ok(Err(Unseen::Damaged));
                }
                None => return Ok(Err(Unseen::Left)),
            }
        }
    }

    fn read_back(&self, view: MessageView) -> Result<Peeked, ReadError> {
        let MessageView { delivery, state, deadline } = view;
        let position = Position(delivery.position);
        let record = self.0.common.log.read(position, delivery.record_len)?;
        let (id, content) = crate::deliver::decode(position, record)?;
        Ok(Peeked { id, content, delivery, state, deadline })
    }
}
