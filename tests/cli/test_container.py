"""As in a container: the first process, in a root directory with nothing but the libraries it names."""

import os
import re
import shutil
import signal
import subprocess
import urllib.request

import pytest

from support.packages import copy_libraries
from support.server import binary, free_port
from support.skips import lacks

USER = 10_001


@pytest.fixture
def root(tmp_path):
    """A root directory of the program, its libraries, and data that `USER` may write."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        lacks("needs root for a root directory of its own")
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    os.chown(root / "data", USER, USER)
    for above in [root, *root.parents[:3]]:
        above.chmod(0o755)
    shutil.copy(binary(), root / "millrace")
    libraries = copy_libraries(binary(), root)
    assert libraries <= {"libc", "libm", "libgcc_s", "ld-linux-x86-64", "ld-linux-aarch64"}
    return root


def test_the_server_is_the_first_process_of_a_bare_container(root):
    port = free_port()
    serve = ["/millrace", "serve", "--data", "/data/d", "--listen", f"127.0.0.1:{port}", "--console-listen", "off"]
    command = ["unshare", "--pid", "--kill-child", "chroot", f"--userspec={USER}:{USER}", root, *serve]
    container = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in container.stdout:
            if " serving " in line:
                break
        call = f"http://127.0.0.1:{port}/?Action=CreateQueue&QueueName=q"
        assert urllib.request.urlopen(call, timeout=30).status == 200
        children = f"/proc/{container.pid}/task/{container.pid}/children"
        server = int(open(children).read())
        status = open(f"/proc/{server}/status").read()
        assert re.search(r"^NSpid:\s+\d+\s+1$", status, re.MULTILINE), status
        assert re.search(rf"^Uid:\s+{USER}\s", status, re.MULTILINE), status

        os.kill(server, signal.SIGTERM)
        log, _ = container.communicate(timeout=30)
    finally:
        container.kill()
    assert container.returncode == 0 and "stopped" in log, log
