//! Looking through a queue page by page without changing it: what a console shows.
//!
//! A page costs at most the visits it is given, whatever the queue's depth. Between two pages the
//! queue goes on. A cursor stays valid when the message it stands on has left: the list by age is
//! then walked again from its old end, in as many pages as that takes, passing over what was seen.

use std::ops::Bound;

use super::slab::{Entry, MessageState, NONE};
use super::{MessageView, Queue};

/// Which messages are wanted, and thereby their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowseFilter {
    /// Whatever its state, oldest first.
    All,
    /// Those that may be received now, oldest first.
    Ready,
    /// In flight, the one whose visibility timeout ends next first.
    InFlight,
    /// Delayed, the one whose delay ends next first.
    Delayed,
}

/// Where to go on with the same filter. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrowseCursor {
    /// Sent time and sequence of the last message of the list by age that was seen.
    seen: (u64, u64),
    /// Slot and sequence of the entry of that list that was reached.
    reached: Option<(u32, u64)>,
    /// Time, sequence and slot of the last message seen of those that a set orders: timers, or
    /// messages that are out of the list's order.
    in_set: Option<(u64, u64, u32)>,
}

/// Some messages, and where to go on; no cursor at the end.
#[derive(Debug, Default)]
pub struct BrowsePage {
    pub messages: Vec<MessageView>,
    pub next: Option<BrowseCursor>,
}

impl BrowseCursor {
    /// As text, for clients to hand back.
    pub fn encode(&self) -> String {
        let (slot, seq) = self.reached.unwrap_or_default();
        let (time, set_seq, set_slot) = self.in_set.unwrap_or_default();
        let has = |is_some: bool| u8::from(is_some);
        format!(
            "{}-{}-{}-{slot}-{seq}-{}-{time}-{set_seq}-{set_slot}",
            self.seen.0,
            self.seen.1,
            has(self.reached.is_some()),
            has(self.in_set.is_some()),
        )
    }

    /// Reads what [`BrowseCursor::encode`] wrote. Whatever else a client makes up is refused, or
    /// shows a part of the same queue.
    pub fn decode(text: &str) -> Option<BrowseCursor> {
        let numbers: Option<Vec<u64>> = text.split('-').map(|part| part.parse().ok()).collect();
        let numbers: [u64; 9] = numbers?.try_into().ok()?;
        let [time, seq, is_reached, slot, reached_seq, is_in_set, set_time, set_seq, set_slot] =
            numbers;
        Some(BrowseCursor {
            seen: (time, seq),
            reached: match is_reached {
                0 => None,
                _ => Some((u32::try_from(slot).ok()?, reached_seq)),
            },
            in_set: match is_in_set {
                0 => None,
                _ => Some((set_time, set_seq, u32::try_from(set_slot).ok()?)),
            },
        })
    }
}

impl Queue {
    /// Up to `limit` messages behind `from`, visiting at most `visits` entries. Fewer messages, or
    /// none, with a cursor mean that the visits were used up.
    pub fn browse(
        &self,
        filter: BrowseFilter,
        from: BrowseCursor,
        limit: usize,
        visits: usize,
    ) -> BrowsePage {
        match filter {
            BrowseFilter::All => self.browse_by_age(|_| true, from, limit, visits),
            BrowseFilter::Ready => {
                let is_ready = |state| state == MessageState::Ready;
                self.browse_by_age(is_ready, from, limit, visits)
            }
            BrowseFilter::InFlight => {
                self.browse_by_deadline(MessageState::InFlight, from, limit, visits)
            }
            BrowseFilter::Delayed => {
                self.browse_by_deadline(MessageState::Delayed, from, limit, visits)
            }
        }
    }

    fn browse_by_deadline(
        &self,
        state: MessageState,
        from: BrowseCursor,
        limit: usize,
        visits: usize,
    ) -> BrowsePage {
        let mut page = BrowsePage { messages: Vec::new(), next: Some(from) };
        let mut behind = self.timers.behind(from.in_set, &self.slab);
        for _ in 0..visits {
            if page.messages.len() == limit {
                return page;
            }
            let Some((time, seq, slot)) = behind.next() else {
                page.next = None;
                return page;
            };
            page.next = Some(BrowseCursor { in_set: Some((time, seq, slot)), ..from });
            if self.slab.at(slot).state() == state {
                page.messages.push(self.view(slot));
            }
        }
        page
    }

    /// Merges the list by age with the messages that are out of its order: both ascend by time.
    fn browse_by_age(
        &self,
        is_wanted: impl Fn(MessageState) -> bool,
        from: BrowseCursor,
        limit: usize,
        visits: usize,
    ) -> BrowsePage {
        let mut messages = Vec::new();
        let mut cursor = from;
        let reached = from.reached.filter(|(slot, seq)| {
            self.slab.find(*slot, *seq).is_some_and(|entry| !entry.has(Entry::OUT_OF_ORDER))
        });
        let mut listed = match reached {
            Some((slot, _)) => self.slab.at(slot).newer,
            None => self.oldest,
        };
        let after = from.in_set.map(|(time, _, slot)| (time, slot));
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut others = self.out_of_order.range((after, Bound::Unbounded)).peekable();
        for _ in 0..visits {
            if messages.len() == limit {
                break;
            }
            let in_list = (listed != NONE).then(|| self.slab.at(listed));
            let slot = match (in_list, others.peek()) {
                (Some(entry), other) if other.is_none_or(|(time, _)| entry.sent <= *time) => {
                    let (slot, place) = (listed, (entry.sent, entry.seq));
                    listed = entry.newer;
                    cursor.reached = Some((slot, entry.seq));
                    if from.reached.is_some() && place <= from.seen {
                        continue; // Seen before: the entry reached had left.
                    }
                    cursor.seen = place;
                    slot
                }
                (_, Some(&&(time, slot))) => {
                    cursor.in_set = Some((time, self.slab.at(slot).seq, slot));
                    others.next();
                    slot
                }
                _ => return BrowsePage { messages, next: None },
            };
            if is_wanted(self.slab.at(slot).state()) {
                messages.push(self.view(slot));
            }
        }
        BrowsePage { messages, next: Some(cursor) }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::{QueueId, Timestamp};

    use super::super::testing::message;
    use super::super::{DeadLetters, Receive, Send};
    use super::*;
    use crate::record::SlotSeq;
    use crate::{Kind, Redrive, Settings};

    fn queue(id: u64) -> Queue {
        Queue::new(QueueId(id), "arn:aws:sqs:r:1:q", Settings::default(), 100)
    }

    fn send(queue: &mut Queue, now: u64, delay_s: u32) -> SlotSeq {
        let send = Send { delay_s: Some(delay_s), ..message(u128::from(now), None) };
        match queue.send_alone(Timestamp(now), &send) {
            super::super::Sent::Stored { at, .. } => at,
            super::super::Sent::Duplicate { .. } => unreachable!("no deduplication id was given"),
        }
    }

    fn receive(queue: &mut Queue, now: u64, max: usize, dead_letters: DeadLetters<'_>) {
        let receive =
            Receive { max, visibility_timeout_s: Some(0), attempt: None, in_flight_limit: 1000 };
        queue.receive_alone(Timestamp(now), &receive, dead_letters).unwrap();
    }

    /// All pages, `limit` and `visits` at a time; `between` runs between two pages.
    fn all(
        queue: &mut Queue,
        filter: BrowseFilter,
        (limit, visits): (usize, usize),
        mut between: impl FnMut(&mut Queue, &[u64]),
    ) -> Vec<u64> {
        let mut seen = Vec::new();
        let mut from = BrowseCursor::default();
        loop {
            let page = queue.browse(filter, from, limit, visits);
            assert!(page.messages.len() <= limit);
            seen.extend(page.messages.iter().map(|view| view.delivery.at.seq));
            match page.next {
                Some(next) => from = BrowseCursor::decode(&next.encode()).unwrap(),
                None => return seen,
            }
            between(queue, &seen);
        }
    }

    #[test]
    fn pages_show_each_message_once_in_order_of_age() {
        let mut queue = queue(1);
        for now in 0..25 {
            send(&mut queue, 1_000 + now / 3, 0);
        }

        for sizes in [(1, 1), (7, 1_000), (1_000, 4), (1_000, 1_000)] {
            let seen = all(&mut queue, BrowseFilter::All, sizes, |_, _| {});
            assert_eq!(seen, (100..125).collect::<Vec<_>>(), "{sizes:?}");
        }
    }

    #[test]
    fn states_are_told_apart_and_nothing_changes() {
        let mut queue = queue(1);
        for now in 0..10 {
            send(&mut queue, 1_000 + now, if now % 2 == 0 { 60 } else { 0 });
        }
        let receive =
            Receive { max: 2, visibility_timeout_s: Some(30), attempt: None, in_flight_limit: 9 };
        queue.receive_alone(Timestamp(2_000), &receive, DeadLetters::Deliver).unwrap();
        let before = format!("{queue:?}");

        let seen = |queue: &mut Queue, filter| all(queue, filter, (2, 3), |_, _| {});
        assert_eq!(seen(&mut queue, BrowseFilter::InFlight), [101, 103]);
        assert_eq!(seen(&mut queue, BrowseFilter::Ready), [105, 107, 109]);
        assert_eq!(seen(&mut queue, BrowseFilter::Delayed), [100, 102, 104, 106, 108]);
        assert_eq!(seen(&mut queue, BrowseFilter::All).len(), 10);
        assert_eq!(format!("{queue:?}"), before);
    }

    #[test]
    fn deletions_between_pages_neither_hide_nor_repeat_others() {
        let mut queue = queue(1);
        let at: Vec<SlotSeq> = (0..30).map(|now| send(&mut queue, 1_000 + now, 0)).collect();

        // Takes away the message that the cursor stands on, and some before it.
        let seen = all(&mut queue, BrowseFilter::All, (4, 3), |queue, seen| {
            for seq in seen.last().into_iter().chain(seen.first()) {
                queue.take_alone(at[(seq - 100) as usize]);
            }
        });

        assert_eq!(seen, (100..130).collect::<Vec<_>>());
    }

    #[test]
    fn dead_letters_stand_where_their_age_puts_them() {
        let (mut source, mut target) = (queue(1), queue(2));
        let redrive = Redrive {
            region: "r".into(),
            account: "1".into(),
            name: "t".into(),
            max_receive_count: 1,
        };
        let settings =
            Settings { redrive: Some(redrive), kind: Kind::Standard, ..Settings::default() };
        source.set_settings(settings, Timestamp(0));
        for now in [1_000, 1_010, 1_020] {
            send(&mut source, now, 0);
        }
        for now in [1_005, 1_010, 1_015, 1_030] {
            send(&mut target, now, 0);
        }
        receive(&mut source, 2_000, 3, DeadLetters::Elsewhere);
        source.tick(Timestamp(2_001), 10);
        receive(&mut source, 2_001, 3, DeadLetters::Move(&mut target));

        for sizes in [(1, 1), (2, 100), (100, 2)] {
            let mut times = Vec::new();
            let mut from = BrowseCursor::default();
            loop {
                let page = target.browse(BrowseFilter::All, from, sizes.0, sizes.1);
                let at = page.messages.iter().map(|view| view.delivery.at);
                times.extend(at.map(|at| target.slab.find(at.slot, at.seq).unwrap().sent));
                let Some(next) = page.next else { break };
                from = next;
            }
            assert_eq!(times, [1_000, 1_005, 1_010, 1_010, 1_015, 1_020, 1_030], "{sizes:?}");
        }
    }

    #[test]
    fn a_page_visits_no_more_than_it_may() {
        let mut queue = queue(1);
        for now in 0..100 {
            send(&mut queue, 1_000 + now, if now < 99 { 60 } else { 0 });
        }

        let page = queue.browse(BrowseFilter::Ready, BrowseCursor::default(), 10, 50);
        assert!(page.messages.is_empty() && page.next.is_some());
        let page = queue.browse(BrowseFilter::Ready, page.next.unwrap(), 10, 50);
        assert_eq!(page.messages.len(), 1);
    }

    #[test]
    fn cursors_that_clients_make_up_do_no_harm() {
        let mut queue = queue(1);
        send(&mut queue, 1_000, 0);

        assert_eq!(BrowseCursor::decode(""), None);
        assert_eq!(BrowseCursor::decode("1-2-3"), None);
        assert_eq!(BrowseCursor::decode("0-0-1-4294967296-0-0-0-0-0"), None);
        let made_up = BrowseCursor::decode("0-0-1-4294967295-7-1-5-5-4000000000").unwrap();
        for filter in [BrowseFilter::All, BrowseFilter::InFlight] {
            queue.browse(filter, made_up, 10, 10);
        }
    }
}
