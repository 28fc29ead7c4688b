"""One version in every place that names it."""

import re
import subprocess

import yaml

from support.server import ROOT, binary


def test_program_and_changelog_tell_one_version(version):
    headings = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    said = subprocess.run([binary(), "--version"], capture_output=True, text=True).stdout

    assert headings[0] == version
    assert said == f"millrace {version}\n"


def test_chart_compose_file_and_docs_name_the_image_of_this_version(version):
    chart = yaml.safe_load((ROOT / "packaging/helm/millrace/Chart.yaml").read_text())
    compose = yaml.safe_load((ROOT / "packaging/compose.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert compose["services"]["millrace"]["image"] == f"millrace:{version}"
    assert f"millrace:{version} serve" in (ROOT / "docs/install.md").read_text()
