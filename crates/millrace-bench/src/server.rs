//! The processes that are measured: a Millrace server on a directory, and the ceiling.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_core::Url;

use crate::{
    access::{Access, Keys, Protocol, given_url},
    certificate::Certificate,
    leftovers::{Directory, Registered},
    load::Endpoint,
    process,
    tls::Trust,
};

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) binary: PathBuf,
    pub(crate) flags: Vec<String>,
    pub(crate) data: PathBuf,
    pub(crate) durability: &'static str,
    pub(crate) keys: Option<Keys>,
    /// Serves TLS with it.
    pub(crate) certificate: Option<Arc<Certificate>>,
}

/// Longer than a start takes that reads tens of millions of messages.
const START_UP_MAX: Duration = Duration::from_secs(300);

/// A process that serves; killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Until it is ended.
    registered: Option<Registered>,
    url: String,
    keys: Option<Keys>,
    /// Reads what the process prints, so that it never waits for us.
    reader: Option<JoinHandle<()>>,
    /// Is removed once the process is gone.
    _data: Option<Directory>,
    /// From its start to the line that says it serves.
    pub(crate) start_up: Duration,
}

/// The server's program: `millrace` beside this one or in PATH.
pub(crate) fn millrace() -> Result<PathBuf> {
    millrace_process::find_program("millrace")
        .context("the server's program, millrace, is neither beside millrace-bench nor in PATH")
}

impl Server {
    pub(crate) fn start(settings: &Settings) -> Result<Server> {
        let mut command = Command::new(&settings.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MILLRACE_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .args(["--durability", settings.durability, "--data"])
            .arg(&settings.data)
            .args(&settings.flags)
            // The targets have more in flight than the service's own limit allows.
            .env("MILLRACE_LIMITS__IN_FLIGHT", "20000000")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(keys) = &settings.keys {
            command.env("MILLRACE_ACCESS_KEY", &keys.access_key);
            command.env("MILLRACE_SECRET_KEY", &keys.secret_key);
        }
        if let Some(certificate) = &settings.certificate {
            command.arg("--tls-cert").arg(&certificate.certificate);
            command.arg("--tls-key").arg(&certificate.key);
        }
        let started = Instant::now();
        let (mut child, registered) = Registered::spawn(&mut command)
            .with_context(|| format!("starting {}", settings.binary.display()))?;
        let output = child.stderr.take().context("no standard error")?;
        let keys = settings.keys.clone();
        Server::wait((child, registered), output, started, keys, |line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            (line["message"] == "serving").then(|| line["endpoint"].as_str().map(str::to_owned))?
        })
    }

    /// The ceiling: this program itself.
    pub(crate) fn start_ceiling() -> Result<Server> {
        Server::start_ceiling_with(0, None)
    }

    /// A ceiling that closes each connection after so many answers; 0 for never.
    pub(crate) fn start_ceiling_with(
        close_after: u64,
        certificate: Option<&Certificate>,
    ) -> Result<Server> {
        let this = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(this);
        command
            .args(["ceiling", "--listen", "127.0.0.1:0"])
            .args(["--close-after", &close_after.to_string()])
            .stdout(Stdio::piped());
        if let Some(certificate) = certificate {
            command.arg("--tls-cert").arg(&certificate.certificate);
            command.arg("--tls-key").arg(&certificate.key);
        }
        let started = Instant::now();
        let (mut child, registered) =
            Registered::spawn(&mut command).context("starting the ceiling")?;
        let output = child.stdout.take().context("no standard output")?;
        Server::wait((child, registered), output, started, None, |line| {
            line.trim().strip_prefix("ceiling serves at ").map(str::to_owned)
        })
    }

    fn wait(
        (child, registered): (Child, Registered),
        output: impl Read + Send + 'static,
        started: Instant,
        keys: Option<Keys>,
        url_in: impl Fn(&str) -> Option<String> + Send + 'static,
    ) -> Result<Server> {
        let (found, serving) = mpsc::sync_channel(1);
        let reader = thread::spawn(move || {
            let mut output = BufReader::new(output);
            // Nobody waits for it any more after too long.
            let _ = found.send(find_url(&mut output, url_in));
            let _ = std::io::copy(&mut output, &mut std::io::sink());
        });
        let mut server = Server {
            child,
            registered: Some(registered),
            url: String::new(),
            keys,
            reader: Some(reader),
            _data: None,
            start_up: Duration::ZERO,
        };
        let url = serving.recv_timeout(START_UP_MAX);
        server.url = url.with_context(|| format!("not serving after {START_UP_MAX:?}"))??;
        server.start_up = started.elapsed();
        Ok(server)
    }

    /// Its data is removed with it.
    pub(crate) fn with_data(mut self, data: Directory) -> Server {
        self._data = Some(data);
        self
    }

    pub(crate) fn url(&self) -> Result<Url> {
        given_url("the server's own URL", &self.url)
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        self.endpoint_in(Protocol::Json)
    }

    pub(crate) fn endpoint_in(&self, protocol: Protocol) -> Result<Endpoint> {
        self.endpoint_with(protocol, self.keys.clone())
    }

    /// For clients that sign, whether or not this server checks that.
    pub(crate) fn endpoint_signing(&self, keys: &Keys) -> Result<Endpoint> {
        self.endpoint_with(Protocol::Json, Some(keys.clone()))
    }

    fn endpoint_with(&self, protocol: Protocol, keys: Option<Keys>) -> Result<Endpoint> {
        Endpoint::new(&self.url()?, &Access::Sqs { protocol, keys }, &Trust::anyone())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        process::resident_bytes(self.pid())
    }

    /// SIGKILL, and waits until the process is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.registered.take();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads up to the line that says where the process serves.
fn find_url(output: &mut impl BufRead, url_in: impl Fn(&str) -> Option<String>) -> Result<String> {
    let (mut line, mut printed) = (String::new(), String::new());
    loop {
        line.clear();
        if output.read_line(&mut line).context("reading what the server says")? == 0 {
            bail!("the server ended before it served: {printed}");
        }
        if let Some(url) = url_in(&line) {
            return Ok(url);
        }
        printed += &line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_server_serves_is_found_among_what_it_says() {
        let url_in = |line: &str| line.strip_prefix("at ").map(|url| url.trim().to_owned());

        assert_eq!(find_url(&mut &b"hello\nat x\nmore\n"[..], url_in).unwrap(), "x");

        let error = find_url(&mut &b"no such file\n"[..], url_in).unwrap_err();
        assert!(error.to_string().contains("before it served: no such file"), "{error}");
    }
}
