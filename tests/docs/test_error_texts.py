"""The texts that the page on troubleshooting is sorted by are those that the server has."""

import re

from docs.blocks import ROOT

SECTIONS = ["Answers", "The server does not start", "In the log"]
# Codes whose words the sources put together, and statuses.
MADE_UP = {"AWS.SimpleQueueService.NonExistentQueue", "503"}


def test_error_texts_are_in_the_sources():
    sources = "\n".join(path.read_text() for path in ROOT.glob("crates/*/src/**/*.rs"))
    # Texts go on over the ends of lines.
    sources = re.sub(r"\\\n\s*", "", sources).replace('\\"', '"')
    page = (ROOT / "docs/troubleshooting.md").read_text()
    for section in SECTIONS:
        text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]
        headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
        assert headings
        for quoted in re.findall(r"`([^`]+)`", " ".join(headings)):
            for part in quoted.split("…"):
                assert quoted in MADE_UP or part.strip() in sources, quoted
