"""A write or a sync fails under load: nothing more is taken until a restart has looked, and then
everything acknowledged is there. What was sent once calls failed is not acknowledged, though a
failed sync may leave it in the page cache, where the restart finds it."""

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from faults.rig import (
    SCALE,
    Journal,
    LedgeredLoad,
    connect,
    json_request,
    log_since,
)
from support.skips import lacks
from support.waiting import eventually
from support.wire import ApiError, JsonApi

SOURCE = Path(__file__).with_name("failing_calls.c")
FILTER_REFUSED = b"the filter was refused"
FAIL_SINCE = re.compile(rb"calls fail since (\d+)")
OUTCOME = re.compile(rb"journal takes no more changes until the process is restarted|" + FILTER_REFUSED)


@pytest.fixture(scope="module")
def failing_calls(tmp_path_factory) -> Path:
    if shutil.which("cc") is None:
        lacks("needs a C compiler to make system calls fail")
    library = tmp_path_factory.mktemp("preload") / "failing_calls.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    return library


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
@pytest.mark.timeout(60 + 30 * SCALE)
def test_failed_call_poisons_and_restart_loses_nothing(make_server, failing_calls, rng, say, call):
    server = make_server(
        durability="fsync", test=False, env={"LD_PRELOAD": str(failing_calls), "FAULT_CALL": call}
    )
    load = LedgeredLoad(server, may_be_cut=True)
    url, _ = load.queues[0]
    api = JsonApi(server.endpoint)
    silent = api.call("CreateQueue", QueueName="silent")["QueueUrl"]
    poll = json_request("ReceiveMessage", {"QueueUrl": silent, "WaitTimeSeconds": 20})

    for _ in range(2 * SCALE):
        logged = server.log.stat().st_size
        with load, connect(server) as poller:
            poller.sendall(poll)
            time.sleep(rng.uniform(0.2, 0.6))
            load.load.serving.clear()  # Who is refused waits a second.
            server.process.send_signal(signal.SIGUSR2)
            eventually(lambda logged=logged: OUTCOME.search(log_since(server, logged)), "poisoned", 10)
            if OUTCOME.search(log_since(server, logged))[0] == FILTER_REFUSED:
                lacks("the system does not let calls fail: seccomp is refused")
            with pytest.raises(ApiError) as refused:
                api.call("SendMessage", QueueUrl=url, MessageBody="refused")
            assert (refused.value.status, refused.value.code) == (503, "ServiceUnavailable")
            poller.settimeout(5)
            assert poller.recv(4096).startswith(b"HTTP/1.1 503 "), "the long poll goes on"
            assert server.get("/health")[0] == 200
            assert server.get("/ready")[0] == 503
            assert api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
        since_s = int(FAIL_SINCE.search(log_since(server, logged))[1]) / 1e9
        for _, ledger in load.queues:
            assert ledger.last_accepted_at < since_s, "acknowledged, and never synced"
        assert server.stop() == 1, "a poisoned server ends as if all were well"
        assert Journal(server).report()["is_sound"]
        server.start()

    load.check(say)
