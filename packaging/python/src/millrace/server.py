"""A Millrace server for tests: a free port, a clock to advance, and nothing left on disk."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30


def program() -> str:
    """The path of the program `millrace` that came with this package, else of the one in PATH."""
    schemes = ["", os.name + "_user"]
    for scheme in schemes:
        scripts = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        if os.access(path := os.path.join(scripts, "millrace"), os.X_OK):
            return path
    if path := shutil.which("millrace"):
        return path
    raise FileNotFoundError("the program millrace is neither beside Python nor in PATH")


class Server:
    """A server of its own, empty at its start: `with Server() as server: … server.endpoint`.

    `arguments` are flags of `millrace serve`. They win over what a server for tests has: memory
    durability, a free port of 127.0.0.1, no console, and the calls that move its clock and empty it.
    """

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._endpoint: str | None = None

    def start(self) -> Server:
        """Returns once the server answers."""
        if self._process is not None:
            raise RuntimeError("the server was started already")
        self._directory = Path(tempfile.mkdtemp(prefix="millrace-"))
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [program(), "serve", *self.arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self._directory,
                    env=self._settings(),
                )
            self._endpoint = self._wait_for_endpoint()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the server and removes what it kept. Does nothing to one that does not run."""
        process, self._process, self._endpoint = self._process, None, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """Where the server answers, such as `http://127.0.0.1:43210`."""
        if self._endpoint is None:
            raise RuntimeError("the server does not run")
        return self._endpoint

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which SDKs and the AWS CLI use this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
        }

    def advance(self, seconds: float) -> None:
        """Moves the server's clock on: what is due by then has happened when this returns."""
        self._post("/_millrace/clock/advance", {"seconds": seconds})

    def reset(self) -> None:
        """Removes all queues with their messages. The clock stays where it is."""
        self._post("/_localstack/state/reset", {})

    def client(self, service: str = "sqs", **options: Any) -> Any:
        """A client of boto3, which has to be installed."""
        import boto3

        ours = {
            "endpoint_url": self.endpoint,
            "region_name": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }
        return boto3.client(service, **(ours | options))

    @property
    def log(self) -> str:
        """What the server has logged so far, one JSON object a line."""
        return self._log.read_text(errors="replace")

    @property
    def _log(self) -> Path:
        if self._directory is None:
            raise RuntimeError("the server does not run")
        return self._directory / "server.log"

    def _settings(self) -> dict[str, str]:
        """The environment of the server: none of the user's own settings of Millrace."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MILLRACE_")}
        # The server ends even if this process is killed. The kernel watches the thread that started
        # it, so this is left out where that may end before the process does.
        if threading.current_thread() is threading.main_thread():
            kept["_MILLRACE_PARENT"] = str(os.getpid())
        return {
            **kept,
            "MILLRACE_TEST": "true",
            "MILLRACE_DURABILITY": "memory",
            "MILLRACE_LISTEN": "127.0.0.1:0",
            "MILLRACE_CONSOLE_LISTEN": "off",
            "MILLRACE_DATA": str(self._directory / "data") if self._directory else "",
            "MILLRACE_LOG_FORMAT": "json",
        }

    def _wait_for_endpoint(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            ended = self._process.poll() is not None
            # The last line may be half written.
            for line in self.log.split("\n")[:-1]:
                if '"serving"' in line:
                    return str(json.loads(line)["endpoint"])
            if ended:
                raise RuntimeError(f"the server ended with {self._process.returncode}:\n{self.log}")
            time.sleep(0.005)
        raise TimeoutError(f"the server does not answer after {START_TIMEOUT_S} s:\n{self.log}")

    def _post(self, path: str, body: dict[str, Any]) -> None:
        # http.client, as urllib would ask a proxy of the environment.
        address = urlsplit(self.endpoint)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"POST {path} was answered with {answer.status}: {text}")
