// Servers for tests: a free port, a clock to advance, and nothing left on disk.

import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isMainThread } from "node:worker_threads";

const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 30_000;

export const program = fileURLToPath(new URL("bin/millrace", import.meta.url));

export async function startMillrace({ arguments: flags = [] } = {}) {
  const directory = mkdtempSync(join(tmpdir(), "millrace-"));
  const log = join(directory, "server.log");
  const output = openSync(log, "w");
  const child = spawn(program, ["serve", ...flags], {
    cwd: directory,
    env: settings(directory),
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  let failure;
  const ended = new Promise((resolve) => {
    child.once("error", (error) => resolve((failure = error.message)));
    child.once("exit", (code, signal) => resolve((failure = `it ended with ${code ?? signal}`)));
  });
  // A program under test may end without stopping its server.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);

  async function stop() {
    child.kill("SIGTERM");
    const patience = setTimeout(kill, STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(patience);
    process.removeListener("exit", kill);
    rmSync(directory, { recursive: true, force: true });
  }

  let endpoint;
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(endpoint = servedAt(readFileSync(log, "utf8")))) {
    if (failure || Date.now() > deadline) {
      const reason = failure ?? `no answer after ${START_TIMEOUT_MS / 1000} s`;
      const text = readFileSync(log, "utf8");
      await stop();
      throw new Error(`millrace does not serve: ${reason}\n${text}`);
    }
    await sleep(5);
  }

  return {
    endpoint,
    environment: Object.freeze({
      AWS_ENDPOINT_URL: endpoint,
      AWS_ACCESS_KEY_ID: "test",
      AWS_SECRET_ACCESS_KEY: "test",
      AWS_DEFAULT_REGION: "us-east-1",
      AWS_REGION: "us-east-1",
    }),
    advance: (seconds) => post(endpoint, "/_millrace/clock/advance", { seconds }),
    reset: () => post(endpoint, "/_localstack/state/reset", {}),
    stop,
  };
}

/** The environment of a server: none of the user's own settings of Millrace. */
function settings(directory) {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("MILLRACE_"));
  return {
    ...Object.fromEntries(kept),
    // The server ends even if this process is killed. The kernel watches the thread that started it,
    // so this is left out where that may end before the process does.
    ...(isMainThread && { _MILLRACE_PARENT: String(process.pid) }),
    MILLRACE_TEST: "true",
    MILLRACE_DURABILITY: "memory",
    MILLRACE_LISTEN: "127.0.0.1:0",
    MILLRACE_CONSOLE_LISTEN: "off",
    MILLRACE_DATA: join(directory, "data"),
    MILLRACE_LOG_FORMAT: "json",
  };
}

/** The endpoint in the log's line that says so. */
function servedAt(log) {
  const lines = log.split("\n").slice(0, -1); // The last may be half written.
  const line = lines.find((line) => line.includes('"serving"'));
  return line && JSON.parse(line).endpoint;
}

async function post(endpoint, path, body) {
  const answer = await fetch(endpoint + path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`POST ${path} was answered with ${answer.status}: ${text}`);
}
