"""`--peer ironmq`: reserve, touch, release, delete."""

import contextlib

import pytest

from bench.ironmq import PROJECT, TOKEN, FakeIronMq
from support.ironmq import Iron as MillraceIron, Queue
from support.waiting import eventually
from worker.rig import lines

ACCESS = {"IRON_PROJECT_ID": PROJECT, "IRON_TOKEN": TOKEN}


class Iron(FakeIronMq):
    """With what a worker needs beyond a bench: touch and release. Delays are noted, not kept."""

    def __init__(self):
        self.touches = 0
        self.delays = []
        super().__init__()

    def act(self, version, method, name, rest, asked):
        match method, rest:
            case "POST", ["messages", identifier, ("touch" | "release") as action]:
                self.calls.append((version, method, "messages", "ID", action))
                message = self.queues[name].get(identifier)
                if message is None:
                    return 404, {"msg": "Message not found"}
                if version == 3 and asked["reservation_id"] != message["reservation"]:
                    return 403, {"msg": "Reservation timed out"}
                if action == "release":
                    self.delays.append(asked["delay"])
                    message["reservation"] = None
                    self.changed.notify_all()
                    return 200, {"msg": "Released"}
                self.touches += 1
                message["count"] += 1
                message["reservation"] = f"{1000 + self.touches:032x}"
                return 200, {"reservation_id": message["reservation"], "msg": "Touched"}
        return super().act(version, method, name, rest, asked)

    def fill(self, name, bodies):
        with self.changed:
            self.queues[name] = {}
            for body in bodies:
                self.put(name, body)


@pytest.fixture
def iron():
    fake = Iron()
    yield fake
    fake.close()


@pytest.mark.parametrize("peer", ["ironmq", "ironmq-v1"])
def test_messages_are_handled_and_deleted(iron, work, tmp_path, peer):
    bodies = [f"m{n}" for n in range(150)]
    iron.fill("jobs", bodies)
    command = 'echo "$(cat) $MILLRACE_RECEIVE_COUNT" >> runs'
    flags = ["--peer", peer, "--exec", command, "--max-messages", "150"]

    assert work("jobs", *flags, endpoint=iron.endpoint, env=ACCESS).wait() == 0

    assert sorted(lines(tmp_path / "runs")) == sorted(f"{body} 1" for body in bodies)
    assert iron.queues["jobs"] == {}
    deletes = [call for call in iron.calls if call[1] == "DELETE"]
    assert len(deletes) < 150, "deletes share calls"


@pytest.mark.parametrize("peer", ["ironmq", "ironmq-v1"])
def test_failed_message_is_released_and_received_again(iron, work, tmp_path, peer):
    iron.fill("jobs", ["a"])
    command = 'echo $MILLRACE_RECEIVE_COUNT >> runs; [ $MILLRACE_RECEIVE_COUNT = 3 ]'
    flags = ["--peer", peer, "--exec", command, "--backoff", "0,90s", "--max-messages", "3"]

    assert work("jobs", *flags, endpoint=iron.endpoint, env=ACCESS).wait() == 0

    # A touch would count as a receive.
    assert lines(tmp_path / "runs") == ["1", "2", "3"]
    assert (iron.delays, iron.touches) == ([0, 90], 0)
    assert iron.queues["jobs"] == {}


def test_message_is_held_by_touches_and_deleted_with_the_newest_reservation(iron, work, tmp_path):
    iron.fill("jobs", ["a"])
    command = "while [ ! -e go ]; do sleep 0.02; done"
    flags = ["--peer", "ironmq", "--visibility-timeout", "10s", "--max-messages", "1"]
    worker = work("jobs", *flags, "--exec", command, endpoint=iron.endpoint, env=ACCESS)

    eventually(lambda: iron.touches >= 1)
    (tmp_path / "go").touch()

    assert worker.wait() == 0
    assert iron.queues["jobs"] == {}


def test_rejected_message_moves_to_another_queue(iron, work):
    iron.fill("jobs", ["a"])
    iron.fill("dead", [])
    flags = ["--peer", "ironmq", "--exec", "exit 65", "--dead-letter-queue", "dead", "--max-messages", "1"]

    assert work("jobs", *flags, endpoint=iron.endpoint, env=ACCESS).wait() == 0

    assert iron.queues["jobs"] == {}
    assert [message["body"] for message in iron.queues["dead"].values()] == ["a"]


@pytest.fixture
def served(server, new_name):
    """A queue of IronMQ's interface as Millrace serves it."""
    with contextlib.closing(MillraceIron(server.endpoint, PROJECT)) as project:
        yield Queue(project, new_name())


@pytest.mark.parametrize("peer", ["ironmq", "ironmq-v1"])
def test_queues_of_millrace_are_worked_off(served, work, tmp_path, peer):
    bodies = [f"m{n}" for n in range(150)]
    served.post(*bodies)
    flags = ["--peer", peer, "--exec", 'echo "$(cat) $MILLRACE_RECEIVE_COUNT" >> runs', "--max-messages", "150"]

    assert work(served.name, *flags, env=ACCESS).wait() == 0

    assert sorted(lines(tmp_path / "runs")) == sorted(f"{body} 1" for body in bodies)
    assert served.size() == 0


@pytest.mark.parametrize("peer", ["ironmq", "ironmq-v1"])
def test_a_failed_message_of_millrace_comes_again(served, work, tmp_path, peer):
    served.post("a")
    command = 'echo $MILLRACE_RECEIVE_COUNT >> runs; [ $MILLRACE_RECEIVE_COUNT = 3 ]'
    flags = ["--peer", peer, "--exec", command, "--backoff", "0,1s", "--max-messages", "3"]

    assert work(served.name, *flags, env=ACCESS).wait() == 0

    assert lines(tmp_path / "runs") == ["1", "2", "3"]
    assert served.size() == 0


@pytest.mark.parametrize("queue", ["http://127.0.0.1:1/000000000000/jobs", "arn:aws:sqs:us-east-1:000000000000:jobs"])
def test_urls_and_arns_are_refused(iron, work, queue):
    worker = work(queue, "--peer", "ironmq", "--exec", "true", endpoint=iron.endpoint, env=ACCESS)

    assert worker.wait() == 2
    assert "--queue: --peer ironmq takes the name of a queue" in worker.text()


def test_project_and_token_are_needed(iron, work):
    worker = work("jobs", "--peer", "ironmq", "--exec", "true", endpoint=iron.endpoint)

    assert worker.wait() == 2
    assert "IRON_PROJECT_ID" in worker.text()
