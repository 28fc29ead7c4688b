// Starts the real binary on a free port with a data directory of its own.

import { execFileSync, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const BINARY =
  process.env.SERVER_BINARY ??
  join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "fast", "millrace");

/**
 * Resolves to `{ endpoint, port, stop(), certificate }` once the server says that it serves. With `tlsFor`, names and
 * addresses, it speaks TLS with a certificate for these, which is its own authority.
 */
export async function startServer({ more = [], tlsFor } = {}) {
  const directory = mkdtempSync(join(tmpdir(), "millrace-js-"));
  const log = join(directory, "server.log");
  const output = openSync(log, "w");
  const flags = ["--listen", "127.0.0.1:0", "--data", join(directory, "data"), "--console-listen", "off", ...more];
  const certificate = tlsFor && makeCertificate(directory, tlsFor);
  if (certificate) flags.push("--tls-cert", join(directory, "tls.pem"), "--tls-key", join(directory, "tls.key"));
  const child = spawn(BINARY, ["serve", ...flags, "--durability", "os", "--strict", "--log-format", "json"], {
    stdio: ["ignore", output, output],
    env: { PATH: process.env.PATH }, // No settings but these.
  });
  closeSync(output);
  const ended = new Promise((resolve) => child.on("exit", resolve));
  child.on("error", () => {});
  process.on("exit", () => child.kill("SIGKILL"));

  const deadline = Date.now() + 20_000;
  let serving;
  while (!(serving = servingLine(readFileSync(log, "utf8")))) {
    if (child.exitCode !== null || child.pid === undefined || Date.now() > deadline) {
      child.kill("SIGKILL");
      throw new Error(`the server does not serve:\n${readFileSync(log, "utf8")}`);
    }
    await sleep(5);
  }

  async function stop() {
    child.kill("SIGTERM");
    await ended;
    const text = readFileSync(log, "utf8");
    rmSync(directory, { recursive: true });
    if (text.includes("panic")) throw new Error(`the server panicked:\n${text}`);
  }
  const port = serving.address.split(":").at(-1);
  return { endpoint: serving.endpoint, port, stop, certificate };
}

/** The text of a new certificate in `tls.pem`, whose key is in `tls.key`. */
function makeCertificate(directory, names) {
  const [file, key] = [join(directory, "tls.pem"), join(directory, "tls.key")];
  const alternatives = names.map((name) => (/^[\d.]+$/.test(name) ? `IP:${name}` : `DNS:${name}`));
  const what = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const whose = ["-subj", "/CN=millrace", "-addext", `subjectAltName=${alternatives.join(",")}`];
  execFileSync("openssl", ["req", ...what, ...whose, "-keyout", key, "-out", file], { stdio: "ignore" });
  return readFileSync(file, "utf8");
}

/** The log's line that says where the server serves. */
function servingLine(log) {
  const lines = log.split("\n").slice(0, -1); // The last may be half written.
  const line = lines.find((line) => line.includes('"serving"'));
  return line && JSON.parse(line);
}
