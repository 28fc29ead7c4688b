"""The Node package, packed and installed into a new project."""

import json
import os
import shutil
import subprocess

import pytest

from support.packages import first_block
from support.server import ROOT

SAMPLE = """
import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { CreateQueueCommand, ListQueuesCommand, ReceiveMessageCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
%s
after(() => millrace.stop());
beforeEach(() => millrace.reset());

test("a message comes back after its visibility timeout", async () => {
  const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: "jobs" }));
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "hello" }));
  assert.equal((await sqs.send(new ReceiveMessageCommand({ QueueUrl }))).Messages.length, 1);
  assert.equal((await sqs.send(new ReceiveMessageCommand({ QueueUrl }))).Messages, undefined);

  await millrace.advance(30);

  assert.equal((await sqs.send(new ReceiveMessageCommand({ QueueUrl }))).Messages[0].Body, "hello");
});

test("each test starts without queues", async () => {
  assert.equal((await sqs.send(new ListQueuesCommand({}))).QueueUrls, undefined);
});

test("code that makes its own client is led to the server", async () => {
  Object.assign(process.env, millrace.environment);
  const { QueueUrl } = await new SQSClient({}).send(new CreateQueueCommand({ QueueName: "mine" }));
  assert.equal(new URL(QueueUrl).host, new URL(millrace.endpoint).host);
});

test("a server that does not start says why", async () => {
  await assert.rejects(startMillrace({ arguments: ["--durability", "none"] }), /durability/);
});
"""

TYPES = """
import { program, startMillrace, type Millrace } from "millrace";
const server: Millrace = await startMillrace({ arguments: ["--region", "eu-west-1"] });
const endpoint: string = server.endpoint;
const variables: Readonly<Record<string, string>> = server.environment;
await server.advance(1.5);
await server.reset();
await server.stop();
// @ts-expect-error seconds are a number
await server.advance("1");
// @ts-expect-error there is no such option
await startMillrace({ flags: [] });
export const used = [program, endpoint, variables];
"""


@pytest.fixture(scope="module")
def project(packages, tmp_path_factory):
    """A project that has installed the package; the SDK and TypeScript are lent by tests/js."""
    directory = tmp_path_factory.mktemp("project")
    (directory / "package.json").write_text(json.dumps({"name": "project", "private": True, "type": "module"}))
    (package,) = packages.glob("millrace-npm-*.tgz")
    install = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", package]
    subprocess.run(install, cwd=directory, check=True)
    for lent in ["@aws-sdk", "typescript"]:
        (directory / "node_modules" / lent).symlink_to(ROOT / "tests/js/node_modules" / lent)
    return directory


def run(project, *command):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)


def test_programs_are_commands_of_the_project(project, version):
    assert run(project, "npx", "--offline", "millrace", "--version").stdout == f"millrace {version}\n"
    assert json.loads((project / "node_modules/millrace/package.json").read_text())["version"] == version


@pytest.mark.parametrize("page", ["packaging/npm/README.md", "docs/install.md"])
def test_sample_of_the_page_runs(project, page, tmp_path):
    block = first_block(ROOT / page, "js")
    (project / "sample.test.js").write_text(SAMPLE % block)

    done = run(project, "env", f"TMPDIR={tmp_path}", "node", "--test", "sample.test.js")

    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir()), "data were left behind"


def test_types_are_those_of_the_module(project):
    (project / "types.ts").write_text(TYPES)
    options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022"]

    done = run(project, shutil.which("node"), "node_modules/typescript/bin/tsc", *options, "types.ts")

    assert done.returncode == 0, done.stdout
