"""Fixtures for pytest, there as soon as the package is installed.

One server serves all tests of a session (of each worker, with pytest-xdist). It starts when the
first test asks for it, and each test finds it without queues.
"""

from __future__ import annotations

from typing import Any, Iterator

import pytest

from millrace.server import Server


@pytest.fixture(scope="session")
def millrace_arguments() -> list[str]:
    """Flags of `millrace serve` for the session's server; define this fixture to give some."""
    return []


@pytest.fixture(scope="session")
def millrace_server(millrace_arguments: list[str]) -> Iterator[Server]:
    """The session's server, with whatever earlier tests left in it."""
    with Server(*millrace_arguments) as server:
        yield server


@pytest.fixture
def millrace(millrace_server: Server) -> Server:
    """The session's server, without queues: `millrace.endpoint`, `millrace.advance(seconds)`."""
    millrace_server.reset()
    return millrace_server


@pytest.fixture
def millrace_environment(millrace: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Sets the variables with which AWS SDKs use the server, for code that makes its own clients."""
    for name, value in millrace.environment.items():
        monkeypatch.setenv(name, value)
    return millrace.environment


@pytest.fixture
def millrace_sqs(millrace: Server) -> Any:
    """boto3's client of SQS, for the server without queues. boto3 has to be installed."""
    return millrace.client("sqs")
