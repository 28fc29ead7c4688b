"""Queues declared in the configuration file are there when the server serves."""

import json
import subprocess

import pytest

from support.server import binary
from support.wire import JsonApi


def attributes(server, name):
    api = JsonApi(server.endpoint)
    url = api.call("GetQueueUrl", QueueName=name)["QueueUrl"]
    return api.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]


JOBS = """
[queues.jobs]
visibility_timeout = 60
delay_seconds = 5
dead_letter_queue = "jobs-dead"
max_receive_count = 3

[queues.jobs.tags]
team = "blue"

[queues.jobs-dead]
retention_seconds = 1209600
"""


def test_queues_are_there_with_their_attributes(make_server):
    server = make_server(config=JOBS)

    jobs = attributes(server, "jobs")
    dead = attributes(server, "jobs-dead")

    assert (jobs["VisibilityTimeout"], jobs["DelaySeconds"]) == ("60", "5")
    assert json.loads(jobs["RedrivePolicy"]) == {
        "deadLetterTargetArn": dead["QueueArn"],
        "maxReceiveCount": 3,
    }
    assert dead["MessageRetentionPeriod"] == "1209600"
    url = f"{server.endpoint}/000000000000/jobs"
    tags = JsonApi(server.endpoint).call("ListQueueTags", QueueUrl=url)["Tags"]
    assert tags == {"team": "blue"}


def test_start_is_idempotent_and_keeps_messages(make_server):
    server = make_server(config="[queues.jobs]\nvisibility_timeout = 60\n")
    api = JsonApi(server.endpoint)
    url = api.call("GetQueueUrl", QueueName="jobs")["QueueUrl"]
    api.call("SendMessage", QueueUrl=url, MessageBody="x")

    server.restart()

    assert api.call("ReceiveMessage", QueueUrl=url)["Messages"][0]["Body"] == "x"
    assert attributes(server, "jobs")["VisibilityTimeout"] == "60"


def test_changed_declaration_changes_the_queue(make_server):
    server = make_server(config="[queues.jobs]\nvisibility_timeout = 60\n")
    server.config = "[queues.jobs]\nvisibility_timeout = 90\n"

    server.restart()

    assert attributes(server, "jobs")["VisibilityTimeout"] == "90"


def test_what_clients_have_set_keeps_no_server_from_starting(make_server):
    config = '[queues.jobs.attributes]\nSqsManagedSseEnabled = "true"\n[queues.other]\nvisibility_timeout = 60\n'
    server = make_server(config=config)
    api = JsonApi(server.endpoint)
    url = api.call("GetQueueUrl", QueueName="jobs")["QueueUrl"]
    api.call("SetQueueAttributes", QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/x"})

    server.config = config.replace("60", "90")
    server.restart()

    assert attributes(server, "jobs")["KmsMasterKeyId"] == "alias/x"
    assert attributes(server, "other")["VisibilityTimeout"] == "90"


@pytest.mark.parametrize(
    ("tags", "reason"),
    [('{ "aws:team" = "a" }', "aws:"), ('{ team = "a!" }', "Tag values"), ('{ "" = "a" }', "Tag keys")],
)
def test_tags_that_clients_could_not_set_stop_the_start(tmp_path, tags, reason):
    config = tmp_path / "millrace.toml"
    config.write_text(f"[queues.jobs]\ntags = {tags}\n")
    command = [str(binary()), "config", "check", "--config", str(config)]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, env={})

    assert (ended.returncode, "queue jobs" in ended.stderr) == (2, True), ended.stderr
    assert reason in ended.stderr


def test_tags_beyond_the_clients_own_keep_no_server_from_starting(make_server):
    server = make_server(config='[queues.jobs]\ntags = { team = "a" }\n')
    api = JsonApi(server.endpoint)
    url = api.call("GetQueueUrl", QueueName="jobs")["QueueUrl"]
    api.call("TagQueue", QueueUrl=url, Tags={f"k{n}": "" for n in range(49)})

    server.config = '[queues.jobs]\ntags = { team = "b", more = "c" }\n'
    server.restart()

    tags = JsonApi(server.endpoint).call("ListQueueTags", QueueUrl=url)["Tags"]
    assert (len(tags), tags["team"]) == (50, "a")


def test_fifo_queue(make_server):
    server = make_server(config='[queues."orders.fifo"]\ncontent_based_deduplication = true\n')

    orders = attributes(server, "orders.fifo")

    assert (orders["FifoQueue"], orders["ContentBasedDeduplication"]) == ("true", "true")


def test_unknown_key_stops_the_start(tmp_path):
    config = tmp_path / "millrace.toml"
    config.write_text("[queues.jobs]\nvisibilty_timeout = 60\n")
    command = [str(binary()), "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]

    ended = subprocess.run(
        [*command, "--config", str(config)], capture_output=True, text=True, timeout=20, check=False, env={}
    )

    assert ended.returncode != 0
    assert "visibilty_timeout" in ended.stderr + ended.stdout


def test_environment_overrides_the_file_and_flags_override_both(make_server, tmp_path):
    file_data, env_data = tmp_path / "file", tmp_path / "environment"
    server = make_server(config=f'data = "{file_data}"\n', env={"MILLRACE_DATA": str(env_data)})

    assert server.data.is_dir()
    assert not file_data.exists()
    assert not env_data.exists()
