//! Lines on their way to standard error, which a thread of its own writes: nobody who logs waits
//! for whoever reads them, be it a full pipe or a stopped terminal.

use std::{
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Lines that are not written yet and would take more than this are left out.
const MOST_BYTES: usize = 1 << 20;

/// Between two attempts to write to what takes nothing for now and does not wait.
const PAUSE: Duration = Duration::from_millis(10);

/// Takes lines; each call of `write` is one.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// A line came.
    filled: Condvar,
    /// All are written.
    emptied: Condvar,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    left_out: u64,
    is_writing: bool,
}

impl Lines {
    /// Starts the thread. After lines that were left out, once it has written all that waited,
    /// `tell_left_out` is called with how many.
    pub(super) fn start(
        mut to: impl Write + Send + 'static,
        tell_left_out: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Lines> {
        let lines = Lines::default();
        let this = lines.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            let mut bytes = Vec::new();
            loop {
                let left_out = this.take(&mut bytes);
                // That they cannot be written, as into a file on a full disk, is no reason to end.
                let _ = write_all(&mut to, &bytes);
                bytes.clear();
                if left_out > 0 {
                    tell_left_out(left_out);
                }
            }
        })?;
        Ok(lines)
    }

    /// Waits until all lines are written, but not longer than this.
    pub(super) fn finish(&self, longest: Duration) {
        let waiting = self.lock();
        let is_left = |waiting: &mut Waiting| waiting.is_writing || !waiting.bytes.is_empty();
        drop(self.0.emptied.wait_timeout_while(waiting, longest, is_left));
    }

    /// Waits for lines and swaps them with `bytes`, which are written. Returns how many were left
    /// out behind them.
    fn take(&self, bytes: &mut Vec<u8>) -> u64 {
        let mut waiting = self.lock();
        waiting.is_writing = false;
        if waiting.bytes.is_empty() {
            self.0.emptied.notify_all();
        }
        while waiting.bytes.is_empty() {
            waiting = self.0.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_writing = true;
        std::mem::swap(&mut waiting.bytes, bytes);
        std::mem::take(&mut waiting.left_out)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lock();
        if waiting.bytes.len() + line.len() > MOST_BYTES {
            waiting.left_out += 1;
        } else {
            waiting.bytes.extend_from_slice(line);
            self.0.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all, also where writing does not wait: whoever shares the pipe or terminal may have asked
/// for that (`O_NONBLOCK`), and it goes for all of them.
fn write_all(to: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Tells of each write, and goes on when it is told to.
    struct Slow {
        written: Sender<Vec<u8>>,
        go_on: Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            self.go_on.recv().map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_logs_does_not_wait_and_what_does_not_fit_is_counted() {
        let ((written, is_written), (go, go_on)) = (channel(), channel());
        let (left_out, is_left_out) = channel();
        let tell = move |lines| left_out.send(lines).unwrap();
        let mut lines = Lines::start(Slow { written, go_on }, tell).unwrap();

        lines.write_all(b"first\n").unwrap();
        assert_eq!(is_written.recv().unwrap(), b"first\n");
        for _ in 0..3 {
            lines.write_all(&[b'a'; MOST_BYTES]).unwrap();
        }
        lines.finish(Duration::from_millis(1));
        go.send(()).unwrap();
        assert_eq!(is_written.recv().unwrap(), [b'a'; MOST_BYTES]);
        go.send(()).unwrap();

        assert_eq!(is_left_out.recv().unwrap(), 2);
        lines.finish(Duration::MAX);
    }

    /// Takes a few bytes at a time, and nothing every other time.
    struct NonBlocking {
        written: Sender<Vec<u8>>,
        is_full: bool,
    }

    impl Write for NonBlocking {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.is_full = !self.is_full;
            if self.is_full {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(4);
            self.written.send(bytes[..taken].to_vec()).map_err(io::Error::other)?;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn reader_that_is_not_waited_for_by_writing_loses_nothing() {
        let (written, is_written) = channel();
        let to = NonBlocking { written, is_full: false };
        let mut lines = Lines::start(to, |_| ()).unwrap();

        lines.write_all(b"first line\n").unwrap();
        lines.finish(Duration::MAX);

        assert_eq!(is_written.try_iter().collect::<Vec<_>>().concat(), b"first line\n");
    }
}
