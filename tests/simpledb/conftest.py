"""Domains for the tests of SimpleDB."""

import pytest

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
def domain(db, new_name):
    """A new domain, whose name has to be quoted in queries."""
    name = db.create(new_name("domain"))
    yield name
    db.call("DeleteDomain", {"DomainName": name})
