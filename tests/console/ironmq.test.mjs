// What the console shows of IronMQ: types, projects, subscribers and alerts; and of other queues nothing.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CreateQueueCommand, SQSClient } from "@aws-sdk/client-sqs";
import { ACCOUNT, browser, createQueue, onPage, pathOf, row, server } from "./fixture.mjs";
import { Server, openPage } from "./server.mjs";
import { hasText, until } from "./waiting.mjs";

const section = (page) => page.locator("section.panel", { has: page.getByRole("heading", { name: "IronMQ" }) });
const fact = (page, title) => section(page).locator(`dt:text-is("${title}") + dd`);
const cell = (line, title) => line.locator(`td[data-label="${title}"]`);

/** The answer of IronMQ about a project's queues. */
async function iron(method, path, body, { project = ACCOUNT, token = "any", of = server } = {}) {
  const response = await fetch(`${of.endpoint}/3/projects/${project}/queues/${path}`, {
    method,
    headers: { Authorization: `OAuth ${token}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  assert.ok(response.ok, text);
  return JSON.parse(text);
}

const pushQueue = (name, type, subscribers, push = {}) => iron("PUT", name, { queue: { type, push: { subscribers, ...push } } });

/** A server that answers with the status that `answer` has; resolves to its address. */
async function receiver(answer) {
  const listener = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.writeHead(answer.status).end());
  });
  await new Promise((resolve) => { listener.listen(0, "127.0.0.1", resolve); });
  const close = () => {
    listener.closeAllConnections();
    listener.close();
  };
  return { url: `http://127.0.0.1:${listener.address().port}`, close };
}

test("subscribers of a multicast queue are shown with what waits and what failed, and without secrets", onPage(async (page) => {
  const answer = { status: 503 };
  const endpoint = await receiver(answer);
  try {
    await pushQueue("cast", "multicast", [
      { name: "bad", url: `${endpoint.url}/in?oauth=hidden`, headers: { Authorization: "hidden" } },
      { name: "inner", url: "ironmq:///inside" },
    ], { retries: 5, retries_delay: 90, error_queue: "lost" });
    await page.goto(pathOf("cast"));
    await hasText(fact(page, "Type"), "multicast");
    await hasText(fact(page, "Project"), ACCOUNT);
    await hasText(fact(page, "Retries"), "5, after 1m 30s");
    await hasText(fact(page, "Error queue"), "lost");
    const bad = section(page).locator("tbody tr", { hasText: "bad" });
    const inner = section(page).locator("tbody tr", { hasText: "inner" });
    await hasText(cell(bad, "Latest delivery"), "no failure");

    await iron("POST", "cast/messages", { messages: [{ body: "one" }, { body: "two" }] });

    await hasText(cell(bad, "Waiting"), "2");
    await hasText(cell(bad, "Latest delivery"), /^Failed .*503/);
    await hasText(cell(inner, "Waiting"), "0");
    await inner.getByRole("link", { name: "inside" }).click();
    await page.waitForURL(pathOf("inside"));
    await page.goBack();
    assert.equal(await cell(bad, "URL").innerText(), `${endpoint.url}/in?oauth=***`);
    assert.doesNotMatch(await page.content(), /=hidden|"hidden"/);
    const snapshot = await page.evaluate(async (name) => (await fetch(`/api/snapshot?view=queue&region=us-east-1&account=000000000000&name=${name}`)).text(), "cast");
    assert.doesNotMatch(snapshot, /hidden/);
  } finally {
    endpoint.close();
  }
}));

test("the subscribers of a unicast queue share its messages, and change while it is shown", onPage(async (page) => {
  const endpoint = await receiver({ status: 500 });
  try {
    await pushQueue("uni", "unicast", [{ name: "first", url: `${endpoint.url}/a` }]);
    await page.goto(pathOf("uni"));
    await hasText(fact(page, "Latest delivery"), "no failure");
    const rows = section(page).locator("tbody tr");
    await hasText(cell(rows.first(), "Waiting"), "in the queue");
    await iron("POST", "uni/messages", { messages: [{ body: "one" }] });
    await hasText(fact(page, "Latest delivery"), /^Failed .*500/);

    await iron("POST", "uni/subscribers", { subscribers: [{ name: "second", url: `${endpoint.url}/b` }] });
    await hasText(rows.nth(1).locator("th"), "second");
    await iron("DELETE", "uni/subscribers", { subscribers: [{ name: "first" }] });
    await until(async () => (await rows.count()) === 1);
    await hasText(rows.first().locator("th"), "second");

    await createQueue("pulled-by-sqs");
    await page.goto(`${server.console}/queues?filter=u`);
    await hasText(row(page, "uni").locator(".badge"), "unicast");
    assert.equal(await row(page, "pulled-by-sqs").locator(".badge").filter({ visible: true }).count(), 0);
  } finally {
    endpoint.close();
  }
}));

test("alerts of a pull queue are shown", onPage(async (page) => {
  const alerts = [
    { type: "fixed", direction: "asc", trigger: 1000, queue: "many", snooze: 60 },
    { type: "progressive", direction: "desc", trigger: 10, queue: "few" },
  ];
  await iron("PUT", "watched", { queue: { alerts } });
  await page.goto(pathOf("watched"));
  await hasText(fact(page, "Type"), "pull");
  const many = section(page).locator("tbody tr", { hasText: "many" });
  await hasText(cell(many, "When the queue"), "grows to 1,000 messages");
  await hasText(cell(many, "Snooze"), "1m");
  const few = section(page).locator("tbody tr", { hasText: "few" });
  await hasText(cell(few, "When the queue"), "shrinks past each 10 messages");
  assert.equal(await fact(page, "Error queue").count(), 0);
}));

test("a queue without project shows nothing, and projects are shown to their account only", async () => {
  const directory = mkdtempSync(join(tmpdir(), "millrace-ironmq-"));
  const keys = [["AKIDOPS", ACCOUNT], ["AKIDOTHER", "111111111111"]].map(([key, account]) => `[[credentials]]\naccess_key = "${key}"\nsecret_key = "long-secret"\naccount = "${account}"\n`);
  const project = `[projects.shop]\naccount = "111111111111"\nregion = "us-east-1"\n[projects.shop.tokens]\nci = "token-of-the-shop-1234"\n`;
  writeFileSync(join(directory, "millrace.toml"), keys.join("") + project);
  const guarded = await Server.start({ MILLRACE_CONFIG: join(directory, "millrace.toml") });
  const { page, problems } = await openPage(browser);
  try {
    const as = (accessKeyId) => new SQSClient({ endpoint: guarded.endpoint, region: "us-east-1", credentials: { accessKeyId, secretAccessKey: "long-secret" }, maxAttempts: 1 });
    await as("AKIDOPS").send(new CreateQueueCommand({ QueueName: "plain" }));
    await as("AKIDOTHER").send(new CreateQueueCommand({ QueueName: "plain" }));
    const logIn = async (key) => {
      await page.goto(`${guarded.console}/queues`);
      await page.getByLabel("Access key").fill(key);
      await page.getByLabel("Secret key").fill("long-secret");
      await page.getByRole("button", { name: "Log in" }).click();
      await row(page, "plain").waitFor();
    };
    const snapshot = (account) => page.evaluate(async (query) => (await fetch(`/api/snapshot?${query}`)).json(), `view=queue&region=us-east-1&account=${account}&name=plain`);
    await logIn("AKIDOPS");
    await page.goto(`${guarded.console}/queues/us-east-1/${ACCOUNT}/plain`);
    await page.getByRole("heading", { name: "About this queue" }).waitFor();
    await hasText(page.locator("#live"), "Live");
    assert.equal(await section(page).isVisible(), false);
    assert.equal((await snapshot(ACCOUNT)).head.iron_mq, undefined);
    const { head, lists } = await snapshot("111111111111");
    assert.deepEqual([head.is_gone, head.iron_mq, lists], [true, undefined, {}]);

    await page.context().clearCookies();
    await logIn("AKIDOTHER");
    await page.goto(`${guarded.console}/queues/us-east-1/111111111111/plain`);
    await hasText(fact(page, "Project"), "shop");
    await hasText(fact(page, "Type"), "pull");
    assert.doesNotMatch(JSON.stringify(await snapshot("111111111111")), /token-of-the-shop/);
    // The page that was open when its session went.
    assert.deepEqual(problems.filter((text) => !/401/.test(text)), []);
  } finally {
    await page.context().close();
    await guarded.close();
    rmSync(directory, { recursive: true });
  }
});
