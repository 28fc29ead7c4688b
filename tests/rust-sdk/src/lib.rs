//! Starts the real binary for tests: a port of its choice, a data directory of its own, awaited.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// One server process; ends with the value.
pub struct Server {
    child: Child,
    directory: PathBuf,
    endpoint: String,
}

impl Server {
    /// Starts a server and waits until it serves.
    pub fn start(name: &str) -> Server {
        let directory = env::temp_dir().join(format!("millrace-rust-{}-{name}", process::id()));
        fs::create_dir_all(&directory).expect("the directory is made");
        let log = fs::File::create(directory.join("server.log")).expect("the log is made");
        let child = Command::new(binary())
            .args(["serve", "--durability", "os", "--listen", "127.0.0.1:0"])
            .args(["--console-listen", "off", "--log-format", "json"])
            .arg("--data")
            .arg(directory.join("data"))
            // No settings but these.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log is shared"))
            .stderr(log)
            .spawn()
            .expect("the binary starts; build it with `cargo build --profile fast -p millrace`");
        let mut server = Server { child, directory, endpoint: String::new() };
        server.wait_until_it_serves();
        server
    }

    /// What a client is given.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    fn wait_until_it_serves(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(endpoint) = served_at(&self.log()) {
                self.endpoint = endpoint;
                return;
            }
            let ended = self.child.try_wait().expect("the process can be asked");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the server does not serve:\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("server.log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log();
        let _ = fs::remove_dir_all(&self.directory);
        if !thread::panicking() {
            assert!(!log.contains("panic"), "the server panicked:\n{log}");
        }
    }
}

/// The endpoint in the log's line that says that the server serves.
fn served_at(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains("\"serving\""))?;
    let (_, rest) = line.split_once("\"endpoint\":\"")?;
    // Nothing in a URL is escaped; a line that is half written has no end.
    rest.split_once('"').map(|(endpoint, _)| endpoint.to_owned())
}

fn binary() -> PathBuf {
    if let Some(path) = env::var_os("SERVER_BINARY") {
        return path.into();
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("target/fast/millrace")
}
