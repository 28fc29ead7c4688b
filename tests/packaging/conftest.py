"""Packages of the programs under test, made once by packaging/build. `PACKAGES=dist` tests what lies there instead."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.server import ROOT, binary


@pytest.fixture(scope="session")
def version():
    workspace = (ROOT / "Cargo.toml").read_text().split("[workspace.package]")[1]
    return re.search(r'^version = "(.+)"$', workspace, re.MULTILINE)[1]


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """A directory of packages, of those that take seconds to make."""
    if "PACKAGES" in os.environ:
        return ROOT / os.environ["PACKAGES"]
    directory = tmp_path_factory.mktemp("dist")
    build = [ROOT / "packaging/build", "--programs", binary().parent, "--output", directory]
    subprocess.run([*build, "archive", "deb", "rpm", "wheel", "npm", "image"], check=True)
    return directory


@pytest.fixture
def package(packages):
    """`package("*.deb")` → the one file of that name."""

    def find(pattern) -> Path:
        found = list(packages.glob(pattern))
        assert len(found) == 1, (pattern, found)
        return found[0]

    return find


@pytest.fixture(scope="session")
def python_venv(packages, tmp_path_factory):
    """An environment with the wheel; pytest and boto3 are lent to it by the one that runs this."""
    directory = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    (wheel,) = packages.glob("*.whl")
    install = [directory / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel]
    subprocess.run(install, check=True)
    (site,) = directory.glob("lib/python*/site-packages")
    (lent,) = Path(sys.prefix).glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(f"{lent}\n")
    return directory
