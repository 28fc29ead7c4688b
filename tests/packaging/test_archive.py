"""The archive of the programs, and the checksums of all packages."""

import gzip
import os
import subprocess
import tarfile

from support.packages import wait_until_served
from support.process import running
from support.server import free_port


def test_archive_holds_programs_that_run(package, version, tmp_path):
    with tarfile.open(package("millrace-*-linux-*.tar.gz")) as archive:
        assert {(member.uid, member.gid) for member in archive} == {(0, 0)}
        archive.extractall(tmp_path, filter="data")
    (directory,) = tmp_path.iterdir()

    def say(*command):
        return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout

    assert say("./millrace", "--version") == f"millrace {version}\n"
    assert "targets" in say("./millrace", "bench", "--help")
    assert b".TH millrace-serve 1" in gzip.decompress((directory / "man/man1/millrace-serve.1.gz").read_bytes())
    assert {path.name for path in (directory / "completions").iterdir()} == {
        "millrace.bash",
        "millrace.zsh",
        "millrace.fish",
    }
    for name in ["LICENSE", "README.md", "CHANGELOG.md", "systemd/millrace.service"]:
        assert (directory / name).stat().st_size > 0, name
    symbols = subprocess.run(["nm", "millrace"], cwd=directory, capture_output=True, text=True)
    assert "no symbols" in symbols.stderr


def test_server_of_the_archive_serves(package, tmp_path):
    with tarfile.open(package("millrace-*-linux-*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (directory,) = tmp_path.iterdir()
    port = free_port()
    serve = ["./millrace", "serve", "--listen", f"127.0.0.1:{port}", "--console-listen", "off"]

    with running(serve, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        wait_until_served(server.stdout)
        call = ["./millrace", "queue", "create", "q", "--endpoint", f"http://localhost:{port}"]
        created = subprocess.run(call, cwd=directory, capture_output=True, text=True)

    assert created.returncode == 0, created.stderr


def test_checksums_are_those_of_all_packages(packages):
    checked = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=packages, capture_output=True)
    named = {line.split()[1] for line in (packages / "SHA256SUMS").read_text().splitlines()}

    assert checked.returncode == 0, checked.stderr
    assert named == set(os.listdir(packages)) - {"SHA256SUMS"}
