"""Runs `millrace bench` as a user does, reads what it writes, and waits for what it does to a server."""

import json
import subprocess

from support.server import binary
from support.waiting import eventually

TIMEOUT_S = 60


class Outcome:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    @property
    def report(self) -> dict:
        return json.loads(self.out)

    def metric(self, name: str) -> float:
        """The one metric that ends so."""
        [value] = [
            metric["value"]
            for metric in self.report["metrics"]
            if metric["name"] == name or metric["name"].endswith("." + name)
        ]
        return value

    def shapes(self, section: str) -> list[dict]:
        [found] = [one for one in self.report["sections"] if one["id"] == section]
        return found["shapes"]


def bench(*arguments, endpoint=None, code=0) -> Outcome:
    where = ["--endpoint", endpoint] if endpoint else []
    command = [str(binary()), "bench", *arguments, *where]
    process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    outcome = Outcome(process)
    assert outcome.code == code, f"{command}: exit {outcome.code}\n{outcome.out}\n{outcome.err}"
    return outcome


def wait_for_messages(sqs, count=1):
    """Waits until a run has begun and the server's queues hold that many messages."""
    eventually(lambda: message_count(sqs) >= count, "the run has begun")


def message_count(sqs) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = [
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        for url in sqs.list_queues().get("QueueUrls", [])
    ]
    return sum(int(count) for attributes in found for count in attributes.values())
