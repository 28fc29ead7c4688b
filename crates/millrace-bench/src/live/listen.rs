//! The series by HTTP: `GET /metrics`.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    Live,
    exposition::{CONTENT_TYPE, text},
};

/// How soon a new connection is seen.
const TURN: Duration = Duration::from_millis(20);
const REQUEST_MAX: usize = 8 << 10;
/// With a whole request: there is one thread for all, and the end of the run waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// For [`serve`].
pub(super) fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    listener.set_nonblocking(true).context("listening")?;
    Ok(listener)
}

/// Serves `/metrics` until it is over.
pub(super) fn serve(listener: &TcpListener, live: &Live, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        match listener.accept() {
            // A scraper that leaves or says nonsense is its own business.
            Ok((socket, _)) => drop(answer(socket, live, Instant::now() + PATIENCE)),
            Err(_) => thread::sleep(TURN),
        }
    }
}

/// One request of a connection, which then ends: by the deadline, if the peer is slow.
fn answer(mut socket: TcpStream, live: &Live, deadline: Instant) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    let (mut request, mut chunk) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        socket.set_read_timeout(Some(until(deadline)?))?;
        let count = match socket.read(&mut chunk) {
            Err(error) if is_interrupted(&error) => continue,
            outcome => outcome?,
        };
        if count == 0 || request.len() > REQUEST_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(chunk.get(..count).unwrap_or_default());
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", text(live)),
        false => ("404 Not Found", "only /metrics is here\n".to_owned()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let mut left = answer.as_bytes();
    while !left.is_empty() {
        socket.set_write_timeout(Some(until(deadline)?))?;
        let count = match socket.write(left) {
            Err(error) if is_interrupted(&error) => continue,
            outcome => outcome?,
        };
        left = left.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// By a stop of this process that is over: signal(7), as there is a timeout.
fn is_interrupted(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Interrupted
}

/// Time that is left, if any is.
fn until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{live::Event, watcher::Watcher};

    #[test]
    fn a_scrape_sees_the_sums() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let live = Arc::new(Live::default());
        let seen = Arc::clone(&live);
        let _watcher = Watcher::start("", move |is_over| serve(&listener, &seen, is_over)).unwrap();
        for sent in [3, 4] {
            live.add(Event::Sent, sent);
            live.roll();
        }

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
        assert!(get("/").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn a_request_that_comes_byte_by_byte_has_one_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let drip = thread::spawn(move || {
            while peer.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });

        let patience = Duration::from_millis(100);
        let outcome = answer(socket, &Live::default(), Instant::now() + patience);

        let kind = outcome.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock), "{kind}");
        drip.join().unwrap();
    }
}
