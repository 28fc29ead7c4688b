//! Series of queues: of all together, and of some by themselves.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millrace_broker::{Broker, QueueFigures, QueueTotals, SharedQueue};
use millrace_core::{QueueKey, Timestamp};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

pub(super) struct QueueSeries {
    pub(super) broker: Arc<Broker>,
    /// So many queues with most messages have series of their own,
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
        let counts = self.figures.gauges.counts;
        counts.total()
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
        queues.truncate(always + self.top);
        queues
    }

    fn encode_each(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        shown: &[Seen],
        now: Timestamp,
    ) -> Result<(), fmt::Error> {
        let name = "millrace_queue_messages";
        let help = "Messages in a queue by state";
        let mut messages = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for seen in shown {
            let counts = seen.figures.gauges.counts;
            let states = [
                ("ready", counts.ready),
                ("delayed", counts.delayed),
                ("in_flight", counts.in_flight),
            ];
            for (state, count) in states {
                let [region, account, queue] = seen.labels();
                let labels = [region, account, queue, ("state", state)];
                ConstGauge::new(count).encode(messages.encode_family(&labels)?)?;
            }
        }
        let mut ages = encoder.encode_descriptor(
            "millrace_queue_oldest_message_age",
            "Since the oldest message of a queue was sent",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for seen in shown {
            let age_s = seen.figures.oldest_age_s(now);
            ConstGauge::new(age_s).encode(ages.encode_family(&seen.labels())?)?;
        }
        let name = "millrace_queue_dead_letter_sources";
        let help = "Queues whose dead-letter queue this is";
        let mut sources = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for seen in shown {
            let count = seen.dead_letter_sources;
            ConstGauge::new(count).encode(sources.encode_family(&seen.labels())?)?;
        }
        for counted in COUNTED {
            let name = format!("millrace_queue_{}", counted.name);
            let mut counter = encoder.encode_descriptor(
                &name,
                counted.help,
                counted.unit.as_ref(),
                MetricType::Counter,
            )?;
            for seen in shown {
                let count = (counted.of)(&seen.figures.totals);
                ConstCounter::new(count).encode(counter.encode_family(&seen.labels())?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for QueueSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("QueueSeries").field("top", &self.top).finish_non_exhaustive()
    }
}

impl Collector for QueueSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (queues, mut totals) = self.broker.queues_and_totals_of_deleted();
        let mut sources: HashMap<QueueKey, u64> = HashMap::new();
        for queue in &queues {
            if let Some(redrive) = &queue.definition().settings.redrive {
                *sources.entry(redrive.target()).or_default() += 1;
            }
        }
        let queues: Vec<Seen> = queues
            .into_iter()
            .map(|queue| Seen {
                figures: self.broker.queue_figures(&queue),
                dead_letter_sources: sources.get(queue.key()).copied().unwrap_or(0),
                queue,
            })
            .collect();
        let now = self.broker.now();
        queues.iter().for_each(|seen| totals += seen.figures.totals);
        encode_all(&mut encoder, &queues, now)?;
        encode_totals(&mut encoder, &totals)?;
        self.encode_each(&mut encoder, &self.shown(queues), now)
    }
}

fn encode_all(
    encoder: &mut DescriptorEncoder<'_>,
    queues: &[Seen],
    now: Timestamp,
) -> Result<(), fmt::Error> {
    let help = "Queues that exist";
    let gauge = encoder.encode_descriptor("millrace_queues", help, None, MetricType::Gauge)?;
    ConstGauge::new(queues.len() as u64).encode(gauge)?;
    let help = "Messages in all queues by state";
    let mut messages =
        encoder.encode_descriptor("millrace_messages", help, None, MetricType::Gauge)?;
    let mut sums = [("ready", 0), ("delayed", 0), ("in_flight", 0)];
    for seen in queues {
        let counts = seen.figures.gauges.counts;
        for ((_, sum), count) in
            sums.iter_mut().zip([counts.ready, counts.delayed, counts.in_flight])
        {
            *sum += count;
        }
    }
    for (state, sum) in sums {
        ConstGauge::new(sum).encode(messages.encode_family(&[("state", state)])?)?;
    }
    let waits =
        |seen: &&Seen| seen.dead_letter_sources == 0 && seen.figures.gauges.counts.ready > 0;
    let ages_s = queues.iter().filter(waits).map(|seen| seen.figures.oldest_age_s(now));
    let gauge = encoder.encode_descriptor(
        "millrace_oldest_message_age",
        "The largest of all queues that have messages ready and are no dead-letter queue",
        Some(&Unit::Seconds),
        MetricType::Gauge,
    )?;
    ConstGauge::new(ages_s.max().unwrap_or(0)).encode(gauge)
}

fn encode_totals(
    encoder: &mut DescriptorEncoder<'_>,
    totals: &QueueTotals,
) -> Result<(), fmt::Error> {
    for counted in COUNTED {
        let name = format!("millrace_{}", counted.name);
        let counter = encoder.encode_descriptor(
            &name,
            counted.help,
            counted.unit.as_ref(),
            MetricType::Counter,
        )?;
        ConstCounter::new((counted.of)(totals)).encode(counter)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Waker};

    use millrace_broker::{Creation, NewContent, NewQueue, Outgoing, Settings};
    use millrace_core::{MessageId, SystemClock};
    use millrace_engine::Replay;
    use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
    use prometheus_client::encoding::text::encode_registry;
    use prometheus_client::registry::Registry;

    use super::*;

    const QUEUES: u64 = 2_000;

    /// Makes a queue, sends it a message and deletes it.
    fn come_and_go(broker: &Broker) {
        let new = NewQueue {
            key: QueueKey::new("us-east-1", "000000000000", "job"),
            settings: Settings::default(),
            attributes: std::collections::BTreeMap::new(),
            tags: std::collections::BTreeMap::new(),
        };
        let (Creation::Created(queue) | Creation::Existing(queue), _) =
            broker.begin_create_queue(&new).unwrap();
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
        broker.begin_send(&queue, &[message]).unwrap();
        let mut deletion = pin!(broker.delete_queue(&queue));
        while deletion.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            broker.log().commit_step();
        }
    }

    #[test]
    fn totals_never_fall_while_queues_come_and_go() {
        let log = GroupCommit::new(Box::new(MemoryJournal::new(1 << 20)), GroupOptions::default());
        let replayed = Replay::default().finish(Broker::first_seq(log.opened().epoch.0));
        let (clock, options) = (Arc::new(SystemClock::new()), Default::default());
        let broker = Broker::new(log, clock, options, replayed, Box::new(|| 1)).unwrap();
        let mut registry = Registry::default();
        let series = QueueSeries { broker: broker.clone(), top: 0, always: Vec::new() };
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
                (0..QUEUES).for_each(|_| come_and_go(&broker));
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
