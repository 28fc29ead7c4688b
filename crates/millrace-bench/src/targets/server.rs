//! The processes that are measured: a Millrace server on a directory, and the ceiling.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    load::{Endpoint, Keys, Protocol},
    process,
};

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) binary: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) durability: &'static str,
    pub(crate) keys: Option<Keys>,
}

/// A process that serves; killed when dropped.
pub(crate) struct Server {
    child: Child,
    url: String,
    keys: Option<Keys>,
    /// Reads what the process prints, so that it never waits for us.
    reader: Option<JoinHandle<()>>,
    /// From its start to the line that says it serves.
    pub(crate) start_up: Duration,
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
            // The targets have more in flight than the service's own limit allows.
            .env("MILLRACE_LIMITS__IN_FLIGHT", "20000000")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(keys) = &settings.keys {
            command.env("MILLRACE_ACCESS_KEY", &keys.access_key);
            command.env("MILLRACE_SECRET_KEY", &keys.secret_key);
        }
        let started = Instant::now();
        let mut child =
            command.spawn().with_context(|| format!("starting {}", settings.binary.display()))?;
        let output = child.stderr.take().context("no standard error")?;
        let keys = settings.keys.clone();
        Server::wait(child, output, started, keys, |line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            (line["message"] == "serving").then(|| line["endpoint"].as_str().map(str::to_owned))?
        })
    }

    /// The ceiling: this program itself.
    pub(crate) fn start_ceiling() -> Result<Server> {
        let this = std::env::current_exe().context("finding this program")?;
        let started = Instant::now();
        let mut child = Command::new(this)
            .args(["ceiling", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the ceiling")?;
        let output = child.stdout.take().context("no standard output")?;
        Server::wait(child, output, started, None, |line| {
            line.trim().strip_prefix("ceiling serves at ").map(str::to_owned)
        })
    }

    fn wait(
        child: Child,
        output: impl Read + Send + 'static,
        started: Instant,
        keys: Option<Keys>,
        url_in: impl Fn(&str) -> Option<String>,
    ) -> Result<Server> {
        let mut server =
            Server { child, url: String::new(), keys, reader: None, start_up: Duration::ZERO };
        let mut output = BufReader::new(output);
        let (mut line, mut printed) = (String::new(), String::new());
        server.url = loop {
            line.clear();
            if output.read_line(&mut line).context("reading what the server says")? == 0 {
                bail!("the server ended before it served: {printed}");
            }
            if let Some(url) = url_in(&line) {
                break url;
            }
            printed += &line;
        };
        server.start_up = started.elapsed();
        server.reader = Some(thread::spawn(move || {
            let _ = std::io::copy(&mut output, &mut std::io::sink());
        }));
        Ok(server)
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        self.endpoint_in(Protocol::Json)
    }

    pub(crate) fn endpoint_in(&self, protocol: Protocol) -> Result<Endpoint> {
        Endpoint::new(&self.url, protocol, self.keys.clone())
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

/// The server that was built beside this program.
pub(crate) fn binary_beside_this() -> Result<PathBuf> {
    let this = std::env::current_exe().context("finding this program")?;
    let beside = this.parent().unwrap_or(Path::new(".")).join("millrace");
    if !beside.is_file() {
        bail!(
            "{} is not there: build it with the same profile (cargo build --release -p millrace) \
             or name it with --binary",
            beside.display()
        );
    }
    Ok(beside)
}
