//! What a run has done so far, second by second: for a terminal, and for Prometheus by HTTP.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};

/// Counts of one second, or sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) deleted: u64,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
}

/// Shared by who measures and who shows. One short lock, taken once a second and once a scrape.
#[derive(Debug, Default)]
pub(crate) struct Live {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    run: String,
    totals: Counts,
    /// The last seconds' messages, received and deleted or else sent; at most [`SHOWN`].
    recent: VecDeque<u64>,
}

/// Serves `/metrics` until it is dropped.
pub(crate) struct MetricsListener {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Seconds of a line of bars.
const SHOWN: usize = 30;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// How soon a new connection is seen.
const TURN: Duration = Duration::from_millis(20);
const REQUEST_MAX: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(2);

impl Live {
    /// Another run begins; sums go on.
    pub(crate) fn begin(&self, run: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        run.clone_into(&mut state.run);
        state.recent.clear();
    }

    pub(crate) fn second(&self, counts: Counts) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = &mut state.totals;
        totals.sent += counts.sent;
        totals.received += counts.received;
        totals.deleted += counts.deleted;
        totals.requests += counts.requests;
        totals.failed += counts.failed;
        if state.recent.len() == SHOWN {
            state.recent.pop_front();
        }
        state.recent.push_back(if counts.deleted > 0 { counts.deleted } else { counts.sent });
    }

    /// The last seconds as bars, the highest of them as high as can be.
    pub(crate) fn bars(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = state.recent.iter().copied().max().unwrap_or(0).max(1);
        let bar = |value: &u64| {
            let step = (value * (BARS.len() as u64 - 1)).div_ceil(highest);
            BARS.get(step as usize).copied().unwrap_or(BARS[0])
        };
        state.recent.iter().map(bar).collect()
    }

    /// Prometheus' text form.
    fn text(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Counts { sent, received, deleted, requests, failed } = state.totals;
        let run = state.run.replace(['"', '\\', '\n'], " ");
        let mut text = String::new();
        let mut family = |name: &str, help: &str, kind: &str, samples: &[(String, u64)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let outcome = |outcome: &str| format!("{{outcome=\"{outcome}\"}}");
        family(
            "millrace_bench_messages_total",
            "Messages, by what has become of them.",
            "counter",
            &[
                (outcome("sent"), sent),
                (outcome("received"), received),
                (outcome("deleted"), deleted),
            ],
        );
        let all = String::new;
        let requests = &[(all(), requests)];
        family("millrace_bench_requests_total", "Requests answered.", "counter", requests);
        let failed = &[(all(), failed)];
        family("millrace_bench_failed_requests_total", "Requests refused.", "counter", failed);
        let run = &[(format!("{{run=\"{run}\"}}"), 1)];
        family("millrace_bench_run_info", "What is measured.", "gauge", run);
        text
    }
}

impl MetricsListener {
    /// Returns the address too: the port may have been left open.
    pub(crate) fn start(address: &str, live: Arc<Live>) -> Result<(MetricsListener, SocketAddr)> {
        let listener =
            TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
        listener.set_nonblocking(true).context("listening")?;
        let address = listener.local_addr().context("local address")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_seen_over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !is_seen_over.load(Relaxed) {
                match listener.accept() {
                    // A scraper that leaves or says nonsense is its own business.
                    Ok((socket, _)) => drop(answer(socket, &live)),
                    Err(_) => thread::sleep(TURN),
                }
            }
        });
        Ok((MetricsListener { is_over, thread: Some(thread) }, address))
    }
}

impl Drop for MetricsListener {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One request of a connection, which then ends.
fn answer(mut socket: TcpStream, live: &Live) -> std::io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let (mut request, mut chunk) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = socket.read(&mut chunk)?;
        if count == 0 || request.len() > REQUEST_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(chunk.get(..count).unwrap_or_default());
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", live.text()),
        false => ("404 Not Found", "only /metrics is here\n".to_owned()),
    };
    write!(
        socket,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sent: u64) -> Counts {
        Counts { sent, requests: sent, ..Counts::default() }
    }

    #[test]
    fn bars_are_as_high_as_their_seconds() {
        let live = Live::default();
        assert_eq!(live.bars(), "");

        [0, 50, 100].into_iter().for_each(|number| live.second(sent(number)));
        assert_eq!(live.bars(), "▁▅█");

        (0..40).for_each(|_| live.second(sent(1)));
        assert_eq!(live.bars(), "█".repeat(SHOWN));
    }

    #[test]
    fn a_scrape_sees_the_sums() {
        let live = Arc::new(Live::default());
        let (_listener, address) =
            MetricsListener::start("127.0.0.1:0", Arc::clone(&live)).unwrap();
        live.begin("pc \"10\"");
        live.second(sent(3));
        live.second(sent(4));

        let get = |path: &str| {
            let mut socket = TcpStream::connect(address).unwrap();
            write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut text = String::new();
            socket.read_to_string(&mut text).unwrap();
            text
        };

        let text = get("/metrics");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("millrace_bench_messages_total{outcome=\"sent\"} 7\n"), "{text}");
        assert!(text.contains("millrace_bench_run_info{run=\"pc  10 \"} 1\n"), "{text}");
        assert!(get("/").starts_with("HTTP/1.1 404 "));
    }
}
