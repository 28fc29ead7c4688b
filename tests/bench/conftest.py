"""A way to an endpoint that takes longer."""

import socket
import threading
import time

import pytest

DELAY_S = 0.02


@pytest.fixture
def slow():
    """`slow(endpoint)` → the URL of a proxy that holds every request back."""
    listeners = []

    def start(endpoint: str) -> str:
        host, port = endpoint.removeprefix("http://").split(":")
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=accept, args=(listener, (host, int(port))), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


def accept(listener, address):
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = socket.create_connection(address)
        for one, other, delay_s in ((client, server, DELAY_S), (server, client, 0)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pass_on, args=(one, other, delay_s), daemon=True).start()


def pass_on(one, other, delay_s):
    try:
        while data := one.recv(65536):
            time.sleep(delay_s)
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass
