//! HTTP/2, for target 6: a client of its own, because the generator speaks HTTP/1.1.
//!
//! Each stream sends ten messages, receives up to ten and deletes them, over and over. What this
//! client costs more than the generator counts against HTTP/2.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use h2::client::SendRequest;
use tokio::{net::TcpStream, task::LocalSet, time};

use super::{bench::Bench, held::Held, protocols::Measured};
use crate::{
    access::Protocol,
    load::{Mode, Sqs, find_values},
    process,
    server::Server,
};

/// Together as many requests under way as target 1 has connections.
const CONNECTIONS: usize = 8;
const STREAMS: usize = 8;
const WINDOW_BYTES: u32 = 4 << 20;
const BODY_BYTES: usize = 1024;
const BATCH: usize = 10;
/// Requests that take longer have failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the streams of one run share.
struct Run {
    /// Path and authority.
    uri: String,
    queue_url: String,
    dialect: Sqs,
    send: Bytes,
    sent: Cell<u64>,
    deleted: Cell<u64>,
    /// Entries that answers named as failed.
    failed: Cell<u64>,
    requests: Cell<u64>,
    is_over: Cell<bool>,
}

/// Messages of 1 KB in tens, through a queue of its own: messages a second after a warm-up, and
/// microseconds of the server's CPU for each.
pub(crate) fn through_in_tens(bench: &mut Bench, server: &Server) -> Result<Measured> {
    bench.faults.begin();
    let scenario = bench.scenario(Mode::Pc, server.endpoint()?, CONNECTIONS * STREAMS);
    let queue_url = scenario.create_queue()?;
    let runtime = crate::runtime::current_thread()?;
    let run = Rc::new(Run {
        uri: format!("http://{}/", scenario.endpoint.dialect.sqs()?.host),
        dialect: scenario.endpoint.dialect.sqs()?.clone(),
        send: send_request(&queue_url).into(),
        queue_url,
        sent: Cell::new(0),
        deleted: Cell::new(0),
        failed: Cell::new(0),
        requests: Cell::new(0),
        is_over: Cell::new(false),
    });
    let tasks = LocalSet::new();
    let measured = tasks.block_on(&runtime, async {
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            let socket =
                TcpStream::connect(scenario.endpoint.address).await.context("connecting")?;
            socket.set_nodelay(true).context("TCP_NODELAY")?;
            let mut builder = h2::client::Builder::new();
            builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
            let (client, connection) = builder.handshake(socket).await.context("HTTP/2")?;
            tokio::task::spawn_local(connection);
            for _ in 0..STREAMS {
                streams.push(tokio::task::spawn_local(drive(Rc::clone(&run), client.clone())));
            }
        }
        time::sleep(scenario.warm_up).await;
        let (began, deleted) = (Instant::now(), run.deleted.get());
        let cpu = process::cpu_time(server.pid())?;
        let own_cpu = process::own_cpu_time();
        time::sleep(scenario.duration).await;
        let messages = (run.deleted.get() - deleted) as f64;
        let spent = process::cpu_time(server.pid())?.saturating_sub(cpu);
        let elapsed = began.elapsed();
        let own_cpu = process::own_cpu_time().saturating_sub(own_cpu);
        run.is_over.set(true);
        for stream in streams {
            stream.await.context("a stream")??;
        }
        let cpu_us = spent.as_secs_f64() * 1e6 / messages.max(1.0);
        let rate = messages / elapsed.as_secs_f64();
        let generator = own_cpu.as_secs_f64() / elapsed.as_secs_f64();
        anyhow::Ok(Measured { rate, cpu_us: Some(cpu_us), generator })
    })?;
    bench.requests += run.requests.get();
    if run.failed.get() > 0 {
        bench.faults.note(&format!("HTTP/2: {} entries of batches failed", run.failed.get()));
    }
    let left = run.sent.get().saturating_sub(run.deleted.get());
    bench.check_held(server, &run.queue_url, Held::ready(left))?;
    scenario.endpoint.delete_queue(&run.queue_url)?;
    Ok(measured)
}

impl Run {
    /// How many of `count` entries an answer does not name as failed; those it does are noted.
    fn succeeded(&self, answer: &[u8], count: usize) -> u64 {
        let failed = self.dialect.failed(answer, count).len();
        self.failed.set(self.failed.get() + failed as u64);
        (count - failed) as u64
    }
}

async fn drive(run: Rc<Run>, client: SendRequest<Bytes>) -> Result<()> {
    let receive = Bytes::from(format!(
        r#"{{"QueueUrl":"{}","MaxNumberOfMessages":10,"WaitTimeSeconds":0}}"#,
        run.queue_url
    ));
    let mut handles = Vec::new();
    while !run.is_over.get() {
        let answer = call(&run, &client, "SendMessageBatch", run.send.clone()).await?;
        run.sent.set(run.sent.get() + run.succeeded(&answer, BATCH));
        let received = call(&run, &client, "ReceiveMessage", receive.clone()).await?;
        find_values(&received, "ReceiptHandle", Protocol::Json, &mut handles);
        if handles.is_empty() {
            continue;
        }
        let mut delete = format!(r#"{{"QueueUrl":"{}","Entries":["#, run.queue_url);
        for (number, at) in handles.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let handle = String::from_utf8_lossy(received.get(at.clone()).unwrap_or_default());
            delete += &format!(r#"{comma}{{"Id":"{number}","ReceiptHandle":"{handle}"}}"#);
        }
        delete += "]}";
        let answer = call(&run, &client, "DeleteMessageBatch", delete.into()).await?;
        run.deleted.set(run.deleted.get() + run.succeeded(&answer, handles.len()));
    }
    Ok(())
}

/// The body of an answer.
async fn call(
    run: &Run,
    client: &SendRequest<Bytes>,
    action: &str,
    body: Bytes,
) -> Result<Vec<u8>> {
    let exchange = async {
        let request = http::Request::post(&run.uri)
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("AmazonSQS.{action}"))
            .header("content-length", body.len())
            .body(())
            .context("request")?;
        let mut client = client.clone().ready().await.context(action.to_owned())?;
        let (response, mut stream) = client.send_request(request, false)?;
        stream.send_data(body, true)?;
        let response = response.await?;
        let status = response.status();
        let mut chunks = response.into_body();
        let mut answer = Vec::new();
        while let Some(chunk) = chunks.data().await {
            let chunk = chunk?;
            answer.extend_from_slice(&chunk);
            chunks.flow_control().release_capacity(chunk.len())?;
        }
        ensure!(status == 200, "{action} was answered with status {status}");
        anyhow::Ok(answer)
    };
    run.requests.set(run.requests.get() + 1);
    time::timeout(TIMEOUT, exchange).await.context("no answer in time")?
}

fn send_request(queue_url: &str) -> String {
    let body = "x".repeat(BODY_BYTES);
    let entries: Vec<_> = (0..BATCH)
        .map(|number| serde_json::json!({ "Id": number.to_string(), "MessageBody": body }))
        .collect();
    serde_json::json!({ "QueueUrl": queue_url, "Entries": entries }).to_string()
}
