"""URLs that are given: what is refused is never quoted, and no query is shown."""

import pytest

SECRET = "hunter2"
REFUSED = [
    f"http://user:{SECRET}@127.0.0.1:9",
    f"http://{SECRET}@127.0.0.1:9",
    f"http://user:{SECRET}",
    f"{SECRET}:9",
    f"http://127.0.0.1:9/{SECRET} b",
    f"http://127.0.0.1:99999/?key={SECRET}",
]


@pytest.mark.parametrize("url", REFUSED)
def test_an_endpoint_that_is_refused_is_not_quoted(millrace, tmp_path, monkeypatch, url):
    places = [
        ("--endpoint", ["queue", "list", "--endpoint", url], {}),
        ("MILLRACE_ENDPOINT", ["queue", "list"], {"endpoint": url}),
        ("--endpoint", ["bench", "load", "send", "--endpoint", url], {}),
        ("--endpoint", ["bench", "pc", "--endpoint", url], {}),
        ("--push", ["bench", "pc", "--push", url], {}),
        ("--versus", ["bench", "ab", "--versus", url], {}),
        ("--endpoint", ["work", "--endpoint", url, "--queue", "q", "--exec", "true"], {}),
        ("traces.endpoint", ["config", "check"], {"environment": {"MILLRACE_TRACES__ENDPOINT": url}}),
        ("public_url", ["config", "check"], {"environment": {"MILLRACE_PUBLIC_URL": url}}),
        ("AWS_ENDPOINT_URL", ["queue", "list"], {"endpoint": None, "environment": {"AWS_ENDPOINT_URL": url}}),
    ]
    for source, arguments, options in places:
        refused = millrace(*arguments, expect=2, **options)
        assert source in refused.stderr, (arguments, refused.stderr)
        assert SECRET not in refused.stdout + refused.stderr, arguments


@pytest.mark.parametrize("flag", ["--post", "--lambda", "--health"])
def test_a_handler_that_is_refused_is_not_quoted(millrace, queue, flag):
    url = queue()
    handler = [] if flag != "--health" else ["--exec", "true"]

    for given in REFUSED:
        refused = millrace("work", "--queue", url, flag, given, *handler, "--until-empty", expect=2)
        assert flag in refused.stderr and SECRET not in refused.stdout + refused.stderr


def test_a_queue_url_is_refused_with_a_query_and_not_quoted(millrace, server):
    host = server.endpoint.removeprefix("http://")
    for url in (f"http://user:{SECRET}@{host}/000000000000/q", f"http://{host}/000000000000/q?key={SECRET}"):
        for command in (["send", url, "body"], ["peek", url], ["work", "--queue", url, "--exec", "true"]):
            for endpoint in (server.endpoint, None):
                refused = millrace(*command, expect=2, endpoint=endpoint)
                assert "queue URL: " in refused.stderr and SECRET not in refused.stderr


def test_a_url_in_the_wrong_place_is_not_quoted(millrace):
    url = f"http://user:{SECRET}@h"
    for arguments in (["queue", "list", "x", url], [url], ["work", "--concurrency", url], ["bench", "load", url]):
        refused = millrace(*arguments, expect=2)
        assert SECRET not in refused.stderr and "a URL" in refused.stderr, refused.stderr


def test_what_would_be_done_is_shown_without_the_query(millrace, queue):
    url = queue()
    millrace("send", url, "a")

    shown = millrace("work", "--queue", url, "--post", f"http://h/x?key={SECRET}", "--dry-run", "--until-empty")

    assert "post http://h/x" in shown.stdout and SECRET not in shown.stdout + shown.stderr


def test_reports_and_their_command_lines_show_no_query(millrace, server, tmp_path):
    page = tmp_path / "page.html"
    few = ["--scale", "0.001", "--rate", "20", "--html", str(page), "--json"]

    for where in (["--endpoint", f"{server.endpoint}/health?key={SECRET}"],):
        done = millrace("bench", "http", *few, *where)
        assert SECRET not in done.stdout + done.stderr + page.read_text()
