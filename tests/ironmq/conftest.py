"""Projects for the tests of IronMQ: each test has one of its own, and so all queue names."""

import contextlib

import pytest

from support.ironmq import Iron, IronError, Queue, new_project


@pytest.fixture
def project():
    return new_project()


@pytest.fixture
def iron(server, project):
    """Version 3 by hand."""
    with contextlib.closing(Iron(server.endpoint, project)) as iron:
        yield iron


@pytest.fixture
def iron1(server, project):
    """Version 1 by hand, of the same project."""
    with contextlib.closing(Iron(server.endpoint, project, version=1)) as iron:
        yield iron


@pytest.fixture
def jobs(iron):
    """A queue in version 3 that exists and is empty."""
    queue = Queue(iron, "jobs")
    queue.create()
    return queue


@pytest.fixture
def refused():
    """`with refused(403, "Reservation timed out"):` the block is refused with that status and text, or any."""

    @contextlib.contextmanager
    def check(status, message=None):
        with pytest.raises(IronError) as caught:
            yield caught
        assert (caught.value.status, caught.value.message) == (status, message or caught.value.message)

    return check
