"""Errors say what to do: the flag to give, the URL to write, the command that comes next."""

import contextlib
import http.client
import http.server
import json
import os
import pty
import subprocess
import threading

import pytest

from support.process import running
from support.server import binary, free_port


def test_a_fifo_queue_wants_a_group(millrace, fifo):
    url = fifo(ContentBasedDeduplication="false")

    assert "--group" in millrace("send", url, "x", expect=1).stderr
    assert "--group" in millrace("send", url, "--lines", stdin="x\n", expect=1).stderr
    assert "--deduplication" in millrace("send", url, "x", "--group", "g", expect=1).stderr


def test_a_missing_queue_is_named_with_the_place_that_was_asked_and_where_it_is(millrace, new_name):
    name = new_name("elsewhere")
    millrace("queue", "create", name, "--region", "eu-west-1")

    missing = millrace("queue", "show", name, expect=1).stderr
    assert "region us-east-1, account 000000000000" in missing and "--region eu-west-1" in missing
    keys = {"AWS_ACCESS_KEY_ID": "111111111111", "AWS_SECRET_ACCESS_KEY": "any"}
    theirs = millrace("peek", name, environment=keys, expect=1).stderr
    assert "account 111111111111" in theirs and "account 000000000000" in theirs
    nowhere = millrace("send", "no-such-queue", "x", expect=1).stderr
    assert "millrace queue create no-such-queue" in nowhere and "did you mean" not in nowhere


def test_a_mistyped_name_is_answered_with_the_queue_that_is_meant(millrace, new_name):
    name = new_name("payments-of-the-north")
    millrace("queue", "create", name)
    mistyped = name.replace("payments", "payment")

    for command in (["send", mistyped, "x"], ["queue", "show", mistyped], ["work", "--queue", mistyped, "--exec", "cat"]):
        assert f"did you mean {name}?" in millrace(*command, expect=1).stderr, command
    for command in ("queu", "recieve"):
        assert "similar subcommand" in millrace(command, expect=2).stderr


def test_pages_of_queues_that_never_end_are_an_error(millrace):
    class Server(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            answer = json.dumps({"QueueUrls": ["http://a/000000000000/q"], "NextToken": "again"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever).start()
    try:
        refused = millrace("queue", "list", endpoint=f"http://127.0.0.1:{server.server_port}", expect=1).stderr
    finally:
        server.shutdown()
        server.server_close()

    assert "repeats a NextToken" in refused


def test_places_of_other_accounts_stay_theirs(make_server, millrace):
    config = "".join(
        f'[[credentials]]\naccess_key = "{key}"\nsecret_key = "s"\naccount = "{account}"\n'
        for key, account in (("ONE", "111111111111"), ("TWO", "222222222222"))
    )
    server = make_server(config=config)
    def keys(name):
        return {"AWS_ACCESS_KEY_ID": name, "AWS_SECRET_ACCESS_KEY": "s"}
    millrace("queue", "create", "private", endpoint=server.endpoint, environment=keys("ONE"))

    missing = millrace("queue", "show", "private", endpoint=server.endpoint, environment=keys("TWO"), expect=1).stderr

    assert "222222222222" in missing and "111111111111" not in missing


def test_a_wrong_scheme_or_authority_is_named(millrace, server, tmp_path):
    plain = millrace("queue", "list", endpoint=server.endpoint.replace("http:", "https:"), expect=1).stderr
    assert "must begin with http://" in plain
    certificate, key, port = tmp_path / "certificate.pem", tmp_path / "key.pem", free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=millrace advice", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    serve = [binary(), "serve", "--listen", str(port), "--data", tmp_path / "data", "--console-listen", "off"]
    with running([*serve, "--tls-cert", certificate, "--tls-key", key]):
        trust = {"AWS_CA_BUNDLE": str(certificate)}
        millrace("ready", "--wait", "20s", endpoint=f"https://localhost:{port}", environment=trust)

        def advice(host, **environment):
            return millrace("queue", "list", endpoint=f"{host}:{port}", environment=environment, expect=1).stderr

        assert "must begin with https://" in advice("http://localhost")
        assert "must begin with https://" in millrace("ready", endpoint=f"http://localhost:{port}", expect=1).stderr
        worked = millrace("work", "--queue", "q", "--exec", "cat", endpoint=f"http://localhost:{port}", expect=1).stderr
        assert "must begin with https://" in worked
        assert "AWS_CA_BUNDLE=" in advice("https://localhost")
        assert "other names" in advice("https://127.0.0.1", **trust)
        no_authority = {"AWS_CA_BUNDLE": str(key)}
        assert "holds no certificate" in millrace("queue", "list", environment=no_authority, expect=2).stderr


def test_the_consoles_port_is_not_the_servers(make_server, millrace):
    console = f"127.0.0.1:{free_port()}"
    server = make_server(console=console)

    ready = millrace("ready", endpoint=f"http://{console}", expect=1).stderr
    listed = millrace("queue", "list", endpoint=f"http://{console}", expect=1).stderr
    topics = millrace("topic", "list", endpoint=f"http://{console}", expect=1).stderr

    assert "web console" in topics
    for text in (ready, listed):
        assert "web console" in text and f"--endpoint {server.endpoint}" in text, text


def test_a_wrong_key_or_secret_is_said_first(make_server, millrace):
    server = make_server(config='access_key = "AKID"\nsecret_key = "right"\n')

    def list_queues(*, what="queue", **environment):
        return millrace(what, "list", endpoint=server.endpoint, environment=environment, expect=1).stderr

    wrong = list_queues(AWS_ACCESS_KEY_ID="AKID", AWS_SECRET_ACCESS_KEY="wrong").splitlines()
    assert "the secret key is not the one" in wrong[0] and "AKID" in wrong[0]
    assert "no access key OTHER" in list_queues(AWS_ACCESS_KEY_ID="OTHER", AWS_SECRET_ACCESS_KEY="x")
    assert "AWS_ACCESS_KEY_ID" in list_queues()
    assert "no access key OTHER" in list_queues(what="topic", AWS_ACCESS_KEY_ID="OTHER", AWS_SECRET_ACCESS_KEY="x")
    assert "AWS_ACCESS_KEY_ID" in list_queues(what="topic")


def test_nobody_listens(millrace):
    assert "millrace serve" in millrace("queue", "list", endpoint="http://127.0.0.1:9", expect=1).stderr


def test_a_taken_port_names_another(server, millrace, tmp_path):
    data = ["--data", str(tmp_path / "data")]
    taken = millrace("serve", "--listen", str(server.port), *data, expect=1).stderr
    assert f"--listen {server.port + 2}" in taken
    arguments = ["--listen", str(free_port()), "--console-listen", str(server.port)]
    assert "--console-listen off" in millrace("serve", *arguments, *data, expect=1).stderr


def test_damaged_data_names_the_command_that_repairs_it(make_server, millrace):
    server = make_server(durability="os")
    millrace("queue", "create", "jobs", endpoint=server.endpoint)
    server.stop()
    (segment, *_) = sorted((server.data / "journal").glob("*.log")) or sorted((server.data / "journal").iterdir())
    content = bytearray(segment.read_bytes())
    content[0:16] = b"\xff" * 16
    segment.write_bytes(content)

    refused = millrace("serve", "--listen", str(server.port), "--data", str(server.data), expect=1).stderr

    assert f"millrace journal repair --data {server.data}" in refused and "docs/troubleshooting.md" in refused


def test_redrive_says_when_to_name_a_queue(millrace, lines, queue, new_name, arn):
    plain = queue()
    assert "--to QUEUE" in millrace("redrive", plain, expect=1).stderr
    dead, work = new_name("dead"), new_name("work")
    lines("queue", "create", dead)
    lines("queue", "create", work, "--dead-letters", dead, "--max-receives", "1")
    # Sent here by hand, so it comes from no queue.
    millrace("send", dead, "x")
    assert f"millrace redrive {dead} --to QUEUE" in millrace("redrive", dead, expect=1).stderr
    for name in (plain, dead):
        assert f"no move out of {name} is running" in millrace("redrive", name, "--cancel", expect=1).stderr


def test_deleting_somebodys_dead_letter_queue_warns(millrace, lines, new_name):
    dead, work = new_name("dead"), new_name("work")
    lines("queue", "create", dead)
    lines("queue", "create", work, "--dead-letters", dead, "--max-receives", "1")

    assert "warning" not in millrace("queue", "purge", dead, "--yes").stderr
    refused = millrace("queue", "delete", dead, expect=2).stderr
    assert f"{dead} is the dead-letter queue of {work}" in refused
    assert "warning" not in millrace("queue", "delete", dead, work, "--yes").stderr


def test_lines_that_are_no_export_are_explained(millrace, queue):
    for line in ("x", '{"body": "x"}', "[1]"):
        refused = millrace("import", queue(), stdin=line + "\n", expect=1).stderr
        assert "line 1" in refused and '{"Body": "text"}' in refused, refused
        assert "expected value" not in refused


def test_every_unknown_key_and_variable_is_named_at_once(millrace, tmp_path):
    config = tmp_path / "m.toml"
    config.write_text('regoin = "x"\n[limits]\nin_fligth = 1\n[queues.a]\nvisibilty_timeout = 1\n')

    refused = millrace("config", "check", "--config", str(config), expect=2).stderr
    assert all(name in refused for name in ("regoin", "in_fligth", "visibilty_timeout")), refused
    variables = {"MILLRACE_LISTN": "x", "MILLRACE_DATTA": "y"}
    refused = millrace("config", "check", environment=variables, expect=2, endpoint=None).stderr
    assert all(name in refused for name in variables), refused


def test_check_takes_dead_letter_queues_that_data_may_have_and_says_so(millrace, tmp_path):
    config = tmp_path / "m.toml"
    config.write_text('[queues.jobs]\ndead_letter_queue = "jobs-dead"\nmax_receive_count = 3\n')

    checked = millrace("config", "check", "--config", str(config))
    assert "a server can start" in checked.stdout
    assert "jobs-dead" in checked.stderr and "only if its data have it" in checked.stderr
    config.write_text(config.read_text().replace("jobs-dead", "jobs-dead.fifo"))
    assert "RedrivePolicy" in millrace("config", "check", "--config", str(config), expect=2).stderr


def test_strict_says_what_it_overrules(make_server, millrace, tmp_path):
    config = tmp_path / "m.toml"
    config.write_text("strict = true\n[limits]\nin_flight = 500_000\n")

    checked = millrace("config", "check", "--config", str(config)).stderr

    assert "limits.in_flight" in checked and "is 120000 while strict is on" in checked


def test_an_open_server_without_keys_warns_in_the_log(make_server):
    server = make_server(args=["--listen", f"0.0.0.0:{free_port()}", "--insecure"])

    assert "everybody who can reach this address" in server.log.read_text()


@pytest.mark.parametrize("flags, shown", [([], True), (["--log-format", "json"], False)])
def test_each_start_on_a_terminal_prints_the_banner(tmp_path, flags, shown):
    ours, theirs = pty.openpty()
    (tmp_path / "data").mkdir()
    port = free_port()
    command = [str(binary()), "serve", "--listen", str(port), "--console-listen", "off", "--data", "data", *flags]
    printed = b""
    with open(ours, "rb", buffering=0) as screen, running(command, stderr=theirs, cwd=tmp_path):
        os.close(theirs)
        with contextlib.suppress(OSError):
            while b"version=" not in printed and b'"version"' not in printed:
                printed += screen.read(65536)

    assert (f"export AWS_ENDPOINT_URL=http://127.0.0.1:{port}" in printed.decode()) is shown
    assert str(tmp_path / "data") in printed.decode()


def get(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def test_a_browser_gets_a_page_that_points_to_the_console(make_server):
    console = f"127.0.0.1:{free_port()}"
    server = make_server(console=console)

    for path in ("/", "/000000000000/jobs"):
        status, headers, page = get(server.port, path, Accept="text/html,*/*;q=0.8")
        assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
        assert f'<a href="http://{console}">' in page
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    # Programs get what Amazon answers.
    for accept in ("*/*", "application/json"):
        status, _, body = get(server.port, "/", Accept=accept)
        assert status == 400 and "MissingAction" in body
    status, _, body = get(server.port, "/?Action=ListQueues", Accept="text/html")
    assert status == 200 and "ListQueuesResponse" in body


def test_paths_for_tests_say_what_they_need(make_server):
    usual, for_tests = make_server(test=False), make_server()

    for path in ("/_localstack/state/reset", "/_millrace/clock/advance", "/_millrace/clock"):
        status, _, body = get(usual.port, path, "POST")
        assert status == 404 and "--test" in body
    status, headers, body = get(for_tests.port, "/_localstack/state/reset")
    assert (status, headers["Allow"], json.loads(body)["error"]) == (405, "POST", "use POST instead of GET")
    assert "no such path" in get(for_tests.port, "/_millrace/clok")[2]


def test_metrics_say_which_setting_opens_them(make_server):
    keys = 'access_key = "AKID"\nsecret_key = "secret"\n'
    closed, opened = make_server(config=keys), make_server(config=keys + '[metrics]\ntoken = "t"\n')

    assert "MILLRACE_METRICS__TOKEN" in get(closed.port, "/metrics")[2]
    assert "Authorization: Bearer" in get(opened.port, "/metrics")[2]
    status, _, body = get(closed.port, "/_millrace/metrics/delete", "POST")
    assert status == 403 and "--aws-sigv4" in body


def test_metrics_delete_takes_accounts_and_says_all_regions(millrace):
    assert "twelve digits" in millrace("metrics", "delete", "--all", "--account", "12", expect=2).stderr
    # Help is folded to the terminal's width.
    assert "all regions" in " ".join(millrace("metrics", "delete", "--help").stdout.split())
