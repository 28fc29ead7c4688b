//! Whole requests through the services, broker, engine and journal, without sockets and threads.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use millrace_broker::{OpenShard, Shard, Shards};
use millrace_core::{ShardId, SystemClock};
use millrace_engine::Replay;
use millrace_journal::{GroupCommit, GroupOptions, MemoryJournal};
use millrace_metrics::MetricStore;
use millrace_services::{Floors, Monitor, Options, QueueAccess, Services};
use millrace_wire::{Header, Request, Service};

use crate::Result;
use crate::codecs::{URL, send_batch_request, send_request};

const SEGMENT_BYTES: u32 = 16 << 20;
const HANDLE: &str = "\"ReceiptHandle\":\"";

pub(crate) fn send(operations: u32) -> Result<()> {
    let server = Server::new()?;
    let request = send_request();
    for _ in 0..operations {
        server.call("SendMessage", &request)?;
    }
    Ok(())
}

pub(crate) fn send_batch(operations: u32) -> Result<()> {
    let server = Server::new()?;
    let request = send_batch_request();
    for _ in 0..operations {
        server.call("SendMessageBatch", &request)?;
    }
    Ok(())
}

pub(crate) fn through(operations: u32) -> Result<()> {
    let server = Server::new()?;
    let send = send_batch_request();
    let receive = format!(r#"{{"QueueUrl":"{URL}","MaxNumberOfMessages":10}}"#);
    for _ in 0..operations {
        server.call("SendMessageBatch", &send)?;
        let received = server.call("ReceiveMessage", &receive)?;
        let mut delete = format!(r#"{{"QueueUrl":"{URL}","Entries":["#);
        let text = str::from_utf8(&received)?;
        for (number, rest) in text.split(HANDLE).skip(1).enumerate() {
            let (handle, _) = rest.split_once('"').ok_or("a receipt handle does not end")?;
            let comma = if number == 0 { "" } else { "," };
            delete += &format!(r#"{comma}{{"Id":"{number}","ReceiptHandle":"{handle}"}}"#);
        }
        delete += "]}";
        let deleted = server.call("DeleteMessageBatch", &delete)?;
        if !deleted.windows(8).any(|window| window == b"\"Id\":\"9\"") {
            return Err("not all ten were deleted".into());
        }
    }
    Ok(())
}

/// Whether a request asked to be polled again.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

struct Server {
    log: Arc<GroupCommit>,
    services: Services,
}

impl Server {
    fn new() -> Result<Server> {
        let journal = Box::new(MemoryJournal::new(SEGMENT_BYTES));
        let log = GroupCommit::new(journal, GroupOptions::default());
        let replayed =
            Replay::default().finish(Shard::first_seq(ShardId(0), log.opened().epoch.0)?);
        let clock = Arc::new(SystemClock::new());
        let options = millrace_broker::Options::default();
        let open = OpenShard {
            id: ShardId(0),
            log: log.clone(),
            options,
            replayed,
            random: Box::new(|| 1),
        };
        let shards = Shards::of_one(clock, open)?;
        let store = Arc::new(MetricStore::open(None, shards.now())?);
        let monitor = Arc::new(Monitor::start(shards.clone(), store, QueueAccess::Open)?);
        let options = Options {
            region: "us-east-1".to_owned(),
            account: "000000000000".to_owned(),
            ..Options::default()
        };
        let server = Server {
            log,
            services: Services::new(
                Floors { shards, monitor, tables: None, push: None },
                &options,
                None,
            ),
        };
        server.call("CreateQueue", r#"{"QueueName":"queue"}"#)?;
        Ok(server)
    }

    /// The body of an answer, which must be a success.
    fn call(&self, action: &str, body: &str) -> Result<Vec<u8>> {
        let target = format!("AmazonSQS.{action}");
        let headers = [
            Header::new("host", "localhost:4566"),
            Header::new("content-type", "application/x-amz-json-1.0"),
            Header::new("x-amz-target", &target),
        ];
        let request = Request::post(&headers, body.as_bytes());
        let mut answer = pin!(self.services.call(request));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let response = loop {
            match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(response) => break response,
                // It has let others go first: there are none.
                Poll::Pending if woken.0.swap(false, Relaxed) => {}
                Poll::Pending if self.log.commit_step() => {}
                Poll::Pending => return Err(format!("{action} waits for no commit").into()),
            }
        };
        if response.status != 200 {
            let body = String::from_utf8_lossy(&response.body);
            return Err(format!("{action}: {} {body}", response.status).into());
        }
        Ok(response.body)
    }
}
