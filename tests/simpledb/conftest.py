"""Domains for the tests of SimpleDB."""

import os

import pytest

from conftest import COUNTER
from support.sdk import sdk_client
from support.simpledb import SimpleDb


@pytest.fixture(scope="session")
def db(server):
    """Raw HTTP."""
    return SimpleDb(server.endpoint)


@pytest.fixture(scope="session")
def sdb(server):
    """The SDK, which signs in version 2."""
    return sdk_client(server, service="sdb")


@pytest.fixture
def domain(db):
    """A new domain."""
    name = f"domain_{os.getpid()}_{next(COUNTER)}"
    db.create(name)
    yield name
    db.call("DeleteDomain", {"DomainName": name})
