"""The everyday commands as a shell runs them, against the shared server."""

import os
import resource
import signal
import subprocess

import pytest

from support.server import binary


@pytest.fixture
def millrace(server):
    """`millrace("queue", "list")` → the finished process; fails unless it ends with `expect`.
    `endpoint=None`: no environment names a server. `file_bytes`: as a disk does that has no more,
    the system refuses to make a file longer. `environment`: variables besides."""

    def run(*arguments, expect=0, stdin="", endpoint=server.endpoint, file_bytes=None, environment=()):
        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "MILLRACE_"))
        }
        if endpoint is not None:
            variables["MILLRACE_ENDPOINT"] = endpoint
        variables.update(environment)
        done = subprocess.run(
            [binary(), *arguments],
            input=stdin,
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=limit_files if file_bytes is not None else None,
        )
        assert done.returncode == expect, (done.args, done.stdout, done.stderr)
        return done

    return run


@pytest.fixture
def lines(millrace):
    """The lines that a command prints."""

    def run(*arguments, **options):
        return millrace(*arguments, **options).stdout.splitlines()

    return run
