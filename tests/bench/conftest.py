"""Endpoints: the shared server's, and a way to one that takes longer."""

import contextlib
import time
import urllib.parse

import pytest

from support.proxy import Proxy

DELAY_S = 0.02


class SlowProxy(Proxy):
    def asked(self, data):
        time.sleep(DELAY_S)


@pytest.fixture
def endpoint(server):
    return server.endpoint


@pytest.fixture
def slow():
    """`slow(endpoint)` → the URL of a proxy that holds every request back."""
    with contextlib.ExitStack() as proxies:

        def start(endpoint: str) -> str:
            proxy = SlowProxy(urllib.parse.urlsplit(endpoint).port)
            return proxies.enter_context(contextlib.closing(proxy)).endpoint

        yield start
