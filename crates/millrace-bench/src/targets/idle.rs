//! Target 8: idle long polls cost next to nothing, and one send is the answer of one of them.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::{
    sync::mpsc,
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};

use super::{bench::Bench, row::Row};
use crate::report::thousands;
use crate::server::Server;
use crate::statistics::median;
use crate::{
    load::{Connection, Endpoint, Grouping, SendTemplate, Shape},
    process,
};

/// SQS: the longest WaitTimeSeconds.
const WAIT_S: u32 = 20;
const WAKES: usize = 20;
/// What the goal is about. Fewer cost less.
const POLLS: u64 = 10_000;
/// More descriptors than either side needs for anything else.
const RESERVED_FILES: u64 = 4000;
/// For so long CPU is measured while polls arrive, and so often at most. With the window, less than
/// a poll lasts.
const MOMENT: Duration = Duration::from_millis(300);
const MOMENTS_MAX: usize = 20;
/// Shares of a core that are alike: half of what polls may take.
const FLAT: f64 = 0.005;
const UNJUDGED: &str = "the limit of open files leaves too few polls";
/// How long a second poll gets to show that it was answered too.
const OTHERS: Duration = Duration::from_millis(20);

/// A poll came back with messages: of which queue, and when.
struct Woken {
    queue: usize,
    at: Instant,
}

pub(crate) fn idle(bench: &mut Bench) -> Result<()> {
    bench.faults.begin();
    let server = bench.server()?;
    let endpoint = server.endpoint()?;
    let (polls, queues) = (bench.pick(500, POLLS, POLLS), bench.pick(50, 1000, 1000));
    let polls = polls.min(polls_within(process::raise_open_files()));
    let mut urls = Vec::new();
    let mut socket = std::net::TcpStream::connect(endpoint.address).context("connecting")?;
    for number in 0..queues {
        urls.push(endpoint.create_queue_over(&mut socket, &format!("idle-{number}"))?);
    }
    let runtime = crate::runtime::current_thread()?;
    let progress = bench.progress.clone();
    let watched = progress.unless_ended(watch(bench, &server, &endpoint, &urls, polls));
    LocalSet::new().block_on(&runtime, watched)
}

async fn watch(
    bench: &mut Bench,
    server: &Server,
    endpoint: &Endpoint,
    urls: &[String],
    polls: u64,
) -> Result<()> {
    let before = server.resident_bytes()?;
    let mut connections = Vec::new();
    for _ in 0..polls {
        let mut connection = Connection::new(endpoint);
        connection.connect().await?;
        connections.push(connection);
    }
    // Bounded by the number of polls: each reports once.
    let (woken, mut wakes) = mpsc::channel(polls as usize);
    let failed = Rc::new(RefCell::new(None));
    let mut tasks = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        let queue = number % urls.len();
        let request = receive_request(endpoint, &urls[queue]);
        let (woken, failed) = (woken.clone(), Rc::clone(&failed));
        tasks.spawn_local(async move {
            if let Err(error) = poll(connection, &request, queue, &woken).await {
                failed.borrow_mut().get_or_insert(error);
            }
        });
    }
    let launched = Instant::now();
    wait_until_flat(server).await?;
    let share = cpu_share(server, Duration::from_millis(bench.pick(2000, 10_000, 10_000))).await?;
    let waited = launched.elapsed();
    ensure!(waited < Duration::from_secs(WAIT_S.into()), "polls ended while they were measured");
    all_wait(&mut tasks, &failed)?;
    let each = server.resident_bytes()?.saturating_sub(before) as f64 / polls as f64;
    add_idle(bench, polls, urls.len(), share, each);

    let (taken_us, wrong) = wake(endpoint, urls, &mut wakes).await?;
    tasks.shutdown().await;
    none_failed(&failed)?;
    let slowest_us = taken_us.iter().copied().fold(0.0, f64::max);
    let count = taken_us.len();
    let p50_us = median(taken_us);
    bench.add(Row {
        target: "8",
        what: format!("send reaches one of {} polls, {count} times", thousands(polls as f64)),
        measured: format!(
            "p50 {p50_us:.0}, max {slowest_us:.0} µs after the answer, {wrong} not exactly one"
        ),
        goal: "within 1 ms, reaches exactly one".to_owned(),
        is_met: judged(polls, slowest_us <= 1000.0 && wrong == 0),
        unjudged: UNJUDGED.to_owned(),
        ..Row::default()
    });
    Ok(())
}

/// # Errors
///
/// If a poll has ended: what was measured was fewer, or the server answers before it must.
fn all_wait(tasks: &mut JoinSet<()>, failed: &RefCell<Option<anyhow::Error>>) -> Result<()> {
    let has_ended = tasks.try_join_next().is_some();
    none_failed(failed)?;
    ensure!(!has_ended, "a long poll was answered before anything was sent");
    Ok(())
}

fn none_failed(failed: &RefCell<Option<anyhow::Error>>) -> Result<()> {
    failed.borrow_mut().take().map_or(Ok(()), Err).context("a long poll failed")
}

/// Returns when the polls have arrived: once the server's CPU does not change from one moment to
/// the next, or at the latest so soon that the polls last until they are measured.
async fn wait_until_flat(server: &Server) -> Result<()> {
    let mut shares = Vec::new();
    while shares.len() < MOMENTS_MAX && !is_flat(&shares) {
        shares.push(cpu_share(server, MOMENT).await?);
    }
    Ok(())
}

/// Whether the last shares are alike.
fn is_flat(shares: &[f64]) -> bool {
    let Some([before, middle, last]) = shares.last_chunk() else { return false };
    let highest = before.max(*middle).max(*last);
    highest - before.min(*middle).min(*last) <= FLAT
}

/// How much of a core the server takes for so long.
async fn cpu_share(server: &Server, duration: Duration) -> Result<f64> {
    let (before, start) = (process::cpu_time(server.pid())?, Instant::now());
    sleep(duration).await;
    let spent = process::cpu_time(server.pid())?.saturating_sub(before);
    Ok(spent.as_secs_f64() / start.elapsed().as_secs_f64())
}

fn add_idle(bench: &mut Bench, polls: u64, queues: usize, share: f64, each: f64) {
    let what =
        format!("{} idle polls on {} queues", thousands(polls as f64), thousands(queues as f64));
    bench.add(Row {
        target: "8",
        what: format!("{what}, CPU"),
        measured: format!("{:.2} % of a core", share * 100.0),
        goal: "< 1 %".to_owned(),
        is_met: judged(polls, share < 0.01),
        unjudged: UNJUDGED.to_owned(),
        ..Row::default()
    });
    bench.add(Row {
        target: "8",
        what: format!("{what}, memory each"),
        measured: format!("{:.1} KB", each / 1000.0),
        goal: "≤ 20 KB".to_owned(),
        is_met: judged(polls, each <= 20_000.0),
        unjudged: UNJUDGED.to_owned(),
        ..Row::default()
    });
}

/// Polls that a limit of open files leaves room for, at the server too: it has the same limit, and
/// keeps descriptors for segments, listeners and the console's connections. Some in any case.
fn polls_within(open_files: u64) -> u64 {
    open_files.saturating_sub(RESERVED_FILES).max(open_files / 4)
}

/// A low limit of open files may leave too few polls to tell.
fn judged(polls: u64, is_met: bool) -> Option<bool> {
    (polls >= POLLS).then_some(is_met)
}

/// Sends to one queue after the other. Times from the answer to the send until a poll has the
/// message, and how many sends did not reach exactly one. A poll that was woken for nothing and
/// waits on is not seen.
async fn wake(
    endpoint: &Endpoint,
    urls: &[String],
    wakes: &mut mpsc::Receiver<Woken>,
) -> Result<(Vec<f64>, u64)> {
    let shape = Shape { batch: 1, size_bytes: 1024, grouping: Grouping::None };
    let mut sender = Connection::new(endpoint);
    let (mut taken_us, mut wrong, mut scratch) = (Vec::new(), 0, Vec::new());
    for (queue, url) in urls.iter().enumerate().take(WAKES) {
        let template = SendTemplate::new(&endpoint.dialect, url, shape);
        let request = template.bytes(&endpoint.dialect, &mut scratch);
        let (status, _) = sender.exchange(request).await?;
        ensure!(status == 200, "send was answered with status {status}");
        let answered = Instant::now();
        let first = timeout(Duration::from_secs(1), wakes.recv()).await.ok().flatten();
        let second = timeout(OTHERS, wakes.recv()).await.ok().flatten();
        match (&first, &second) {
            (Some(woken), None) if woken.queue == queue => {}
            _ => wrong += 1,
        }
        if let Some(woken) = first {
            // A poll may be answered before the send is.
            let taken = woken.at.saturating_duration_since(answered);
            taken_us.push(taken.as_secs_f64() * 1e6);
        }
    }
    Ok((taken_us, wrong))
}

async fn poll(
    mut connection: Connection,
    request: &[u8],
    queue: usize,
    woken: &mpsc::Sender<Woken>,
) -> Result<()> {
    let (status, body) = connection.exchange(request).await?;
    ensure!(status == 200, "receive was answered with status {status}");
    if body.len() > 2 {
        // Whoever asked may have ended.
        let _ = woken.send(Woken { queue, at: Instant::now() }).await;
    }
    Ok(())
}

fn receive_request(endpoint: &Endpoint, url: &str) -> Vec<u8> {
    let mut request = Vec::new();
    endpoint.dialect.receive(url, 10, WAIT_S, &mut request);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_flat_when_three_moments_are_alike() {
        assert!(!is_flat(&[]) && !is_flat(&[0.001, 0.001]));
        assert!(!is_flat(&[0.001, 0.2, 0.001, 0.002]));
        assert!(is_flat(&[0.9, 0.2, 0.004, 0.001, 0.005]));
    }

    #[tokio::test]
    async fn a_poll_that_ended_early_is_a_fault() {
        let mut tasks = JoinSet::new();
        tasks.spawn(std::future::pending());
        tokio::task::yield_now().await;
        let mut found =
            |error| all_wait(&mut tasks, &RefCell::new(error)).map_err(|e| e.to_string());
        assert_eq!(found(None), Ok(()));
        assert_eq!(found(Some(anyhow::anyhow!("x"))), Err("a long poll failed".to_owned()));

        tasks.spawn(async {});
        tokio::task::yield_now().await;
        let error = all_wait(&mut tasks, &RefCell::new(None)).unwrap_err();
        assert!(error.to_string().contains("before anything was sent"), "{error}");
    }

    #[test]
    fn polls_leave_files_to_the_server_and_there_are_always_some() {
        assert_eq!([14_000, 10_256, 4_096, 1_024].map(polls_within), [10_000, 6_256, 1_024, 256]);
        assert!(polls_within(u64::MAX) > POLLS);
    }
}
