"""What a test needs of the machine that it runs on."""

import os

import pytest

MAY_SKIP = os.environ.get("FAULT_SKIPS", "allowed") == "allowed"


def lacks(what):
    """Ends a test that the machine cannot run: skipped, or failed with `FAULT_SKIPS=refused`."""
    if MAY_SKIP:
        pytest.skip(what)
    pytest.fail(what)
