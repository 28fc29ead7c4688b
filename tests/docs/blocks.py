"""The fenced blocks of the README and the pages below docs/, and what their marks ask for.

The words behind a block's language are its marks; a page that is shown on the web hides them:

    ```sh server           the command starts the page's server, which runs until the page's end or the next one;
                           a page without one has `millrace serve`
    ```sh test             runs and must succeed; all blocks of a page run in order, in one directory
    ```sh test exit=2      … must end with 2
    ```sh test stopped     … runs after the page's server was stopped
    ```python test         runs, and so does `js test`
    ```toml file=NAME      is written into the directory
    ```text output         what the block before printed; `…` stands for anything within a line, and a line
                           of it for any lines
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from support.server import ROOT

# What a reader may paste. Blocks of these have a mark, or a reason in not_run.py.
RUNNABLE = {"sh", "bash", "shell", "console", "python", "js", "javascript", "ts", "go", "java"}
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.split("\n", 1)[0]


def pages() -> list[str]:
    """The pages that a user reads, as paths from the root."""
    top = [path for name in ["README.md", "SECURITY.md"] if (path := ROOT / name).exists()]
    return [str(path.relative_to(ROOT)) for path in [*top, *sorted((ROOT / "docs").rglob("*.md"))]]


def blocks_of(page: str) -> list[Block]:
    return parse(page, (ROOT / Path(page)).read_text())


def parse(page: str, source: str) -> list[Block]:
    blocks = []
    for fence in FENCE.finditer(source):
        language, *marks = fence["info"].split() or [""]
        indent = len(fence["indent"])
        text = "".join(line[indent:] if line.strip() else line for line in fence["text"].splitlines(keepends=True))
        block = Block(page, source.count("\n", 0, fence.start()) + 1, language.split(",")[0], text)
        for mark in marks:
            name, _, value = mark.partition("=")
            block.marks[name] = value
        blocks.append(block)
    return blocks


def matches(shown: str, printed: str) -> bool:
    """Compares what a page shows with what a command printed."""

    def pattern(line):
        return ".*".join(re.escape(part) for part in line.split("…"))

    expected = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else pattern(line) + "\n" for line in shown.rstrip().split("\n")
    )
    return re.fullmatch(expected, printed.rstrip() + "\n") is not None
