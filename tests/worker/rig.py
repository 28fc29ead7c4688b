"""A worker process, a network between it and the server that fails as told, a ledger of ids."""

import http.client
import http.server
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from support.server import binary, free_port

STOP_TIMEOUT_S = 40


class Work:
    """One `millrace work` process; its log is kept."""

    def __init__(self, directory: Path, endpoint: str, queue: str, *args, env=None, ignored=()):
        self.log = directory / f"work-{time.monotonic_ns()}.log"
        command = [str(binary()), "work", "--endpoint", endpoint, "--queue", queue, *args]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MILLRACE_"))}

        def set_signals():
            # The tests themselves may have been started with nohup.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)

        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=environment | (env or {}),
                preexec_fn=set_signals,
            )

    def wait(self, timeout=STOP_TIMEOUT_S) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the worker did not end:\n{self.text()}") from None

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def text(self) -> str:
        return self.log.read_text(errors="replace")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class Partition:
    """A TCP proxy. While cut, connections stay open and nothing passes; when healed, those are
    reset and new ones pass."""

    def __init__(self, port: int):
        self.upstream = port
        self.port = free_port()
        self.is_cut = False
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            pair = (client, socket.create_connection(("127.0.0.1", self.upstream)))
            self.pairs.append(pair)
            threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def forward(self, client, server):
        other = {client: server, server: client}
        try:
            while True:
                if self.is_cut:
                    # What waits to be read would end each select at once.
                    time.sleep(0.05)
                    continue
                readable, _, _ = select.select([client, server], [], [], 0.05)
                for end in [] if self.is_cut else readable:
                    data = end.recv(65536)
                    if not data:
                        return
                    other[end].sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            client.close()
            server.close()

    def cut(self):
        self.is_cut = True

    def heal(self):
        for pair in self.pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs.clear()
        self.is_cut = False

    def close(self):
        self.listener.close()
        self.heal()


class HttpServer:
    """Answers each POST and GET by calling `answer(path, headers, body)` → (status, headers, body)."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                self.do_POST()

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, content = answer(self.path, self.headers, body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                # A worker that has waited for long enough leaves.
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def throttling(port: int, rng, share: float) -> HttpServer:
    """Passes SQS requests on, and refuses a share of them as a busy service does."""

    def answer(path, headers, body):
        if rng.random() < share:
            error = {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow down"}
            code = {"x-amzn-query-error": "RequestThrottled;Sender"}
            return 400, code, json.dumps(error).encode()
        return forward(port, path, headers, body)

    return HttpServer(answer)


def forward(port: int, path, headers, body):
    """Asks the server what a proxy was asked."""
    upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    try:
        kept = ("x-amz-target", "content-type", "authorization", "x-amz-date")
        upstream.request("POST", path, body, {k: v for k, v in headers.items() if k.lower() in kept})
        reply = upstream.getresponse()
        return reply.status, {"Content-Type": reply.getheader("Content-Type", "")}, reply.read()
    finally:
        upstream.close()


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
XRAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"


def send_traced(sqs, url, **attributes):
    """Sends a message that belongs to a trace; `attributes` are texts besides `traceparent`."""
    text = {"DataType": "String"}
    attributes = {"traceparent": TRACEPARENT} | attributes
    sqs.send_message(
        QueueUrl=url,
        MessageBody="a",
        MessageAttributes={name: text | {"StringValue": value} for name, value in attributes.items()},
        MessageSystemAttributes={"AWSTraceHeader": text | {"StringValue": XRAY}},
    )
