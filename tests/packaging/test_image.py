"""The container image, unpacked and run as a container engine would: root, user and environment of its own."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from support.packages import copy_libraries, create_queue, wait_until_served
from support.process import running
from support.server import ROOT, free_port
from support.skips import lacks


@pytest.fixture
def image(package, version, tmp_path):
    """The image's configuration, as the archive of OCI's layout has it."""
    layout = f"{tmp_path}/layout:{version}"
    subprocess.run(["skopeo", "copy", "--quiet", f"oci-archive:{package('*.oci.tar')}", f"oci:{layout}"], check=True)
    inspected = subprocess.run(["skopeo", "inspect", "--config", f"oci:{layout}"], capture_output=True, check=True)
    return json.loads(inspected.stdout) | {"layout": layout}


def test_image_is_what_the_dockerfile_says(image):
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    said = {keyword: rest for keyword, rest in (line.split(" ", 1) for line in lines if line and line[0] != "#")}

    config = image["config"]

    assert config["User"] == said["USER"]
    assert set(shlex.split(said["ENV"])) <= set(config["Env"])
    assert list(config["Volumes"]) == [said["VOLUME"]]
    assert set(config["ExposedPorts"]) == {f"{port}/tcp" for port in said["EXPOSE"].split()}
    assert config["Entrypoint"] == json.loads(said["ENTRYPOINT"])
    assert config["Cmd"] == json.loads(said["CMD"])


def test_archive_for_docker_holds_the_same_image_by_name(image, package, version):
    archive = f"docker-archive:{package('*.docker.tar')}"

    names = json.loads(subprocess.run(["skopeo", "list-tags", archive], capture_output=True, check=True).stdout)
    loaded = json.loads(subprocess.run(["skopeo", "inspect", "--config", archive], capture_output=True).stdout)

    assert names["Tags"] == [f"docker.io/library/millrace:{version}"]
    assert loaded["rootfs"]["diff_ids"] == image["rootfs"]["diff_ids"]


def test_image_serves_as_the_compose_file_runs_it(image, version, tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        lacks("needs root for a root directory of its own")
    service = yaml.safe_load((ROOT / "packaging/compose.yaml").read_text())["services"]["millrace"]
    assert service["image"] == f"millrace:{version}"
    subprocess.run(["umoci", "unpack", "--image", image["layout"], tmp_path / "bundle"], check=True)
    root = tmp_path / "bundle/rootfs"
    assert {path.name for path in root.iterdir()} == {"millrace", "millrace-bench", "data"}
    for above in [root, *root.parents[:4]]:
        above.chmod(0o755)
    copy_libraries(root / "millrace", root)
    config = image["config"]
    port = free_port()
    environment = dict(variable.split("=", 1) for variable in config["Env"])
    environment |= {"MILLRACE_LISTEN": f"0.0.0.0:{port}", "MILLRACE_CONSOLE_LISTEN": "off"}
    chroot = [shutil.which("chroot"), f"--userspec={config['User']}", str(root)]
    options = {"env": environment, "text": True, "stderr": subprocess.STDOUT}

    command = chroot + config["Entrypoint"] + service["command"]
    with running(command, stdout=subprocess.PIPE, **options) as server:
        wait_until_served(server.stdout)
        create_queue(port)
        check = service["healthcheck"]["test"]
        assert check[0] == "CMD"
        endpoint = {"MILLRACE_ENDPOINT": f"http://127.0.0.1:{port}"}
        health = subprocess.run(chroot + check[1:], env=endpoint, capture_output=True, text=True)
        assert health.returncode == 0, health.stderr

    assert (root / "data/journal").stat().st_uid == int(re.match(r"\d+", config["User"])[0])
