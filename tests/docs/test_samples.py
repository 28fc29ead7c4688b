"""Every sample of the README and of docs/ that can run here runs, in the order of its page, and prints what the
page shows. The marks of blocks are in blocks.py; what has none is in not_run.py, with the reason."""

import pytest

from docs.blocks import RUNNABLE, blocks_of, matches, pages, parse
from docs.not_run import NOT_RUN
from docs.session import Session

MARKS = {"server", "test", "exit", "stopped", "file", "output"}


def is_run(block):
    return bool(block.marks.keys() & {"server", "test", "file"})


@pytest.mark.parametrize("page", [page for page in pages() if any(map(is_run, blocks_of(page)))])
def test_samples_run_as_shown(page, tmp_path):
    session = Session(tmp_path)
    try:
        session.play(blocks_of(page))
    finally:
        session.close()


def test_every_other_sample_has_a_reason():
    unmarked = {
        (block.page, block.first_line)
        for page in pages()
        for block in blocks_of(page)
        if block.language in RUNNABLE and not is_run(block)
    }
    listed = {(page, line) for reasons in NOT_RUN.values() for page, lines in reasons.items() for line in lines}
    assert unmarked - listed == set(), "mark these blocks, or list them in tests/docs/not_run.py"
    assert listed - unmarked == set(), "listed in tests/docs/not_run.py, but run or gone"


def test_marks_are_known():
    for page in pages():
        for block in blocks_of(page):
            assert block.marks.keys() <= MARKS, block.place


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("```sh test\nfalse\ntrue\n```", "exit code 1, not 0"),
        ("```sh test exit=2\ntrue\n```", "exit code 0, not 2"),
        ("```sh test\nfalse | true\n```", "exit code 1, not 0"),
        ("```sh test\ncurl http://127.0.0.1:4566/nothing-here\n```", "exit code 22, not 0"),
        ("```python test\nassert 1 == 2\n```", "exit code 1, not 0"),
        ("```js test\nawait fetch('http://127.0.0.1:9')\n```", "exit code 1, not 0"),
        ("```sh test\necho a\n```\n```text output\nb\n```", "shows"),
        ("```sh server\nmillrace serve --account 1\n```", "exit code 2"),
    ],
)
def test_a_sample_that_fails_fails_its_page(page, problem, tmp_path):
    session = Session(tmp_path)
    try:
        with pytest.raises(AssertionError, match=problem):
            session.play(parse("page.md", page + "\n"))
    finally:
        session.close()


def test_blocks_are_read_with_their_marks():
    source = "# Title\n\n```sh test exit=2\na\n\nb\n```\n\n1. Item\n\n   ```text output\n   c\n   ```\n"

    command, output = parse("page.md", source)

    assert (command.line, command.language, command.text) == (3, "sh", "a\n\nb\n")
    assert command.marks == {"test": "", "exit": "2"}
    assert (output.text, output.marks) == ("c\n", {"output": ""})


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a", "a\nb\n", False),
        ("a.c", "abc\n", False),
        ('"MessageId": "…"', '"MessageId": "6550b73d"\n', True),
        ("a…c", "a\nc\n", False),
        ("a\n…\nc", "a\nb\nb\nc\n", True),
        ("a\n…\nc", "a\nc\n", True),
        ("a\n…\nc", "a\nb\n", False),
    ],
)
def test_output_is_compared_but_for_ellipses(shown, printed, same):
    assert matches(shown, printed) == same
