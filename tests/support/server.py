"""The real binary as a test fixture: one process, one port, one data directory, one log.

The binary is `$SERVER_BINARY`, else the one that `cargo build --profile fast -p millrace` leaves in
the target directory.
"""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 20
STOP_TIMEOUT_S = 20
CLAIMS = []


def binary() -> Path:
    if "SERVER_BINARY" in os.environ:
        return Path(os.environ["SERVER_BINARY"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "fast" / "millrace"


def free_port() -> int:
    """A free port below the ephemeral range: there, a client that connects to a server which is
    down could otherwise be given the very port that it asks for, and talk to itself."""
    while True:
        port = random.randint(20_000, 32_000)
        # Held while this process runs: other tests run beside it, and a server that restarts leaves
        # its port for a moment.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0millrace-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        CLAIMS.append(claim)
        return port


class Server:
    """One server. `restart` keeps port and data; `stop` and `kill` may be followed by `start`."""

    def __init__(
        self, directory: Path, *, durability="os", test=True, console="off", config=None, args=(), env=None
    ):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.data = self.directory / "data"
        self.log = self.directory / "server.log"
        self.durability = durability
        self.test = test
        self.console = console
        self.config = config
        self.args = list(args)
        self.env = dict(env or {})
        self.port = free_port()
        self.process = None
        self.advanced_s = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        command = [str(binary()), "serve", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--data", str(self.data), "--durability", self.durability, "--console-listen", self.console]
        if self.test:
            command.append("--test")
        if self.config is not None:
            path = self.directory / "millrace.toml"
            path.write_text(self.config)
            command += ["--config", str(path)]
        return command + self.args

    def spawn(self):
        """Starts the process without waiting for it to serve."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment | self.env,
                cwd=self.directory,
            )

    def start(self) -> "Server":
        self.spawn()
        try:
            self.wait_until_healthy()
        except BaseException:
            self.kill()  # Nobody else ends what never came to be used.
            raise
        return self

    def wait_until_healthy(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"server exited {self.process.returncode}:\n{self.log_tail()}")
            try:
                if self.get("/health", timeout=5)[0] == 200:
                    return
            except OSError:
                time.sleep(0.005)  # Nothing announces an open port but a connection to it.
        raise AssertionError(f"server is not healthy in {START_TIMEOUT_S} s:\n{self.log_tail()}")

    def stop(self) -> int:
        """SIGTERM: drains and exits. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"server did not drain:\n{self.log_tail()}") from None

    def kill(self):
        """SIGKILL: as a crash of the process."""
        self.process.kill()
        self.process.wait()

    def restart(self, how="stop"):
        getattr(self, how)()
        self.start()

    def close(self):
        """Ends the process, whatever its state, and checks that it never panicked."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        assert "panic" not in log, f"the server panicked:\n{self.log_tail()}"

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    def get(self, path: str, timeout=30) -> tuple[int, bytes]:
        return self.http("GET", path, timeout=timeout)

    def http(self, method, path, body=None, headers=None, timeout=30) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def advance(self, seconds: float):
        """Moves the server's clock on (`--test` only)."""
        body = json.dumps({"seconds": seconds})
        headers = {"Content-Type": "application/json"}
        status, answer = self.http("POST", "/_millrace/clock/advance", body, headers)
        assert status == 200, (status, answer)
        self.advanced_s += seconds

    def now(self) -> float:
        """The server's time, seconds since 1970."""
        return time.time() + self.advanced_s
