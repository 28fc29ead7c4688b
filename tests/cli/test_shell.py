"""Signatures, output that nobody reads, completions and manual pages."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.server import binary


def test_commands_sign_with_the_keys_of_environment_or_profile(make_server, tmp_path):
    server = make_server(env={"MILLRACE_ACCESS_KEY": "AKIDCLI", "MILLRACE_SECRET_KEY": "secret"})

    def run(**keys):
        environment = {"PATH": os.environ["PATH"], "AWS_ENDPOINT_URL": server.endpoint} | keys
        command = [binary(), "queue", "create", "signed"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)

    assert "Signature" in (refused := run()).stderr or "Auth" in refused.stderr or "auth" in refused.stderr
    assert refused.returncode == 1
    signed = run(AWS_ACCESS_KEY_ID="AKIDCLI", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="eu-west-1")
    assert signed.returncode == 0, signed.stderr
    assert run(MILLRACE_ACCESS_KEY="AKIDCLI", MILLRACE_SECRET_KEY="secret").returncode == 0
    profile = tmp_path / "credentials"
    profile.write_text("[cli]\naws_access_key_id = AKIDCLI\naws_secret_access_key = secret\n")
    named = run(AWS_SHARED_CREDENTIALS_FILE=str(profile), AWS_PROFILE="cli")
    assert named.returncode == 0, named.stderr
    unknown = run(AWS_SHARED_CREDENTIALS_FILE=str(profile), AWS_PROFILE="clj")
    assert unknown.returncode == 2 and "profile clj" in unknown.stderr
    half = run(AWS_ACCESS_KEY_ID="AKIDCLI")
    assert half.returncode == 2 and "AWS_SECRET_ACCESS_KEY is not" in half.stderr
    environment = {"AWS_ENDPOINT_URL_SQS": server.endpoint, "AWS_ACCESS_KEY_ID": "AKIDCLI"}
    environment["AWS_SECRET_ACCESS_KEY"] = "secret"
    peek = subprocess.run([binary(), "peek", "signed"], env=environment, capture_output=True, text=True)
    assert peek.returncode == 0, peek.stderr


def test_reader_that_leaves_is_no_error(millrace, queue, server):
    url = queue()
    millrace("send", url, "--lines", stdin=("x" * 1000 + "\n") * 200)

    command = f"{binary()} peek {url} --max 200 --endpoint {server.endpoint} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "roken pipe" not in done.stderr


def test_reader_that_leaves_ends_no_sending_and_hides_no_failure(millrace, queue, server, counts):
    url = queue()
    options = f"{url} --endpoint {server.endpoint}"

    def left_alone(command):
        pipe = f"{binary()} {command} {options} | true"
        return subprocess.run(["bash", "-o", "pipefail", "-c", pipe], stdin=open(lines), capture_output=True)

    lines = server.directory / "lines.txt"
    lines.write_text(("x" * 100 + "\n") * 2000)
    assert left_alone("send --lines").returncode == 0
    assert counts(url) == (2000, 0, 0)
    assert left_alone("export --consume").returncode == 1
    assert counts(url)[0] > 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_completions_ask_the_program(millrace, shell):
    script = millrace("completions", shell).stdout

    assert "_MILLRACE_COMPLETE" in script and "millrace" in script
    if shell != "powershell" and shell != "elvish" and shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=30)


def test_every_command_has_a_manual_page(millrace, tmp_path):
    millrace("man", str(tmp_path))

    pages = {page.name for page in tmp_path.iterdir()}
    assert {"millrace.1", "millrace-serve.1", "millrace-queue-create.1", "millrace-top.1"} <= pages
    assert ".TH" in (tmp_path / "millrace-send.1").read_text()


def test_a_profile_that_holds_no_keys_is_refused_by_name(millrace, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "[profile role]\nrole_arn = arn:aws:iam::000000000000:role/r\nsource_profile = base\nregion = eu-west-1\n"
        "[profile sso]\nsso_session = s\nregion = eu-west-1\n"
        "[profile process]\ncredential_process = get\nregion = eu-west-1\n"
        "[default]\nsso_session = s\nregion = eu-west-1\n"
    )
    files = {"AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    keys = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B"}

    for name, setting in (("role", "role_arn"), ("sso", "sso_session"), ("process", "credential_process")):
        for flags, variables in ((["--profile", name], {}), ([], {"AWS_PROFILE": name})):
            refused = millrace("queue", "list", *flags, environment=files | variables, expect=2)
            assert f"profile {name} " in refused.stderr and setting in refused.stderr
    # Keys in the environment go before those of a profile that is only the default, or chosen there.
    millrace("queue", "list", environment=files | keys | {"AWS_PROFILE": "sso"})
    # A server of one's own may need no keys.
    millrace("queue", "list", environment=files)
    amazon = millrace("queue", "list", environment=files, endpoint="https://sqs.us-east-1.amazonaws.com", expect=2)
    assert "profile default " in amazon.stderr


def test_files_of_the_aws_tools_are_found_below_home_and_bounded(millrace, tmp_path):
    (tmp_path / "keys").write_text("[mine]\naws_access_key_id = A\naws_secret_access_key = B\n")
    (tmp_path / "endless").write_text("[mine]\n" + "a" * (1 << 17))

    def list_queues(path, expect):
        environment = {"HOME": str(tmp_path), "AWS_SHARED_CREDENTIALS_FILE": path}
        return millrace("queue", "list", "--profile", "mine", environment=environment, expect=expect)

    list_queues("~/keys", expect=0)
    assert "profile mine is in neither" in list_queues("~/other", expect=2).stderr
    assert "endless: line 2 is longer than 65536 bytes" in list_queues("~/endless", expect=2).stderr


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize("flag", ["--endpoint {}", "--endpoint={}"])
def test_bash_completes_names_behind_a_url_that_it_has_split(server, millrace, new_name, flag, tmp_path):
    name = new_name("completed")
    millrace("queue", "create", name)
    script = millrace("completions", "bash").stdout
    words = f"millrace {flag.format(server.endpoint)} receive {name}".split()
    # As bash does: colons and equal signs are words of their own.
    split = [part for word in words for part in re.split(r"([:=]+)", word) if part]
    call = "\n".join(
        [
            script,
            "compopt() { return 1; }",
            f"COMP_WORDS=({' '.join(map(shlex.quote, split))})",
            f"COMP_CWORD={len(split) - 1}",
            f"_clap_complete_millrace millrace {shlex.quote(split[-1])}",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
    )
    env = os.environ | {"PATH": f"{Path(binary()).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", call], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=30)

    assert done.stdout.split() == [name], done.stderr
