// What the tests of a file share: one server, one browser, and the SDK on the server's queues.

import { after, before } from "node:test";
import { CreateQueueCommand, SQSClient } from "@aws-sdk/client-sqs";
import { CONSOLE_HOST, Server, endServersLeft, launchBrowser } from "./server.mjs";

export const ACCOUNT = "000000000000";

export let server;
export let browser;
export let sqs;

before(async () => {
  [server, browser] = await Promise.all([Server.start({ MILLRACE_CONSOLE_HOSTS: CONSOLE_HOST }), launchBrowser()]);
  sqs = clientOf("us-east-1");
});

after(async () => {
  await browser?.close();
  try {
    await server?.close();
  } finally {
    endServersLeft();
  }
});

export function clientOf(region) {
  const credentials = { accessKeyId: "any", secretAccessKey: "any" };
  return new SQSClient({ endpoint: server.endpoint, region, credentials, maxAttempts: 1 });
}

export async function createQueue(name, Attributes = {}) {
  return (await sqs.send(new CreateQueueCommand({ QueueName: name, Attributes }))).QueueUrl;
}

export function arn(name) {
  return `arn:aws:sqs:us-east-1:${ACCOUNT}:${name}`;
}

/** The console's page of a queue. */
export function pathOf(name, tab = "") {
  return `${server.console}/queues/us-east-1/${ACCOUNT}/${name}${tab && `/${tab}`}`;
}
