// Starts the real binary on a free port with a data directory of its own.

import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const BINARY =
  process.env.SERVER_BINARY ??
  join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "fast", "millrace");

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Resolves to `{ endpoint, stop() }` once `/health` answers 200. */
export async function startServer() {
  const directory = mkdtempSync(join(tmpdir(), "millrace-js-"));
  const log = join(directory, "server.log");
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const output = openSync(log, "w");
  const flags = ["--listen", `127.0.0.1:${port}`, "--data", join(directory, "data"), "--console-listen", "off"];
  const child = spawn(BINARY, ["serve", ...flags, "--durability", "os"], {
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  const ended = new Promise((resolve) => child.on("exit", resolve));
  child.on("error", () => {});
  process.on("exit", () => child.kill("SIGKILL"));

  const deadline = Date.now() + 20_000;
  while (!(await isHealthy(endpoint))) {
    if (child.exitCode !== null || child.pid === undefined || Date.now() > deadline) {
      child.kill("SIGKILL");
      throw new Error(`the server does not serve:\n${readFileSync(log, "utf8")}`);
    }
    await sleep(5); // Nothing announces an open port but a connection to it.
  }

  async function stop() {
    child.kill("SIGTERM");
    await ended;
    const text = readFileSync(log, "utf8");
    rmSync(directory, { recursive: true });
    if (text.includes("panic")) throw new Error(`the server panicked:\n${text}`);
  }
  return { endpoint, stop };
}

async function isHealthy(endpoint) {
  try {
    return (await fetch(`${endpoint}/health`)).status === 200;
  } catch {
    return false;
  }
}
