// What the tests of a file share: one server, one browser, and the SDK on the server's queues.

import assert from "node:assert/strict";
import { after, before } from "node:test";
import { CreateQueueCommand, GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { CONSOLE_HOST, Server, endServersLeft, launchBrowser, openPage } from "./server.mjs";

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

/**
 * What a test does on a page of its own. Nothing may be said in the page's console but what `expected` fits;
 * other options are those of a browser context.
 */
export function onPage(body, { expected, ...options } = {}) {
  return async () => {
    const { page, problems } = await openPage(browser, options);
    try {
      await body(page);
      assert.deepEqual(problems.filter((text) => !expected?.test(text)), []);
    } finally {
      await page.context().close();
    }
  };
}

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

/** An attribute of a queue, as the SDK reads it. */
export async function attribute(QueueUrl, name) {
  const answer = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: [name] }));
  return answer.Attributes[name];
}

/** The answer of an action of CloudWatch. */
export async function cloudwatch(action, input, region = "us-east-1") {
  const response = await fetch(server.endpoint, {
    method: "POST",
    // Nobody checks the signature; it says which region is meant.
    headers: { Authorization: `AWS4-HMAC-SHA256 Credential=any/20260101/${region}/monitoring/aws4_request, SignedHeaders=host, Signature=0`, "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": `GraniteServiceVersion20100801.${action}` },
    body: JSON.stringify(input),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text && JSON.parse(text);
}

/** The answer of an action of SimpleDB, as XML. */
export function simpledb(action, input, region) {
  return form("sdb", { Action: action, Version: "2009-04-15", ...input }, region);
}

/** The answer of an action of SNS, as XML. */
export function sns(action, input, region) {
  return form("sns", { Action: action, Version: "2010-03-31", ...input }, region);
}

async function form(service, input, region = "us-east-1") {
  const response = await fetch(server.endpoint, {
    method: "POST",
    // Nobody checks the signature; it says which region is meant.
    headers: { Authorization: `AWS4-HMAC-SHA256 Credential=any/20260101/${region}/${service}/aws4_request, SignedHeaders=host, Signature=0` },
    body: new URLSearchParams(input),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text;
}

/** An alarm of a queue with waiting messages, but for what `changes` say. */
export async function putAlarm(name, queue, changes = {}, region = undefined) {
  await cloudwatch("PutMetricAlarm", {
    AlarmName: name, Namespace: "AWS/SQS", MetricName: "ApproximateNumberOfMessagesVisible",
    Dimensions: [{ Name: "QueueName", Value: queue }], Statistic: "Maximum", Period: 60,
    EvaluationPeriods: 1, Threshold: 0, ComparisonOperator: "GreaterThanThreshold", ...changes,
  }, region);
}

/** The row of a queue in the table of queues. */
export function row(page, name) {
  return page.locator("tbody tr", { has: page.locator("a.name", { hasText: new RegExp(`^${name}$`) }) });
}
