//! Series of queues: of all together, and of some by themselves.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millrace_broker::{Counts, QueueFigures, QueueTotals, Shards, SharedQueue};
use millrace_core::{QueueKey, Timestamp, may_take};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::series::Series;

pub(super) struct QueueSeries {
    pub(super) shards: Arc<Shards>,
    /// So many queues of an account with most messages have series of their own, of all accounts
    /// together a tenth more,
    pub(super) top: usize,
    /// and those with these names.
    pub(super) always: Vec<String>,
}

/// Something that is counted of queues.
struct Counted {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    of: fn(&QueueTotals) -> u64,
}

const COUNTED: [Counted; 9] = [
    Counted {
        name: "messages_sent",
        help: "Messages accepted, repeated ones not included",
        unit: None,
        of: |totals| totals.messages_sent,
    },
    Counted {
        name: "sent",
        help: "Body and attributes of messages accepted",
        unit: Some(Unit::Bytes),
        of: |totals| totals.sent_bytes,
    },
    Counted {
        name: "messages_received",
        help: "Messages returned by receives",
        unit: None,
        of: |totals| totals.messages_received,
    },
    Counted {
        name: "messages_deleted",
        help: "Deletes that succeeded",
        unit: None,
        of: |totals| totals.messages_deleted,
    },
    Counted {
        name: "empty_receives",
        help: "Receives that returned nothing",
        unit: None,
        of: |totals| totals.empty_receives,
    },
    Counted {
        name: "messages_deduplicated",
        help: "Sends that repeated one within the deduplication window",
        unit: None,
        of: |totals| totals.messages_deduplicated,
    },
    Counted {
        name: "messages_dead_lettered",
        help: "Messages moved to a dead-letter queue",
        unit: None,
        of: |totals| totals.messages_dead_lettered,
    },
    Counted {
        name: "messages_expired",
        help: "Messages dropped at the end of the retention period",
        unit: None,
        of: |totals| totals.messages_expired,
    },
    Counted {
        name: "messages_left_out",
        help: "Messages left out of receives, damaged or not readable",
        unit: None,
        of: |totals| totals.messages_left_out,
    },
];

/// A queue at the moment of the scrape.
struct Seen {
    queue: Arc<SharedQueue>,
    figures: QueueFigures,
    /// How many queues it is the dead-letter queue of.
    dead_letter_sources: u64,
}

impl Seen {
    fn messages(&self) -> u64 {
        self.figures.gauges.counts.total()
    }

    fn labels(&self) -> [(&'static str, &str); 3] {
        let key = self.queue.key();
        [("region", &key.region), ("account", &key.account), ("queue", &key.name)]
    }
}

impl QueueSeries {
    /// The queues that have series of their own.
    fn shown(&self, mut queues: Vec<Seen>) -> Vec<Seen> {
        let is_always = |seen: &Seen| {
            let name = &seen.queue.key().name;
            self.always.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == pattern,
            })
        };
        let order = |seen: &Seen| {
            let most = (seen.messages(), seen.figures.totals.messages_sent);
            (!is_always(seen), std::cmp::Reverse(most))
        };
        queues.sort_by_cached_key(order);
        let always = queues.iter().take_while(|seen| is_always(seen)).count();
        let mut others = queues.split_off(always);
        let (mut of_all, mut by_account) = (0, HashMap::<String, usize>::new());
        others.retain(|seen| {
            let of_account = by_account.entry(seen.queue.key().account.clone()).or_default();
            let has_room = may_take(*of_account, of_all, self.top);
            of_all += usize::from(has_room);
            *of_account += usize::from(has_room);
            has_room
        });
        queues.append(&mut others);
        queues
    }
}

impl fmt::Debug for QueueSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("QueueSeries").field("top", &self.top).finish_non_exhaustive()
    }
}

impl Collector for QueueSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (queues, mut totals) = self.shards.catalog().queues_and_totals_of_deleted();
        let mut sources: HashMap<QueueKey, u64> = HashMap::new();
        for queue in &queues {
            if let Some(redrive) = &queue.definition().settings.redrive {
                *sources.entry(redrive.target()).or_default() += 1;
            }
        }
        let queues: Vec<Seen> = queues
            .into_iter()
            .map(|queue| Seen {
                figures: QueueFigures::of(&queue),
                dead_letter_sources: sources.get(queue.key()).copied().unwrap_or(0),
                queue,
            })
            .collect();
        let now = self.shards.now();
        queues.iter().for_each(|seen| totals += seen.figures.totals);
        encode_all(&mut encoder, &queues, now)?;
        encode_totals(&mut encoder, &totals)?;
        encode_each(&mut encoder, &self.shown(queues), now)
    }
}

/// How many messages are in each state.
fn by_state(counts: Counts) -> [(&'static str, u64); 3] {
    [("ready", counts.ready), ("delayed", counts.delayed), ("in_flight", counts.in_flight)]
}

fn encode_all(encoder: &mut DescriptorEncoder<'_>, queues: &[Seen], now: Timestamp) -> fmt::Result {
    Series::new("millrace_queues", "Queues that exist").gauge(encoder, queues.len() as u64)?;
    let mut sums = by_state(Counts::default());
    for seen in queues {
        for ((_, sum), (_, count)) in sums.iter_mut().zip(by_state(seen.figures.gauges.counts)) {
            *sum += count;
        }
    }
    Series::new("millrace_messages", "Messages in all queues by state")
        .gauges(encoder, sums.map(|(state, sum)| ([("state", state)], sum)))?;
    let waits =
        |seen: &&Seen| seen.dead_letter_sources == 0 && seen.figures.gauges.counts.ready > 0;
    let ages_s = queues.iter().filter(waits).map(|seen| seen.figures.oldest_age_s(now));
    let help = "The largest of all queues that have messages ready and are no dead-letter queue";
    Series::seconds("millrace_oldest_message_age", help).gauge(encoder, ages_s.max().unwrap_or(0))
}

fn encode_each<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    shown: &'a [Seen],
    now: Timestamp,
) -> fmt::Result {
    let states = |seen: &'a Seen| {
        let [region, account, queue] = seen.labels();
        let labels = move |state| [region, account, queue, ("state", state)];
        by_state(seen.figures.gauges.counts).map(|(state, count)| (labels(state), count))
    };
    Series::new("millrace_queue_messages", "Messages in a queue by state")
        .gauges(encoder, shown.iter().flat_map(states))?;
    let help = "Since the oldest message of a queue was sent";
    let ages_s = shown.iter().map(|seen| (seen.labels(), seen.figures.oldest_age_s(now)));
    Series::seconds("millrace_queue_oldest_message_age", help).gauges(encoder, ages_s)?;
    let help = "Queues whose dead-letter queue this is";
    let sources = shown.iter().map(|seen| (seen.labels(), seen.dead_letter_sources));
    Series::new("millrace_queue_dead_letter_sources", help).gauges(encoder, sources)?;
    for Counted { name, help, unit, of } in &COUNTED {
        let name = &format!("millrace_queue_{name}");
        let counts = shown.iter().map(|seen| (seen.labels(), of(&seen.figures.totals)));
        Series { name, help, unit: unit.as_ref() }.counters(encoder, counts)?;
    }
    Ok(())
}

fn encode_totals(encoder: &mut DescriptorEncoder<'_>, totals: &QueueTotals) -> fmt::Result {
    for Counted { name, help, unit, of } in &COUNTED {
        let name = &format!("millrace_{name}");
        Series { name, help, unit: unit.as_ref() }.counter(encoder, of(totals))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Waker};

    use millrace_broker::{Creation, NewContent, NewQueue, OpenShard, Outgoing, Settings, Shard};
    use millrace_core::{MessageId, ShardId, SystemClock};
    use millrace_engine::Replay;
    use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
    use prometheus_client::encoding::text::encode_registry;
    use prometheus_client::registry::Registry;

    use super::*;

    const QUEUES: u64 = 2_000;

    fn shards() -> Arc<Shards> {
        let log = GroupCommit::new(Box::new(MemoryJournal::new(1 << 20)), GroupOptions::default());
        let replayed =
            Replay::default().finish(Shard::first_seq(ShardId(0), log.opened().epoch.0).unwrap());
        let (clock, options) = (Arc::new(SystemClock::new()), Default::default());
        let open = OpenShard { id: ShardId(0), log, options, replayed, random: Box::new(|| 1) };
        Shards::of_one(clock, open).unwrap()
    }

    fn create(shards: &Shards, account: &str, name: &str) -> Arc<SharedQueue> {
        let new = NewQueue {
            key: QueueKey::new("us-east-1", account, name),
            settings: Settings::default(),
            attributes: std::collections::BTreeMap::new(),
            tags: std::collections::BTreeMap::new(),
        };
        let (Creation::Created(queue) | Creation::Existing(queue), _) =
            shards.home().unwrap().begin_create_queue(&new).unwrap();
        queue
    }

    #[test]
    fn the_full_queues_of_one_account_do_not_hide_those_of_others() {
        let shards = shards();
        let seen = |account: &str, number: u64| {
            let queue = create(&shards, account, &format!("q{number}"));
            let mut figures = QueueFigures::default();
            figures.gauges.counts.ready = number;
            Seen { queue, figures, dead_letter_sources: 0 }
        };
        let full = (1_000..1_200).map(|number| seen("111111111111", number));
        let queues: Vec<Seen> = full.chain([seen("222222222222", 1)]).collect();
        let series = |top| {
            let shards = shards.clone();
            QueueSeries { shards, top, always: vec!["q1000".into()] }
        };

        let shown = series(10).shown(queues);
        let names: Vec<u64> = shown.iter().map(Seen::messages).collect();
        assert_eq!(names[..2], [1_000, 1_199], "the named one beside the fullest");
        assert_eq!(names[10..], [1_190, 1]);
        assert!(series(0).shown(vec![seen("111111111111", 5)]).is_empty());
    }

    /// Makes a queue, sends it a message and deletes it.
    fn come_and_go(shards: &Shards) {
        let queue = create(shards, "000000000000", "job");
        let mut content = Vec::new();
        NewContent::default().encode(&mut content);
        let message = Outgoing {
            id: MessageId::from_random(1),
            content: &content,
            size_bytes: 0,
            group: None,
            deduplication_id: None,
            delay_s: None,
        };
        queue.begin_send(&[message]).unwrap();
        let mut deletion = pin!(shards.catalog().delete_queue(&queue));
        while deletion.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            shards.home().unwrap().log().commit_step();
        }
    }

    #[test]
    fn totals_never_fall_while_queues_come_and_go() {
        let shards = shards();
        let mut registry = Registry::default();
        let series = QueueSeries { shards: shards.clone(), top: 0, always: Vec::new() };
        registry.register_collector(Box::new(series));
        let sent = || {
            let mut text = String::new();
            encode_registry(&mut text, &registry).unwrap();
            let count = text.lines().find_map(|l| l.strip_prefix("millrace_messages_sent_total "));
            count.unwrap().parse::<u64>().unwrap()
        };

        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..QUEUES).for_each(|_| come_and_go(&shards));
                is_over.store(true, Ordering::Relaxed);
            });
            let mut before = 0;
            while !is_over.load(Ordering::Relaxed) {
                let now = sent();
                assert!(now >= before, "{now} after {before}");
                before = now;
            }
        });

        assert_eq!(sent(), QUEUES);
    }
}
