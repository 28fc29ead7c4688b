"""The process stands still, or its clock jumps: no client is cut off, no promise broken."""

import json
import signal
import time

from faults.rig import SCALE, LedgeredLoad
from support.wire import JsonApi

ROUNDS = 6 * SCALE


def test_stopped_and_continued_server_keeps_every_promise(make_server, rng, say):
    server = make_server(durability="fsync", test=False)
    load = LedgeredLoad(server)

    with load:
        for _ in range(ROUNDS):
            time.sleep(rng.uniform(0.05, 0.4))
            server.process.send_signal(signal.SIGSTOP)
            # Sometimes longer than the consumers' visibility timeout of 1 s.
            time.sleep(rng.choice([0.01, 0.1, 0.3, 1.2]))
            server.process.send_signal(signal.SIGCONT)

    load.check(say)


def now_ms(server) -> int:
    return json.loads(server.get("/_millrace/clock")[1])["now_ms"]


def test_clock_that_jumps_forward_breaks_no_promise(make_server, rng, say):
    server = make_server(durability="fsync")
    load = LedgeredLoad(server)

    with load:
        jumped_s = 0
        for _ in range(2 * ROUNDS):
            time.sleep(rng.uniform(0.02, 0.2))
            step_s = rng.choice([0.5, 1, 40, 400, 3600])
            # Retention is four days: beyond that, messages go with every right.
            if jumped_s + step_s < 3 * 86_400:
                server.advance(step_s)
                jumped_s += step_s

    say(f"jumped {jumped_s:.0f} s in all")
    load.check(say)


def test_clock_that_is_behind_at_the_next_start_breaks_no_promise(make_server, rng, say):
    """A wall clock can be set back while the server is down; the journal then tells of later
    times. Here it is the server's clock that went ahead: to the next start it looks the same."""
    server = make_server(durability="fsync")
    load = LedgeredLoad(server)
    api = JsonApi(server.endpoint)
    url = api.call("CreateQueue", QueueName="later")["QueueUrl"]

    for _ in range(3):
        with load:
            time.sleep(0.3)
            server.advance(rng.choice([60, 7200, 80_000]))
            # The journal knows the later time, however slow the disk.
            api.call("SendMessage", QueueUrl=url, MessageBody="x")
            time.sleep(rng.uniform(0.3, 0.6))  # Messages sent and in flight at the later time.
            ahead_ms = now_ms(server)
            load.kill(server)
        server.start()

        # The last records may be a little older than the look at the clock, not hours.
        assert now_ms(server) > ahead_ms - 5000

    load.check(say)


def test_clock_runs_on_and_never_back(make_server):
    """It is the wall's at the start and monotonic from then on: steps of the wall cannot move it.
    What looks at the wall later is nothing that a promise rests on: the times of signatures, which
    AWS defines so, and how often a log line may come. Setting the wall is not for a test."""
    server = make_server()

    asked, shown = [], []
    while len(shown) < 300:
        asked.append(time.monotonic() * 1000)
        shown.append(now_ms(server))
    ended = time.monotonic() * 1000

    assert shown == sorted(shown)
    # Each was shown between its question and the next.
    shortest, longest = asked[-1] - asked[1], ended - asked[0]
    assert shortest - 5 <= shown[-1] - shown[0] <= longest + 5
