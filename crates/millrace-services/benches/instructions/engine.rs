//! A queue's state machine alone, with the records of what it does: ten messages sent, received and
//! deleted, before a backlog.

use std::hint::black_box;

use millrace_core::{MessageId, QueueId, Timestamp};
use millrace_engine::record::Records;
use millrace_engine::{
    DeadLetters, Handle, Kind, Queue, Receive, Send, Sent, Settings, StoredContent,
};

use crate::Result;

const NOW: Timestamp = Timestamp(1_767_323_045_000);
/// So many that the memory of sends does not grow its table while operations are counted.
const BACKLOG: u32 = 4_000;
const GROUPS: usize = 100;
/// Of a record in the journal, for what counts live bytes.
const RECORD_BYTES: u32 = 1_200;
/// Of the index parts of ten messages' records.
const INDEX_BYTES: usize = 1_000;

pub(crate) fn standard(operations: u32) -> Result<()> {
    through(Kind::Standard, operations)
}

pub(crate) fn fifo(operations: u32) -> Result<()> {
    through(Kind::Fifo, operations)
}

fn through(kind: Kind, operations: u32) -> Result<()> {
    let settings = Settings { kind, ..Settings::default() };
    let mut queue = Queue::new(QueueId(1), "arn:aws:sqs:us-east-1:000000000000:q", settings, 0);
    let groups: Vec<String> = (0..GROUPS).map(|number| format!("group-{number}")).collect();
    let mut sends = 0;
    for _ in 0..BACKLOG {
        send(&mut queue, &groups, &mut sends, &mut Records::default())?;
    }
    let receive =
        Receive { max: 10, visibility_timeout_s: None, attempt: None, in_flight_limit: 120_000 };
    for _ in 0..operations {
        let mut records = Records::with_capacity(INDEX_BYTES);
        for _ in 0..10 {
            send(&mut queue, &groups, &mut sends, &mut records)?;
        }
        black_box(records);
        queue.tick(NOW, 256);
        let mut records = Records::default();
        let deliver = DeadLetters::Deliver;
        let received = queue.receive(NOW, black_box(&receive), deliver, &mut records)?;
        black_box(records);
        let handles = received.deliveries.iter().map(|delivery| Handle {
            queue: queue.id(),
            seq: delivery.at.seq,
            slot: delivery.at.slot,
            receive_count: delivery.receive_count,
        });
        let handles: Vec<Handle> = handles.collect();
        let mut records = Records::default();
        if queue.delete(&handles, &mut records).iter().any(|deleted| *deleted != Ok(true)) {
            return Err("a received message was gone".into());
        }
        black_box(records);
    }
    Ok(())
}

fn send<'g>(
    queue: &mut Queue,
    groups: &'g [String],
    sends: &mut u128,
    records: &mut Records<'g>,
) -> Result<()> {
    let group = groups.get(*sends as usize % GROUPS).map(String::as_str);
    let is_fifo = queue.settings().kind == Kind::Fifo;
    let send = Send {
        id: MessageId::from_random(*sends),
        content: StoredContent::default(),
        group: group.filter(|_| is_fifo),
        dedup: is_fifo.then_some(*sends),
        delay_s: None,
    };
    *sends += 1;
    let Sent::Stored { at, .. } = queue.send(NOW, &send, records) else {
        return Err("a message was taken for a duplicate".into());
    };
    let position = *sends as u64 * u64::from(RECORD_BYTES);
    queue.stored(at, send.dedup, position, RECORD_BYTES);
    Ok(())
}
