// What a shell makes of the commands that forms show. Needs neither a browser nor the AWS CLI, whose
// part is in tests/cli/test_console_commands.py.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

const SOURCE = readFileSync(new URL("../../crates/millrace-console/assets/cli.js", import.meta.url), "utf8");
const DATA = { endpoint: "http://127.0.0.1:4566", region: "us-east-1", account: "000000000000", is_authenticated: false };
const SCRIPT = `const data = ${JSON.stringify(DATA)}, copyButton = null, h = null, setText = null;\n${SOURCE.replaceAll(/^import .*$/gm, "")}`;
const { command, quote, unusedWord } = await import(`data:text/javascript,${encodeURIComponent(SCRIPT)}`);

const directory = mkdtempSync(join(tmpdir(), "millrace-cli-"));
after(() => rmSync(directory, { recursive: true }));

/** The arguments of every `aws` that a command runs; a file's contents in the place of its name. */
function runs(line) {
  const aws = `aws() {
    printf '%s\\0' "$AWS_ACCESS_KEY_ID"
    for word; do
      case $word in
        file://*) cat "\${word#file://}"; printf '\\0' ;;
        *) printf '%s\\0' "$word" ;;
      esac
    done
    printf 'end\\0'
  }`;
  // A file: what is long is no argument.
  const script = join(directory, "script");
  writeFileSync(script, `${aws}\n${line}`);
  const words = execFileSync("sh", [script], { encoding: "utf8", input: "", maxBuffer: 1 << 26 }).split("\0");
  const found = [[]];
  for (const word of words.slice(0, -1)) {
    if (word === "end") found.push([]);
    else found.at(-1).push(word);
  }
  return found.slice(0, -1);
}

function inputOf([, service, action, option, json]) {
  assert.deepEqual([service, action, option], ["sqs", "send-message", "--cli-input-json"]);
  return JSON.parse(json);
}

const NASTY = [
  "hello", "", " ", " a ", "-x", "--query", "--", "file:///etc/passwd", "fileb:///etc/passwd", "http://127.0.0.1:9/", "https://127.0.0.1:9/",
  "it's", "''", `'"'`, '"', "`id`", "$(id)", "$HOME", "!!", "~", "a\\", "\\", "\\n", "\\'", "a\nb", "\r\n", "\t", "\0", "\u0001\u001b[31m\u007f\u009f",
  "[", "{", "[]", "{}", '{"a": 1}', "a=b", "a=b,c=d", "a,b", "@file", "=ls", "007", "1e3", "null", "true", "é\u0301", "日本", "👩‍👩‍👧", "\u202egnp", "\u2028",
  "\ufeff", "\ud800", "a".repeat(300), "END", "\nEND\n", "{n}", "$n", "#", "*", "a;b&c|d>e",
];

test("every value arrives in the JSON as it was typed", () => {
  for (const body of NASTY) {
    const [words] = runs(command("sqs", "SendMessage", { QueueUrl: "http://q", MessageBody: body }));
    assert.deepEqual(inputOf(words), { QueueUrl: "http://q", MessageBody: body });
    assert.deepEqual(words.slice(5), ["--endpoint-url", DATA.endpoint, "--region", "us-east-1"]);
  }
  const all = Object.fromEntries(NASTY.map((text, index) => [`${text}${index}`, text]));
  const [words] = runs(command("sqs", "SendMessage", { Tags: all }));
  assert.deepEqual(inputOf(words), { Tags: all });
});

test("no character of a command is invisible", () => {
  for (const body of NASTY) {
    assert.doesNotMatch(command("sqs", "SendMessage", { MessageBody: body }).replaceAll("\n", ""), /[\p{C}\u2028\u00a0]/u);
  }
});

test("a body that is too long for an argument comes from a file", () => {
  const body = NASTY.join("\n").repeat(200);
  const line = command("sqs", "SendMessage", { MessageBody: body });
  const [words] = runs(line);
  assert.deepEqual(inputOf(words), { MessageBody: body });
  assert.match(words[4], /^[\n -~]+$/);
  assert.ok(Math.max(...line.split(/\n|<</).filter((part) => part.startsWith("aws")).map((part) => part.length)) < 1000);
});

test("what is absent from a form's request is absent from the command", () => {
  const [words] = runs(command("sqs", "SendMessage", { MessageBody: "a", DelaySeconds: undefined, A: null, B: NaN, C: { D: null, E: 0 } }));
  assert.deepEqual(inputOf(words), { MessageBody: "a", C: { E: 0 } });
});

test("several messages are sent one by one, each with its number", () => {
  for (const size of [1, 2000]) {
    const text = NASTY.join("\n").repeat(size);
    const mark = unusedWord(text);
    const line = command("sqs", "SendMessage", { MessageBody: `${text}${mark}-${mark}`, Other: text }, "us-east-1", { repeat: { count: 3, mark } });
    const bodies = runs(line).map((words) => inputOf(words));
    assert.deepEqual(bodies, [1, 2, 3].map((n) => ({ MessageBody: `${text}${n}-${n}`, Other: text })));
  }
});

test("a word that stands for the number is not in the text", () => {
  const text = "n1n2n3";
  assert.ok(!text.includes(unusedWord(text)));
});

test("another account is named where the server asks nobody who it is", () => {
  const input = { MessageBody: "a" };
  assert.equal(runs(command("sqs", "SendMessage", input, "eu-west-1", { account: "111122223333" }))[0][0], "111122223333");
  assert.equal(runs(command("sqs", "SendMessage", input, "eu-west-1", { account: DATA.account }))[0][0], process.env.AWS_ACCESS_KEY_ID ?? "");
});

test("a binary value that no decoder reads alike has no command", () => {
  for (const BinaryValue of ["a", "a===", "YQ", "YQ==YQ==", "Y Q=", "é", "-_=="]) {
    assert.equal(command("sqs", "SendMessage", { MessageAttributes: { a: { DataType: "Binary", BinaryValue } } }), null, BinaryValue);
  }
});

test("a quoted word is one word of a shell", () => {
  for (const text of NASTY.filter((text) => !/[\0\ud800]/.test(text))) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${quote(text)}`], { encoding: "utf8" }), text);
  }
});
