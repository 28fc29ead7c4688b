//! What a queue holds at one moment, for metrics. Looks past many messages, so it is meant for a look
//! a minute or a second, not for requests.

use millrace_core::Timestamp;

use super::slab::Entry;
use super::{Counts, Queue, groups};
use crate::definition::Kind;

/// How far the search for the oldest message looks past those that do not count.
const LOOKED_AT: usize = 1_000;

/// AWS/SQS, ApproximateAgeOfOldestMessage: a message received three times or more no longer counts.
const POISON_RECEIVES: u32 = 3;

/// What a queue holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Messages by state.
    pub counts: Counts,
    /// When the oldest message was sent; of those received three times or more only if all are.
    pub oldest_sent: Option<Timestamp>,
    /// FIFO queues: message groups that have messages in flight.
    pub groups_in_flight: u64,
    /// Standard queues that hold messages of message groups.
    pub fairness: Option<Fairness>,
}

/// What fair queues are watched by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fairness {
    /// Groups that have to wait for quieter ones.
    pub noisy_groups: u64,
    /// Messages of all other groups, by state.
    pub quiet: Counts,
    /// When the oldest message of those was sent.
    pub quiet_oldest_sent: Option<Timestamp>,
}

impl Queue {
    /// What the queue holds, as of the last command. O(noisy groups).
    pub fn gauges(&self) -> Gauges {
        let is_fifo = self.settings.kind == Kind::Fifo;
        let groups_in_flight = if is_fifo { self.groups.in_flight() } else { 0 };
        Gauges {
            counts: self.counts,
            oldest_sent: self.oldest_of(|entry| entry.receive_count() < POISON_RECEIVES),
            groups_in_flight,
            fairness: (!is_fifo && self.groups.has_names()).then(|| self.fairness()),
        }
    }

    fn fairness(&self) -> Fairness {
        let noisy = self.groups.noisy();
        let sum = |of: fn(&groups::Group) -> u32| -> u64 {
            noisy.iter().map(|number| u64::from(of(self.groups.at(*number)))).sum()
        };
        let (members, delayed) = (sum(|group| group.members), sum(|group| group.delayed));
        let in_flight = sum(|group| group.in_flight);
        Fairness {
            noisy_groups: noisy.len() as u64,
            quiet: Counts {
                ready: self.counts.ready - (members - delayed - in_flight),
                delayed: self.counts.delayed - delayed,
                in_flight: self.counts.in_flight - in_flight,
            },
            quiet_oldest_sent: self.oldest_of(|entry| !noisy.contains(&entry.group)),
        }
    }

    /// When the oldest message that counts was sent; if the search ends early, the oldest of all.
    fn oldest_of(&self, counts: impl Fn(&Entry) -> bool) -> Option<Timestamp> {
        let sent_of = |slot: u32| {
            let entry = self.slab.at(slot);
            counts(entry).then_some(entry.sent)
        };
        let listed = self.by_age().take(LOOKED_AT).find_map(sent_of);
        let moved = self.out_of_order.iter().take(LOOKED_AT).find_map(|(_, slot)| sent_of(*slot));
        let found = [listed, moved].into_iter().flatten().min().map(Timestamp);
        found.or_else(|| self.oldest_sent())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::QueueId;

    use super::super::testing::message;
    use super::super::{DeadLetters, Receive, Send};
    use super::*;
    use crate::definition::{Redrive, Settings};

    const NOW: Timestamp = Timestamp(1_000_000);

    fn queue(kind: Kind) -> Queue {
        let settings = Settings { kind, ..Settings::default() };
        Queue::new(QueueId(1), "arn:aws:sqs:r:000000000000:q", settings, 1)
    }

    fn send(queue: &mut Queue, now: Timestamp, group: Option<&str>, delay_s: u32) {
        queue.send_alone(now, &Send { delay_s: Some(delay_s), ..message(0, group) });
    }

    fn receive(queue: &mut Queue, max: usize, timeout_s: u32) -> usize {
        let receive = Receive {
            max,
            visibility_timeout_s: Some(timeout_s),
            attempt: None,
            in_flight_limit: 120_000,
        };
        queue.receive_alone(NOW, &receive, DeadLetters::Deliver).unwrap().deliveries.len()
    }

    #[test]
    fn messages_of_noisy_groups_do_not_count_as_quiet() {
        let mut queue = queue(Kind::Standard);
        for _ in 0..40 {
            send(&mut queue, NOW, Some("noisy"), 0);
        }
        assert_eq!(receive(&mut queue, 35, 30), 35);
        send(&mut queue, NOW, Some("noisy"), 60);
        send(&mut queue, NOW.plus_seconds(1), Some("quiet"), 0);
        send(&mut queue, NOW.plus_seconds(2), None, 60);

        let Gauges { fairness, groups_in_flight, .. } = queue.gauges();
        let fairness = fairness.unwrap();

        assert_eq!(queue.counts().total(), 43);
        assert_eq!(groups_in_flight, 0, "only FIFO queues lock groups");
        let quiet = Counts { ready: 1, delayed: 1, in_flight: 0 };
        let quiet_oldest_sent = Some(NOW.plus_seconds(1));
        assert_eq!(fairness, Fairness { noisy_groups: 1, quiet, quiet_oldest_sent });
    }

    #[test]
    fn a_queue_without_groups_is_not_watched_for_fairness() {
        let mut queue = queue(Kind::Standard);
        send(&mut queue, NOW, None, 0);

        assert_eq!(queue.gauges().fairness, None);
    }

    #[test]
    fn fifo_queues_count_groups_in_flight() {
        let mut queue = queue(Kind::Fifo);
        for group in ["a", "a", "b", "c"] {
            send(&mut queue, NOW, Some(group), 0);
        }
        receive(&mut queue, 3, 30);

        assert_eq!(queue.gauges().groups_in_flight, 2);
    }

    #[test]
    fn the_oldest_message_may_be_one_that_was_moved_here() {
        let mut dead = queue(Kind::Standard);
        send(&mut dead, NOW.plus_seconds(7), None, 0);
        let redrive = Redrive {
            region: "r".to_owned(),
            account: "000000000000".to_owned(),
            name: "q".to_owned(),
            max_receive_count: 1,
        };
        let settings = Settings { redrive: Some(redrive), ..Settings::default() };
        let mut source = Queue::new(QueueId(2), "arn:aws:sqs:r:000000000000:s", settings, 1);
        send(&mut source, NOW, None, 0);
        receive(&mut source, 1, 0);

        let again =
            Receive { max: 1, visibility_timeout_s: None, attempt: None, in_flight_limit: 120_000 };
        source.receive_alone(NOW, &again, DeadLetters::Move(&mut dead)).unwrap();

        assert_eq!(dead.gauges().oldest_sent, Some(NOW));
    }

    #[test]
    fn a_message_received_three_times_no_longer_counts_as_the_oldest() {
        let mut queue = queue(Kind::Standard);
        send(&mut queue, NOW, None, 0);
        for _ in 0..3 {
            assert_eq!(receive(&mut queue, 1, 0), 1);
        }
        assert_eq!(queue.gauges().oldest_sent, Some(NOW), "there is no other");

        send(&mut queue, NOW.plus_seconds(7), None, 0);

        assert_eq!(queue.gauges().oldest_sent, Some(NOW.plus_seconds(7)));
    }
}
