"""HTTP/2 clients that make much work with few bytes: the connection may end, the server must not
notice."""

import threading
import time

import pytest

from faults.rig import SCALE, Memory, Probe, connect, open_files, vanish

from support.waiting import eventually

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
# HPACK: GET, http, /, :authority a.
REQUEST = b"\x82\x86\x84\x41\x01a"
FRAMES = 50_000 * SCALE
CONNECTIONS = 4
SECONDS = 4 * SCALE


def frame(kind, flags=0, stream=0, payload=b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def rapid_reset(n):
    stream = 2 * n + 1
    flags = END_STREAM | END_HEADERS
    return frame(HEADERS, flags, stream, REQUEST) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")


def endless_continuation(n):
    kind = HEADERS if n == 0 else CONTINUATION
    return frame(kind, 0, 1, REQUEST if n == 0 else b"\x00\x01x\x40" + b"y" * 64)


def pings(n):
    return frame(PING, 0, 0, n.to_bytes(8, "big"))


def settings(n):
    return frame(SETTINGS, 0, 0, b"\0\4" + (65_535 - n % 1000).to_bytes(4, "big"))


def empty_data(n):
    return frame(HEADERS, END_HEADERS, 1, b"\x83\x86\x84\x41\x01a") if n == 0 else frame(DATA, 0, 1)


def window_updates(n):
    return frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")


def unanswered_requests(n):
    """Nothing of the answers is ever read."""
    return frame(HEADERS, END_STREAM | END_HEADERS, 2 * n + 1, REQUEST)


FLOODS = [rapid_reset, endless_continuation, pings, settings, empty_data, window_updates, unanswered_requests]


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.timeout(60 + 30 * SCALE)
def test_flood_is_bounded_and_disturbs_nobody(make_server, rng, say, flood):
    server = make_server()
    files = open_files(server)
    sent = []

    def run(connection, deadline):
        done = 0
        try:
            connection.sendall(PREFACE + frame(SETTINGS))
            while done < FRAMES and time.monotonic() < deadline:
                connection.sendall(b"".join(flood(done + n) for n in range(100)))
                done += 100
        except OSError:
            pass  # Refused, or blocked because nobody reads: both bound it.
        sent.append(done)

    memory = Memory(server)
    deadline = time.monotonic() + SECONDS
    connections = [connect(server, timeout=1, receive_buffer=4096) for _ in range(CONNECTIONS)]
    with Probe(server) as probe:
        threads = [threading.Thread(target=run, args=(connection, deadline)) for connection in connections]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.05)
            memory.look()
    for connection in connections:
        vanish(connection, rng.random() < 0.5)

    say(f"{flood.__name__}: {sum(sent)} frames taken of {CONNECTIONS * FRAMES}")
    probe.check(say)
    memory.check(say)
    eventually(lambda: open_files(server) <= files + 4, "descriptors come back", 10)
