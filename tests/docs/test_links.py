"""Links between pages lead somewhere: to files that exist and to headings that they have."""

import re
from pathlib import Path

import pytest

from docs.blocks import FENCE, pages
from support.server import ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")
CHECKED = [*pages(), "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "tests/README.md"]


def anchors(page: Path) -> set[str]:
    """The headings' anchors, as GitHub makes them."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", CHECKED)
def test_links_lead_somewhere(page):
    path = ROOT / page
    broken = []
    for target in LINK.findall(FENCE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            broken.append(target)
    assert not broken
