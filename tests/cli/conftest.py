"""The everyday commands as a shell runs them, against the shared server."""

import os
import subprocess

import pytest

from support.server import binary


@pytest.fixture
def millrace(server):
    """`millrace("queue", "list")` → the finished process; fails unless it ends with `expect`.
    `endpoint=None`: no environment names a server."""

    def run(*arguments, expect=0, stdin="", endpoint=server.endpoint):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "MILLRACE_"))
        }
        if endpoint is not None:
            environment["MILLRACE_ENDPOINT"] = endpoint
        done = subprocess.run(
            [binary(), *arguments], input=stdin, env=environment, capture_output=True, text=True, timeout=60
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
