"""Runs on nodes: several at once, one that is not there, one whose coordinator is gone."""

import contextlib
import subprocess
import time

import pytest

from support.sdk import sdk_client
from support.server import binary

from .run import bench, wait_for_messages


class Node:
    def __init__(self):
        command = [str(binary()), "bench", "node", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip().removeprefix("node listens at ")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


QUICK_PC = ["pc", "--scale", "0.001", "--json", "--batch", "10", "--producers", "2", "--consumers", "2"]
LONG_PC = ["pc", "--duration", "5m", "--batch", "10", "--producers", "2", "--consumers", "2"]


@pytest.fixture
def node():
    node = Node()
    yield node
    node.close()


def test_nodes_run_one_scenario_together_and_are_there_for_the_next(endpoint):
    with contextlib.ExitStack() as ends:
        nodes = [ends.enter_context(contextlib.closing(Node())) for _ in range(2)]
        where = ",".join(node.address for node in nodes)
        for _ in range(2):
            outcome = bench(
                "pc", "--scale", "0.001", "--json", "--batch", "10", "--producers", "2", "--consumers", "2",
                "--nodes", where, endpoint=endpoint,
            )
            assert outcome.metric("messages") > 0
            assert outcome.metric("lost") == outcome.metric("duplicated") == 0


def test_a_node_that_is_not_there_is_exit_1_and_named(endpoint):
    outcome = bench("pc", "--scale", "0.001", "--nodes", "127.0.0.1:1", endpoint=endpoint, code=1)

    assert "node 127.0.0.1:1" in outcome.err


def test_a_node_that_is_not_there_is_told_before_the_run(endpoint, node):
    began = time.monotonic()
    outcome = bench(*LONG_PC, "--nodes", f"{node.address},127.0.0.1:1", endpoint=endpoint, code=1)

    assert "node 127.0.0.1:1: connecting" in outcome.err
    assert time.monotonic() - began < 30
    # The other one was left, and is free.
    assert bench(*QUICK_PC, "--nodes", node.address, endpoint=endpoint).metric("messages") > 0


def test_a_node_whose_coordinator_is_gone_is_free_for_the_next(make_server, node):
    server = make_server()
    sqs = sdk_client(server)
    command = [str(binary()), "bench", *LONG_PC, "--nodes", node.address, "--endpoint", server.endpoint]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_messages(sqs)
        finally:
            process.kill()

    outcome = bench(*QUICK_PC, "--nodes", node.address, endpoint=server.endpoint)
    assert outcome.metric("messages") > 0 and outcome.metric("lost") == 0
