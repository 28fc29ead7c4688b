"""A page's blocks as a reader pastes them: one directory, one shell's variables, one server.

Ports 4566 and 4567 are replaced by free ones everywhere, in what a page shows too, so that pages run beside
other servers. Where a page moves messages from another service, a second server plays that service.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

from docs.blocks import matches
from support.process import running
from support.server import ROOT, Server, binary, free_port

BLOCK_TIMEOUT_S = 60
# Services elsewhere, each played by a server that has two queues and a message.
ELSEWHERE = ["https://sqs.eu-west-1.amazonaws.com", "http://localhost:9324"]
QUEUES_ELSEWHERE = """
[queues.jobs]
visibility_timeout = 45
dead_letter_queue = "jobs-dead"
max_receive_count = 3
[queues.jobs-dead]
"""
# Aliases work as on a terminal; what a block exports is there in the next. An error that curl is answered fails.
SHELL = """
shopt -s expand_aliases
curl() { command curl --no-progress-meter --fail-with-body "$@"; }
[ ! -e .state ] || . ./.state
set -eo pipefail
. ./.block
set +e
{ declare -px; alias -p; printf 'cd %q\\n' "$PWD"; } >"$STATE"
"""


class Session:
    def __init__(self, directory):
        self.directory = directory
        self.ports = {"4566": str(free_port()), "4567": str(free_port())}
        self.server = self.elsewhere = None
        self.closing = contextlib.ExitStack()
        self.printed = ""

        programs = directory / ".programs"
        programs.mkdir()
        (programs / "millrace").symlink_to(binary().resolve())
        (directory / "node_modules").symlink_to(ROOT / "tests" / "js" / "node_modules")
        (directory / "docs").symlink_to(ROOT / "docs")
        path = [str(programs), os.path.dirname(sys.executable), os.environ["PATH"]]
        self.environment = {
            "PATH": os.pathsep.join(path),
            "HOME": str(directory),
            "STATE": str(directory / ".state"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "MILLRACE_LISTEN": "127.0.0.1:" + self.ports["4566"],
            "MILLRACE_CONSOLE_LISTEN": "127.0.0.1:" + self.ports["4567"],
            "MILLRACE_ENDPOINT": self.endpoint,
        }

    @property
    def endpoint(self):
        return "http://127.0.0.1:" + self.ports["4566"]

    def here(self, text: str) -> str:
        # A server that takes over the port of another one.
        text = text.replace("127.0.0.1:9324", "127.0.0.1:4566")
        for shown, port in self.ports.items():
            text = re.sub(rf"(?<!\d){shown}(?!\d)", port, text)
        for service in ELSEWHERE:
            # As an address that is called. In a queue's URL it is only a name.
            text = re.sub(re.escape(service) + r"(?![/\w])", lambda _: self.other_endpoint(), text)
        return text

    def other_endpoint(self):
        if self.elsewhere is None:
            options = {"config": QUEUES_ELSEWHERE, "durability": "memory"}
            region = {"MILLRACE_REGION": "eu-west-1", "MILLRACE_ACCOUNT": "123456789012"}
            self.elsewhere = Server(self.directory / ".elsewhere", env=region, **options).start()
            self.closing.callback(self.elsewhere.close)
            send = "/123456789012/jobs?Action=SendMessage&MessageBody=moved"
            assert self.elsewhere.get(send)[0] == 200
        return self.elsewhere.endpoint

    def play(self, blocks):
        """All blocks of a page, in order. A page that starts no server has one with the defaults."""
        if not any("server" in block.marks for block in blocks):
            self.serve("millrace serve", blocks[0].page)
        for block in blocks:
            self.run(block)
            if "output" in block.marks:
                shown = self.here(block.text)
                assert matches(shown, self.printed), f"{block.place} shows\n{shown}\nprinted:\n{self.printed}"

    def run(self, block):
        """Does what the block's marks ask for; fails with its place."""
        text = self.here(block.text)
        if "file" in block.marks:
            file = self.directory / block.marks["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        if "server" in block.marks:
            self.serve(text, block.place)
        if "test" in block.marks:
            if "stopped" in block.marks:
                self.stop()
            self.printed = self.execute(block, text)

    def serve(self, command, place):
        self.stop()
        command = command.strip().replace("cargo run --release --", "millrace")
        log = self.closing.enter_context((self.directory / ".server.log").open("w+"))
        options = {"cwd": self.directory, "env": self.environment, "stdout": log, "stderr": log}
        server = self.closing.enter_context(running(["bash", "-c", command], **options))
        deadline = time.monotonic() + BLOCK_TIMEOUT_S
        while not self.is_healthy():
            log.seek(0)
            assert server.poll() is None, f"{place}: exit code {server.returncode}:\n{log.read()}"
            assert time.monotonic() < deadline, f"{place}: not healthy in {BLOCK_TIMEOUT_S} s:\n{log.read()}"
            time.sleep(0.005)  # Nothing announces an open port but a connection to it.
        self.server = server

    def is_healthy(self):
        try:
            return urllib.request.urlopen(self.endpoint + "/health", timeout=5).status == 200
        except OSError:
            return False

    def stop(self):
        """Ends the server as Ctrl-C does."""
        server, self.server = self.server, None
        if server is not None:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGINT)
            assert server.wait(BLOCK_TIMEOUT_S) == 0

    def execute(self, block, text) -> str:
        if block.language in ("sh", "bash"):
            (self.directory / ".block").write_text(text)
            script = SHELL
        elif block.language == "python":
            (self.directory / ".block.py").write_text(text)
            script = "[ ! -e .state ] || . ./.state; exec python .block.py"
        elif block.language == "js":
            (self.directory / ".block.mjs").write_text(text)
            script = "[ ! -e .state ] || . ./.state; exec node .block.mjs"
        else:
            raise AssertionError(f"{block.place}: nothing runs {block.language!r}")
        options = {"cwd": self.directory, "env": self.environment, "stdin": subprocess.DEVNULL}
        with (self.directory / ".output").open("w+") as output:
            command = ["bash", "-c", script]
            with running(command, stdout=output, stderr=subprocess.STDOUT, **options) as process:
                code = process.wait(BLOCK_TIMEOUT_S)
            output.seek(0)
            printed = output.read()
        expected = int(block.marks.get("exit", 0))
        assert code == expected, f"{block.place}: exit code {code}, not {expected}:\n{text}\n{printed}"
        return printed

    def close(self):
        try:
            self.stop()
        finally:
            self.closing.close()
