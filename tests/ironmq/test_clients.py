"""The official clients for Node and Go, of both versions, against one server. What they check is in `node/` and `go/`;
here it runs, and their connections are counted.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import prometheus

HERE = Path(__file__).parent


def connections_opened(server) -> float:
    """In all; each call opens one more."""
    return prometheus.of(prometheus.scrape(server), "millrace_connections_opened_total")


@pytest.fixture
def run(make_server, project, tmp_path):
    """Runs a command that finds the server in its environment; the number of connections that it opened."""

    def command(*arguments, directory):
        server = make_server(test=False)
        home = tmp_path / "home"  # Where no settings of a client are.
        home.mkdir()
        names = ("PATH", "GOROOT", "GOFLAGS", "GOPROXY")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        environment |= {
            "HOME": str(home),
            "IRON_ENDPOINT": server.endpoint,
            "IRON_PROJECT": project,
            "IRON_PROJECT_ID": project,
            "IRON_TOKEN": "token",
        }
        opened = connections_opened(server)
        done = subprocess.run(
            arguments,
            cwd=directory,
            env=environment,
            text=True,
            timeout=120,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
        return connections_opened(server) - opened - 1

    return command


@pytest.mark.parametrize("version", ["v3", "v1"])
def test_node(run, version):
    opened = run("node", "--test", f"{version}.test.mjs", directory=HERE / "node")

    assert opened == 1, "connections were not kept"


@pytest.fixture(scope="session")
def go_tests(tmp_path_factory):
    go = shutil.which("go") or "/usr/local/go/bin/go"
    tests = tmp_path_factory.mktemp("go") / "tests"
    subprocess.run([go, "test", "-c", "-o", tests, "."], cwd=HERE / "go", check=True, timeout=170)
    return tests


def test_go_version_3(run, go_tests):
    opened = run(go_tests, "-test.run", "Version3", directory=HERE / "go")

    assert opened == 1, "connections were not kept"


def test_go_version_1(run, go_tests):
    """This one does not read every answer to its end, and opens another connection then."""
    run(go_tests, "-test.run", "Version1", directory=HERE / "go")


@pytest.mark.parametrize("version, package", [(3, "3.0.5"), (1, "0.0.19")])
def test_java(run, version, package):
    jars = [
        HERE / "java" / "target" / f"{name}.jar" for name in (f"ironmq-{package}", "gson-2.1", "commons-lang3-3.1")
    ]

    run("java", "-cp", ":".join(map(str, jars)), f"Version{version}.java", directory=HERE / "java")
