"""The .deb and .rpm, installed into a copy of this machine's file system that nothing of it reaches."""

import os
import shutil
import subprocess

import pytest

from support.packages import create_queue, wait_until_served
from support.process import running
from support.server import free_port
from support.skips import lacks

# The copy: what is written goes to memory, and is gone with the mounts.
COPY = """
set -e
mount -t tmpfs tmpfs "$COPY"
mkdir "$COPY/changed" "$COPY/work" "$COPY/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$COPY/changed,workdir=$COPY/work" "$COPY/root"
mount --rbind /dev "$COPY/root/dev"
mount -t proc proc "$COPY/root/proc"
mkdir -p "$COPY/root/packages"
cp "$PACKAGE" "$COPY/root/packages/"
exec chroot "$COPY/root" bash -e -c "cd /packages; $1"
"""

INSTALL = {"*.deb": "dpkg -i *.deb", "*.rpm": "rpm -i --nodeps *.rpm"}
UPGRADE = {"*.deb": "dpkg -i *.deb", "*.rpm": "rpm -U --force --nodeps *.rpm"}
REMOVE = {"*.deb": "dpkg -r millrace", "*.rpm": "rpm -e millrace"}


@pytest.fixture(params=["*.deb", "*.rpm"])
def kind(request):
    return request.param


@pytest.fixture
def machine(package, kind, tmp_path):
    """`machine(script)` → command and options that run it as root where the package file lies."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        lacks("needs root to mount a copy of the file system")
    copy = tmp_path / "copy"
    copy.mkdir()
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "COPY": str(copy), "PACKAGE": str(package(kind))}

    def command(script, **variables):
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", COPY, "copy", script]
        return {"args": unshare, "env": environment | variables, "text": True, "stdin": subprocess.DEVNULL}

    return command


def test_package_runs_as_its_user_with_its_configuration(machine, kind):
    port = free_port()
    # What systemd does of the unit: the directory, the user, the command. A container has none to make users.
    serve = f"""
        rm -f /usr/bin/systemd-sysusers
        {INSTALL[kind]}
        unit=/usr/lib/systemd/system/millrace.service
        user=$(sed -n s/^User=//p $unit)
        install -d -m 700 -o $user -g $user /var/lib/millrace
        exec setpriv --reuid $user --regid $user --init-groups $(sed -n s/^ExecStart=//p $unit)
    """
    options = machine(serve, MILLRACE_LISTEN=f"127.0.0.1:{port}", MILLRACE_CONSOLE_LISTEN="off")

    with running(options.pop("args"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as server:
        wait_until_served(server.stdout)
        create_queue(port)


def test_package_makes_a_user_and_keeps_configuration_and_data(machine, kind):
    script = f"""
        {INSTALL[kind]} >/dev/null
        getent passwd millrace | cut -d: -f1,6,7
        stat -c '%U:%G %a %n' /etc/millrace/millrace.toml
        runuser -u millrace -- millrace config check --config /etc/millrace/millrace.toml
        systemd-analyze verify /usr/lib/systemd/system/millrace.service
        echo '# mine' >>/etc/millrace/millrace.toml
        {UPGRADE[kind]} >/dev/null
        stat -c '%U:%G %a %n' /etc/millrace/millrace.toml
        tail -qn 1 /etc/millrace/millrace.toml
        install -d -o millrace /var/lib/millrace
        {REMOVE[kind]} >/dev/null 2>&1
        test ! -e /usr/bin/millrace
        test -d /var/lib/millrace
        getent passwd millrace >/dev/null
        tail -qn 1 /etc/millrace/millrace.toml*
    """
    done = subprocess.run(**machine(script), capture_output=True, timeout=120)

    assert done.returncode == 0, (done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("millrace:/var/lib/millrace:") and lines[0].endswith("/nologin")
    assert lines[1] == "root:millrace 640 /etc/millrace/millrace.toml"
    assert lines[-3:] == [lines[1], "# mine", "# mine"]
    assert "millrace.service" not in done.stderr, done.stderr
