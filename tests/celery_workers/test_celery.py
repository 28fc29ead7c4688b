"""Celery's worker as its users run it: `celery worker` polls in an event loop, with kombu's own HTTP
client, which sets other headers than the SDK by which producers send."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.process import running
from support.sdk import sdk_client
from support.waiting import eventually

HERE = Path(__file__).parent
KEY, SECRET = "AKIDCELERY", "a-long-secret-of-celerys"
CREDENTIALS = f'[[credentials]]\naccess_key = "{KEY}"\nsecret_key = "{SECRET}"\n'
WORKER_TIMEOUT_S = 60


class Workers:
    """An application's workers and its producer, each a process of its own."""

    def __init__(self, server, directory, key, secret, queue, **transport):
        self.notes = directory / "notes"
        self.log = directory / "worker.log"
        self.sqs = sdk_client(server, access_key=key, secret_key=secret)
        self.queue = queue
        options = {"region": "us-east-1", "is_secure": False, "wait_time_seconds": 2, "polling_interval": 0.1}
        settings = {
            "broker_url": f"sqs://{key}:{secret}@127.0.0.1:{server.port}",
            "task_default_queue": queue,
            "broker_transport_options": options | transport,
            "broker_connection_retry_on_startup": False,
            "worker_prefetch_multiplier": 1,
        }
        given = {"CELERY_SETTINGS": json.dumps(settings), "NOTES": str(self.notes)}
        self.environment = os.environ | given

    @contextlib.contextmanager
    def worker(self):
        """A worker that is ready; killed at the end with all its processes."""
        command = [str(Path(sys.executable).with_name("celery")), "-A", "tasks", "worker"]
        command += ["--concurrency", "2", "--loglevel", "info", "--hostname", f"{self.queue}@%h"]
        before = self.text().count(" ready.")
        with (
            self.log.open("ab") as log,
            running(command, cwd=HERE, env=self.environment, stdout=log, stderr=log) as process,
        ):
            self.wait(lambda: self.text().count(" ready.") > before, "worker is ready")
            yield
            assert process.poll() is None, self.text()

    def send(self, task, *names, **options):
        command = [sys.executable, "tasks.py", task, json.dumps(options), *names]
        subprocess.run(command, cwd=HERE, env=self.environment, check=True, timeout=WORKER_TIMEOUT_S)

    def finished(self):
        """When each task ended that did."""
        if not self.notes.exists():
            return {}
        lines = [line.split() for line in self.notes.read_text().splitlines()]
        assert len({name for name, _ in lines}) == len(lines), "a task was run twice"
        return {name: float(at) for name, at in lines}

    def wait(self, condition, what):
        try:
            return eventually(condition, what, timeout_s=WORKER_TIMEOUT_S, pause_s=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    def wait_for(self, *names):
        self.wait(lambda: set(names) <= self.finished().keys(), f"{names} are finished")

    def wait_until_drained(self):
        names = ["", "NotVisible", "Delayed"]
        names = [f"ApproximateNumberOfMessages{suffix}" for suffix in names]
        url = self.sqs.get_queue_url(QueueName=self.queue)["QueueUrl"]

        def is_empty():
            asked = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
            return set(asked["Attributes"].values()) == {"0"}

        self.wait(is_empty, "every message is deleted")

    def text(self):
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture(params=["open", "with credentials"])
def celery(request, make_server, tmp_path):
    """`celery(queue, …transport options)` → Workers, on a server without credentials and on one with."""
    has_credentials = request.param == "with credentials"
    server = make_server(test=False, config=CREDENTIALS if has_credentials else None)
    key, secret = (KEY, SECRET) if has_credentials else ("any", "any")
    return lambda queue="jobs", **transport: Workers(server, tmp_path, key, secret, queue, **transport)


def test_tasks_are_finished_and_their_messages_deleted(celery):
    workers = celery()
    before = [f"before-{n}" for n in range(10)]
    after = [f"after-{n}" for n in range(10)]
    workers.send("finish", *before)

    with workers.worker():
        workers.wait_for(*before)
        # The polls go on once the queue has been empty.
        workers.wait_until_drained()
        workers.send("finish", *after)
        workers.wait_for(*after)
        workers.wait_until_drained()

    assert workers.finished().keys() == {*before, *after}


def test_task_with_an_eta_is_run_then(celery):
    workers = celery()
    with workers.worker():
        sent_at = time.time()
        workers.send("finish", "later", countdown=2)
        workers.send("finish", "now")
        workers.wait_for("now", "later")
        workers.wait_until_drained()

    assert workers.finished()["later"] - sent_at >= 2


def test_task_of_a_killed_worker_is_run_by_another(celery):
    workers = celery(visibility_timeout=5)
    with workers.worker():
        workers.send("hold_the_first_time", "held")
        workers.wait((workers.notes.with_name("held.held")).exists, "the task has begun")

    with workers.worker():
        workers.wait_for("held")
        workers.wait_until_drained()


@pytest.mark.parametrize("name", ["predefined", "predefined.fifo"])
def test_queue_that_exists_already(celery, name):
    attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    url = celery().sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    workers = celery(name, predefined_queues={name: {"url": url}})
    names = [f"task-{n}" for n in range(5)]

    with workers.worker():
        workers.send("finish", *names)
        workers.wait_for(*names)
        workers.wait_until_drained()
