"""Waiting for what another process does and does not announce."""

import time


def eventually(condition, what="it", timeout_s=20, pause_s=0.01):
    """What `condition` returns once that is true; a failure if it is not in time."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(pause_s)
    return result
