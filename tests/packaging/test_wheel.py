"""The wheel in a new environment: its programs, and its fixtures in sample tests."""

import os
import select
import subprocess

import pytest

from support.packages import first_block
from support.server import ROOT

ISOLATION = """
import pytest

@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_starts_without_queues(millrace_sqs, attempt):
    assert "QueueUrls" not in millrace_sqs.list_queues()
    millrace_sqs.create_queue(QueueName="jobs")

def test_code_that_makes_its_own_client_is_led_to_the_server(millrace_environment, millrace):
    import boto3
    boto3.client("sqs").create_queue(QueueName="mine")
    assert len(millrace.client("sqs").list_queues()["QueueUrls"]) == 1

def test_one_server_serves_all_tests(millrace, millrace_server):
    assert millrace is millrace_server
"""

ARGUMENTS = """
import pytest

@pytest.fixture(scope="session")
def millrace_arguments():
    return ["--region", "eu-west-1", "--account", "123456789012"]

def test_arguments_reach_the_server(millrace):
    sqs = millrace.client("sqs", region_name="eu-west-1")
    assert "123456789012" in sqs.create_queue(QueueName="q")["QueueUrl"]
"""

REFUSED = """
import millrace, pytest

def test_a_server_that_does_not_start_says_why():
    with pytest.raises(RuntimeError, match="durability"):
        millrace.Server("--durability", "none").start()
"""


@pytest.fixture
def sample(python_venv, tmp_path):
    """`sample(text, …)` runs a file of tests in the new environment."""

    def run(text, *options):
        (tmp_path / "test_sample.py").write_text(text)
        command = [python_venv / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        environment = os.environ | {"TMPDIR": str(tmp_path), "MILLRACE_DURABILITY": "nonsense"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not list(tmp_path.glob("millrace-*")), "data were left behind"

    return run


def test_programs_are_beside_python(python_venv, version):
    bench = subprocess.run([python_venv / "bin/millrace", "bench", "--version"], capture_output=True, text=True)

    assert bench.stdout == f"millrace-bench {version}\n"


@pytest.mark.parametrize("page", ["packaging/python/README.md", "docs/install.md"])
def test_sample_of_the_page_passes(sample, page):
    sample(first_block(ROOT / page, "python"))


def test_each_test_has_a_server_without_queues(sample):
    sample(ISOLATION)


def test_workers_have_servers_of_their_own(sample):
    sample(ISOLATION, "-n", "2")


def test_arguments_of_the_server_can_be_given(sample):
    sample(ARGUMENTS)


def test_a_server_that_does_not_start_says_why(sample):
    sample(REFUSED)


def test_server_ends_with_a_killed_process(python_venv):
    script = "import millrace, sys; s = millrace.Server().start(); print(s._process.pid, flush=True); sys.stdin.read()"
    command = [python_venv / "bin/python", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        server = os.pidfd_open(int(process.stdout.readline()))
        process.kill()

    # It can be read once the server has ended.
    ended, _, _ = select.select([server], [], [], 30)
    os.close(server)
    assert ended, "the server outlived the process that started it"
