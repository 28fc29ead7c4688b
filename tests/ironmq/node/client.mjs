// The clients' callbacks as promises. Version 3 calls some of them twice, the second time with what the first call
// returned: only the first counts.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { hostname, port } = new URL(process.env.IRON_ENDPOINT);

/** A client of the package `name`, for the project that the environment names. */
export function connect(name) {
  const { Client } = require(name);
  return new Client({ scheme: "http", host: hostname, port, project_id: process.env.IRON_PROJECT, token: "token" });
}

/** What the client's `method` gives its callback. */
export function ask(client, method, ...parameters) {
  return new Promise((resolve, reject) => {
    client[method](...parameters, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}
