"""`millrace project`: projects of IronMQ and their tokens."""

import json

import pytest

from support.wire import request

KEYS = """
[[credentials]]
access_key = "AKID"
secret_key = "SECRET"
account = "111111111111"
[[credentials]]
access_key = "OTHER"
secret_key = "SECRET"
account = "222222222222"
[projects.of-file]
account = "111111111111"
tokens = { ci = "token-of-the-file" }
"""
KEY = {"MILLRACE_ACCESS_KEY": "AKID", "MILLRACE_SECRET_KEY": "SECRET"}
OTHER = KEY | {"MILLRACE_ACCESS_KEY": "OTHER"}


def queues(server, project, token):
    headers = {"Authorization": f"OAuth {token}"}
    return request(server.endpoint, "GET", f"/3/projects/{project}/queues", headers=headers).status


@pytest.fixture
def guarded(make_server):
    return make_server(config=KEYS)


@pytest.fixture
def run(millrace, guarded):
    def run(*arguments, **options):
        options = {"endpoint": guarded.endpoint, "environment": KEY} | options
        return millrace("project", *arguments, **options)

    return run


def test_a_project_from_its_creation_to_its_end(run, guarded):
    created = run("create", "shop", "--region", "eu-west-1")
    assert created.stdout == ""
    assert "project shop is in region eu-west-1, account 111111111111" in created.stderr
    run("create", "shop", "--region", "eu-west-1")

    made = run("token", "create", "shop", "--label", "laptop")
    token = made.stdout.strip()
    assert len(token) == 40 and "created; it will not be shown again:" in made.stderr and token not in made.stderr
    assert queues(guarded, "shop", token) == 200
    other = json.loads(run("token", "create", "shop", "--json").stdout)
    assert queues(guarded, "shop", other["token"]) == 200

    head, of_file, shop = run("list").stdout.splitlines()
    assert head.split() == ["PROJECT", "REGION", "ACCOUNT", "TOKENS"]
    assert of_file.split() == ["of-file", "us-east-1", "111111111111", "ci"]
    assert shop.startswith("shop ") and "(laptop), " + other["id"] in shop
    document = json.loads(run("list", "--json").stdout)
    assert [(it["project"], len(it["tokens"])) for it in document] == [("of-file", 1), ("shop", 2)]
    assert token not in run("list", "--json").stdout

    assert "1 token revoked" in run("token", "revoke", "shop", "laptop").stderr
    assert (queues(guarded, "shop", token), queues(guarded, "shop", other["token"])) == (401, 200)
    assert "Give --yes to do it" in run("delete", "shop", expect=2).stderr
    assert queues(guarded, "shop", other["token"]) == 200
    run("delete", "shop", "--yes")
    assert queues(guarded, "shop", other["token"]) == 401
    assert len(run("list").stdout.splitlines()) == 2


def test_errors_say_what_to_do(run, guarded):
    run("create", "shop")
    made = run("token", "create", "shop").stdout.strip()
    for arguments, options, texts in [
        (["token", "create", "shpo"], {}, ["There is no project shpo of this account.", "`millrace project create` creates one"]),
        (["delete", "shop", "--yes"], {"environment": OTHER}, ["There is no project shop of this account."]),
        (["create", "shop"], {"environment": OTHER}, ["Project shop exists already", "choose another id"]),
        (["create", "new", "--account", "222222222222"], {}, ["maps projects to that account only: leave --account out"]),
        (["token", "revoke", "shop", made], {}, ["has no token with this id or label", "give the token's id or label, not the token"]),
        (["token", "revoke", "of-file", "ci"], {}, ["Token ci is declared in the configuration file"]),
        (["delete", "of-file", "--yes"], {}, ["Project of-file is declared in the configuration file"]),
        (["create", "a:b"], {}, ["1 to 128 letters of ASCII"]),
    ]:
        error = run(*arguments, expect=1, **options).stderr
        assert all(text in error for text in texts), error
        assert made not in error
    assert "twelve digits" in run("create", "x", "--account", "1", expect=2).stderr


def test_the_configuration_shows_projects_without_tokens(millrace, tmp_path):
    file = tmp_path / "millrace.toml"
    file.write_text(KEYS)
    text = millrace("config", "show", "--config", str(file)).stdout
    document = millrace("config", "show", "--json", "--config", str(file)).stdout
    assert "project of-file: region=us-east-1 account=111111111111 token:ci=***" in text
    (project,) = json.loads(document)["projects"]
    assert project["tokens"] == {"ci": "***"}
    assert "token-of-the-file" not in text + document


def test_without_credentials_a_project_may_be_of_any_account(millrace, make_server):
    server = make_server()
    millrace("project", "create", "shop", "--account", "333333333333", endpoint=server.endpoint)
    assert queues(server, "shop", "any") == 200
    (project,) = json.loads(millrace("project", "list", "--json", endpoint=server.endpoint).stdout)
    assert (project["account"], project["region"]) == ("333333333333", "us-east-1")
    millrace("project", "delete", "shop", "--yes", endpoint=server.endpoint)


def test_a_token_in_an_access_key_is_not_printed(millrace, guarded):
    """Not with a wrong token, nor where the key of a project opens nothing."""
    for token in ("wrong-token", "token-of-the-file"):
        key = {"AWS_ACCESS_KEY_ID": f"of-file:{token}", "AWS_SECRET_ACCESS_KEY": "x"}
        for arguments in (["queue", "list"], ["peek", "jobs"], ["topic", "list"], ["project", "list"]):
            ended = millrace(*arguments, endpoint=guarded.endpoint, environment=key, expect=1)
            assert token not in ended.stdout + ended.stderr, arguments
        assert "no access key of-file:…: a key PROJECT:TOKEN" in ended.stderr


def test_without_credentials_all_commands_agree_on_the_account_of_a_project(millrace, make_server):
    server = make_server()
    key = {"AWS_ACCESS_KEY_ID": "shop:any", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    options = {"endpoint": server.endpoint, "environment": key}
    millrace("queue", "create", "jobs", **options)
    millrace("send", "jobs", "hello", **options)

    assert "jobs" in millrace("queue", "list", **options).stdout
    assert "hello" in millrace("peek", "jobs", **options).stdout
    assert "jobs" not in millrace("queue", "list", endpoint=server.endpoint).stdout


def test_a_declaration_that_hides_queues_is_warned_of(make_server):
    server = make_server()
    headers = {"Content-Type": "application/json"}
    assert request(server.endpoint, "PUT", "/3/projects/shop/queues/jobs", "{}", headers).status == 200
    warning = "the configuration moves a project to another place"
    server.config = "[projects.shop]\naccount = '333333333333'\n"
    server.restart()
    assert warning in server.log.read_text()
