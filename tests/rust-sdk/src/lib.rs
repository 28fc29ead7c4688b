//! Starts the real binary for tests: a free port, a data directory of its own, `/health` awaited.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// One server process; ends with the value.
pub struct Server {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl Server {
    /// Starts a server and waits until it serves.
    pub fn start(name: &str) -> Server {
        let directory = env::temp_dir().join(format!("millrace-rust-{}-{name}", process::id()));
        fs::create_dir_all(&directory).expect("the directory is made");
        let log = fs::File::create(directory.join("server.log")).expect("the log is made");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|probe| probe.local_addr())
            .expect("a port is free")
            .port();
        let child = Command::new(binary())
            .args(["serve", "--durability", "os", "--listen", &format!("127.0.0.1:{port}")])
            .arg("--data")
            .arg(directory.join("data"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log is shared"))
            .stderr(log)
            .spawn()
            .expect("the binary starts; build it with `cargo build --profile fast -p millrace`");
        let mut server = Server { child, directory, port };
        server.wait_until_healthy();
        server
    }

    /// What a client is given.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn wait_until_healthy(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.is_healthy() {
            let ended = self.child.try_wait().expect("the process can be asked");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the server does not serve:\n{}",
                self.log()
            );
            // Nothing announces an open port but a connection to it.
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut head = [0; 12];
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok()
            && stream.read_exact(&mut head).is_ok()
            && &head == b"HTTP/1.1 200"
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

fn binary() -> PathBuf {
    if let Some(path) = env::var_os("SERVER_BINARY") {
        return path.into();
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("target/fast/millrace")
}
