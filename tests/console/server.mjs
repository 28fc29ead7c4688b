// The real binary with its console, and a real browser. The server keeps ports and data when it is
// restarted.

import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const BINARY =
  process.env.SERVER_BINARY ??
  join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "fast", "millrace");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** A name that browsers of launchBrowser() find on this machine. */
export const CONSOLE_HOST = "console.example";

// Below the range that systems draw from by themselves: a server that is restarted leaves its port for
// a moment, in which nobody's connection may be given it.
const given = new Set();
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (given.has(port)) continue;
    given.add(port);
    const isFree = await new Promise((resolve) => {
      const probe = createServer().on("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** Servers that run. One that outlives its test would keep this process from ending. */
const running = new Set();

export function endServersLeft() {
  running.forEach((child) => child.kill("SIGKILL"));
}

process.on("exit", endServersLeft);

/** A server: `endpoint` of SQS, `console` of the pages. */
export class Server {
  #directory = mkdtempSync(join(tmpdir(), "millrace-console-"));
  #log = join(this.#directory, "server.log");
  #child;
  #ended;

  static async start(environment = {}) {
    const server = new Server();
    server.environment = environment;
    const [port, consolePort] = [await freePort(), await freePort()];
    server.endpoint = `http://127.0.0.1:${port}`;
    server.console = `http://127.0.0.1:${consolePort}`;
    server.flags = ["--listen", `127.0.0.1:${port}`, "--console-listen", `127.0.0.1:${consolePort}`];
    await server.spawn();
    return server;
  }

  async spawn() {
    const output = openSync(this.#log, "a");
    const data = ["--data", join(this.#directory, "data"), "--durability", "os"];
    this.#child = spawn(BINARY, ["serve", ...this.flags, ...data], {
      stdio: ["ignore", output, output],
      env: { PATH: process.env.PATH, ...this.environment },
    });
    closeSync(output);
    const child = this.#child;
    running.add(child);
    this.#ended = new Promise((resolve) => child.on("exit", resolve));
    child.on("exit", () => running.delete(child));
    child.on("error", () => running.delete(child));
    const deadline = Date.now() + 20_000;
    while (!(await isHealthy(this.endpoint)) || !(await isHealthy(this.console))) {
      if (child.exitCode !== null || child.pid === undefined || Date.now() > deadline) {
        child.kill("SIGKILL");
        throw new Error(`the server does not serve:\n${readFileSync(this.#log, "utf8")}`);
      }
      await sleep(5); // Nothing announces an open port but a connection to it.
    }
  }

  async end() {
    this.#child.kill("SIGTERM");
    await this.#ended;
  }

  /** Ends it for good and checks that it never panicked. */
  async close() {
    await this.end();
    const text = readFileSync(this.#log, "utf8");
    rmSync(this.#directory, { recursive: true });
    if (text.includes("panic")) throw new Error(`the server panicked:\n${text}`);
  }
}

/** A way to the console whose streams of events can be ended. `streams` are those that were asked for. */
export class Relay {
  streams = [];
  #sockets = new Set();
  #listener;

  static async start(console) {
    const relay = new Relay();
    const { port } = new URL(console);
    relay.#listener = createServer((client) => relay.#pass(client, connect(port, "127.0.0.1"))).unref();
    await new Promise((resolve) => relay.#listener.listen(0, "127.0.0.1", resolve));
    relay.console = `http://127.0.0.1:${relay.#listener.address().port}`;
    return relay;
  }

  #pass(client, server) {
    const end = () => [client, server].forEach((socket) => socket.destroy());
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", end).on("close", end);
    }
    client.on("data", (data) => {
      const head = data.toString("latin1");
      if (head.startsWith("GET /events")) {
        this.streams.push({ end, lastEventId: /^last-event-id: (.*)\r$/im.exec(head)?.[1] });
      }
    });
    client.pipe(server).pipe(client);
  }

  close() {
    this.#listener.close();
    this.#sockets.forEach((socket) => socket.destroy());
  }
}

async function isHealthy(endpoint) {
  try {
    return (await fetch(`${endpoint}/health`)).status === 200;
  } catch {
    return false;
  }
}

export function launchBrowser() {
  // A page of this name is like one from another machine: browsers trust 127.0.0.1 more.
  const names = `--host-resolver-rules=MAP ${CONSOLE_HOST} 127.0.0.1`;
  const quiet = ["--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"];
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", names, ...quiet] });
}

/**
 * A page that collects what goes wrong in it: `problems`. Refused connections while the server is
 * restarted are no problem of the page's.
 */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !message.text().includes("ERR_CONNECTION_REFUSED") && !message.text().includes("ERR_INCOMPLETE_CHUNKED_ENCODING")) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  return { page, problems };
}
