//! What a call costs the client: sends, alone or in tens, to any SQS endpoint over kept
//! connections, and the CPU time of this process per call.
//!
//! `call_cost ENDPOINT QUEUE CONNECTIONS BATCH SECONDS [signed]`

#![expect(clippy::print_stdout, reason = "a benchmark")]

use std::time::{Duration, Instant};
use std::{env, fs, thread};

use millrace_client::sqs::{SqsClient, SqsOptions, SqsPeer};
use millrace_client::transport::{Endpoint, TransportOptions};
use millrace_client::{CallError, Credentials, Outgoing, Peer};

const THREADS: usize = 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [endpoint, queue, connections, batch, seconds, signing @ ..] = arguments.as_slice() else {
        return Err("call_cost ENDPOINT QUEUE CONNECTIONS BATCH SECONDS [signed]".into());
    };
    let endpoint = Endpoint::parse(endpoint)?;
    let (connections, batch): (usize, usize) = (connections.parse()?, batch.parse()?);
    let duration = Duration::from_secs(seconds.parse()?);
    let is_signed = !signing.is_empty();

    let started = Instant::now();
    let cpu_before = cpu_time();
    let calls: u64 = thread::scope(|scope| {
        let shares: Vec<_> = (0..THREADS)
            .map(|_| {
                let endpoint = endpoint.clone();
                let connections = connections.div_ceil(THREADS);
                scope.spawn(move || {
                    share(endpoint, queue, connections, batch, started + duration, is_signed)
                })
            })
            .collect();
        shares.into_iter().map(|share| share.join().ok().and_then(Result::ok).unwrap_or(0)).sum()
    });
    let elapsed = started.elapsed();
    let cpu_us = (cpu_time() - cpu_before).as_secs_f64() * 1e6;
    let rate = calls as f64 / elapsed.as_secs_f64();
    let cost = cpu_us / calls.max(1) as f64;
    println!("{rate:.0} calls/s, {:.0} messages/s, {cost:.2} µs CPU a call", rate * batch as f64);
    Ok(())
}

/// One thread's connections, each with one call at a time.
#[tokio::main(flavor = "current_thread")]
async fn share(
    endpoint: Endpoint,
    queue: &str,
    connections: usize,
    batch: usize,
    until: Instant,
    is_signed: bool,
) -> Result<u64, CallError> {
    let credentials = is_signed.then(|| Credentials {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: None,
    });
    let mut transport = TransportOptions::default();
    transport.lane_connections = connections;
    let options = SqsOptions { credentials, transport, ..SqsOptions::default() };
    let client = SqsClient::new(endpoint, options)?;
    let peer = SqsPeer::open(client, queue).await?;
    let messages = vec![Outgoing::new("x".repeat(1024)); batch];

    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (peer, messages) = (peer.clone(), messages.clone());
        tasks.spawn(async move {
            let mut calls = 0;
            while Instant::now() < until {
                peer.send(&messages).await?;
                calls += 1;
            }
            Ok::<u64, CallError>(calls)
        });
    }
    let mut calls = 0;
    while let Some(done) = tasks.join_next().await {
        calls += done.unwrap_or(Ok(0))?;
    }
    Ok(calls)
}

/// User and system time of this process, in steps of 10 ms (proc(5): fields 14 and 15).
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
