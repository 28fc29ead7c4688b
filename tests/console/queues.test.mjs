// Queues in the console: their table, what is done to them, and figures that go on by themselves.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DeleteQueueCommand, DeleteMessageCommand, ReceiveMessageCommand, SendMessageBatchCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { ACCOUNT, arn, attribute, browser, createQueue, onPage, pathOf, row, server, sqs } from "./fixture.mjs";
import { Relay, openPage } from "./server.mjs";
import { hasText, until } from "./waiting.mjs";

test("a queue made in the console shows what the SDK sends, without a reload", onPage(async (page) => {
  await page.goto(`${server.console}/queues`);
  await page.getByRole("button", { name: "Create queue" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("parcels");
  await dialog.getByLabel("Visibility timeout").fill("45");
  await dialog.getByText("AWS CLI").click();
  assert.match(await dialog.locator("code").innerText(), /aws sqs create-queue[^]*"QueueName": "parcels"[^]*"VisibilityTimeout": "45"/);
  await dialog.getByRole("button", { name: "Create queue" }).click();
  await hasText(row(page, "parcels").locator("td.number").first(), "0");

  const QueueUrl = `${server.endpoint}/${ACCOUNT}/parcels`;
  assert.equal(await attribute(QueueUrl, "VisibilityTimeout"), "45");
  await page.evaluate(() => (window.isSamePage = true));
  for (let number = 0; number < 3; number++) {
    await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: `parcel ${number}` }));
  }
  await hasText(row(page, "parcels").locator("td.number").first(), "3");
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
  await hasText(row(page, "parcels").locator("td.number").nth(1), "1");
  await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: Messages[0].ReceiptHandle }));
  await hasText(row(page, "parcels").locator("td.number").nth(1), "0");

  assert.equal(await page.evaluate(() => window.isSamePage), true);
}));

test("filter, sort and page are in the address", onPage(async (page) => {
  await Promise.all(Array.from({ length: 130 }, (_, number) => createQueue(`many-${String(number).padStart(3, "0")}`)));
  await page.goto(`${server.console}/queues?sort=name`);
  await page.keyboard.press("/");
  await page.keyboard.type("many-");
  await page.waitForURL(/filter=many-/);
  await hasText(page.locator(".toolbar [role=status]"), /^130 of/);
  assert.equal(await page.locator("tbody tr").count(), 100);
  await page.getByRole("link", { name: "Next" }).click();
  await page.waitForURL(/page=2/);
  await hasText(page.locator("tbody tr").first().locator("th"), "many-100");
  await page.getByRole("columnheader", { name: "Name" }).getByRole("link").click();
  await page.waitForURL(/order=descending/);
  await hasText(page.locator("tbody tr").first().locator("th"), "many-129");
  assert.equal(await page.getByRole("columnheader", { name: "Name" }).getAttribute("aria-sort"), "descending");

  await page.reload();
  await hasText(page.locator("tbody tr").first().locator("th"), "many-129");
  await page.goBack();
  await hasText(page.locator("tbody tr").first().locator("th"), "many-100");
}));

test("pausing stops the figures, and the keyboard reaches everything", onPage(async (page) => {
  const QueueUrl = await createQueue("still");
  await page.goto(`${server.console}/queues?filter=still`);
  await hasText(page.locator("#live"), "Live");
  await row(page, "still").waitFor(); // A sample of the second before knows no such queue.
  await page.keyboard.press("p");
  await hasText(page.locator("#live"), "Paused");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  await hasText(row(page, "still").locator("td.number").first(), "0");
  await page.keyboard.press("p");
  await hasText(row(page, "still").locator("td.number").first(), "1");

  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("o");
  await page.waitForURL(`${server.console}/`);
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await page.waitForURL(`${server.console}/queues`);
}));

test("figures go on after a restart of the server, and a form still works", onPage(async (page) => {
  const QueueUrl = await createQueue("lasting");
  await page.goto(`${server.console}/queues?filter=lasting`);
  await hasText(page.locator("#live"), "Live");
  await page.evaluate(() => (window.isSamePage = true));
  await server.end();
  await hasText(page.locator("#live"), /Reconnecting|Stale/);
  await server.spawn();
  await hasText(page.locator("#live"), "Live");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "after" }));
  await hasText(row(page, "lasting").locator("td.number").first(), "1");

  // The page's token is of the server before; it is renewed.
  await row(page, "lasting").getByRole("checkbox").check();
  await page.getByRole("button", { name: "Purge" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill("lasting");
  await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
  await hasText(row(page, "lasting").locator("td.number").first(), "0");
  assert.equal(await page.evaluate(() => window.isSamePage), true);
}, { expected: /403 \(Forbidden\)/ }));

test("a stream that breaks goes on where it was, without being sent everything again", async () => {
  const QueueUrl = await createQueue("resumed");
  const relay = await Relay.start(server.console);
  const { page, problems } = await openPage(browser);
  const events = [];
  await page.exposeFunction("received", (type, id) => events.push({ type, id }));
  await page.addInitScript(() => {
    window.EventSource = class extends EventSource {
      constructor(address) {
        super(address);
        for (const type of ["snapshot", "delta"]) {
          this.addEventListener(type, ({ lastEventId }) => window.received(type, lastEventId));
        }
      }
    };
  });
  await page.goto(`${relay.console}/queues?filter=resumed`);
  await hasText(page.locator("#live"), "Live");

  const broken = relay.streams.at(-1);
  broken.end();
  // The browser waits a second. Nobody else looks, so that no sample is forgotten meanwhile.
  await until(() => relay.streams.at(-1) !== broken);
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "while the stream is broken" }));
  await hasText(row(page, "resumed").locator("td.number").first(), "1");

  const { lastEventId } = relay.streams.at(-1);
  assert.ok(events.some(({ id }) => id === lastEventId), `${lastEventId} is no event's`);
  assert.deepEqual(new Set(events.map(({ type }) => type)), new Set(["delta"]), "the page came with the snapshot");
  assert.deepEqual(problems, []);
  await page.context().close();
  relay.close();
});

test("a queue that is deleted and created again is shown again", onPage(async (page) => {
  const QueueUrl = await createQueue("phoenix");
  await page.goto(pathOf("phoenix"));
  await hasText(page.locator("#live"), "Live");
  await sqs.send(new DeleteQueueCommand({ QueueUrl }));
  await page.getByRole("heading", { name: "There is no such queue" }).waitFor();
  await createQueue("phoenix");
  await page.locator("#facts").getByRole("button", { name: "Purge" }).waitFor();
  await hasText(page.locator("#live"), "Live");
}));

test("deleting a dead-letter queue warns of the queues that use it", onPage(async (page) => {
  await createQueue("morgue");
  await createQueue("ward", { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn("morgue"), maxReceiveCount: 2 }) });
  for (const [name, isUsed] of [["morgue", true], ["ward", false]]) {
    const asked = page.waitForResponse((response) => response.url().includes("/ListDeadLetterSourceQueues"));
    await page.goto(`${server.console}/queues?filter=${name}`);
    await row(page, name).getByRole("checkbox").check();
    await page.getByRole("button", { name: "Delete" }).click();
    await asked;
    const notice = page.getByRole("dialog").getByText("Other queues send their dead letters to");
    if (isUsed) await notice.waitFor();
    assert.equal(await notice.isVisible(), isUsed);
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  }
}));

test("purging and deleting need the queue's name", onPage(async (page) => {
  const QueueUrl = await createQueue("ballast");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  await page.goto(`${server.console}/queues?filter=ballast`);
  await row(page, "ballast").getByRole("checkbox").check();
  await page.getByRole("button", { name: "Purge" }).click();
  const dialog = page.getByRole("dialog");
  const purge = dialog.getByRole("button", { name: "Purge" });
  assert.equal(await purge.isDisabled(), true);
  await dialog.getByRole("textbox").fill("ballas");
  assert.equal(await purge.isDisabled(), true);
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "1");
  await dialog.getByRole("textbox").fill("ballast");
  await purge.click();
  await hasText(row(page, "ballast").locator("td.number").first(), "0");
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "0");

  await page.goto(pathOf("ballast"));
  await page.locator("#facts").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill("ballast");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(`${server.console}/queues`);
  await assert.rejects(attribute(QueueUrl, "QueueArn"), { name: "QueueDoesNotExist" });
}));

test("configuration and tags are saved through the API", onPage(async (page) => {
  const QueueUrl = await createQueue("settings");
  await page.goto(pathOf("settings", "configuration"));
  await page.getByLabel("Visibility timeout").fill("77");
  await page.getByRole("button", { name: "Save" }).click();
  await hasText(page.locator("tbody tr", { hasText: "VisibilityTimeout" }).locator("td"), "77");
  assert.equal(await attribute(QueueUrl, "VisibilityTimeout"), "77");
  await hasText(page.locator("tbody tr", { hasText: "SqsManagedSseEnabled" }).locator("td"), /true\s*Kept only: bodies are not encrypted yet/);
  await page.getByLabel("Dead-letter queue").selectOption("Another queue…");
  await page.getByLabel("Name or ARN").fill("nowhere-at-all");
  await page.getByRole("button", { name: "Save" }).click();
  await hasText(page.getByRole("alert"), /Dead letter target does not exist/);

  await page.goto(pathOf("settings", "tags"));
  await page.getByLabel("Key", { exact: true }).fill("team");
  await page.getByLabel("Value", { exact: true }).fill("post");
  await page.getByRole("button", { name: "Set tag" }).click();
  await hasText(page.locator("tbody tr").first(), /team\s+post/);
}, { expected: /400 \(Bad Request\)/ }));

test("dead letters go back where they came from, with progress", onPage(async (page) => {
  const deadUrl = await createQueue("jobs-dead");
  const policy = JSON.stringify({ deadLetterTargetArn: arn("jobs-dead"), maxReceiveCount: 1 });
  const QueueUrl = await createQueue("jobs", { RedrivePolicy: policy });
  const Entries = Array.from({ length: 5 }, (_, number) => ({ Id: `${number}`, MessageBody: `job ${number}` }));
  await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  await page.goto(`${server.console}/queues?filter=jobs&sort=name`);
  await hasText(row(page, "jobs").locator("td").nth(8), "→ jobs-dead");
  for (let turn = 0; turn < 2; turn++) {
    await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 0 }));
  }
  await hasText(row(page, "jobs-dead").locator("td.number").first(), "5");

  await row(page, "jobs-dead").getByRole("link", { name: "of 1 queue" }).click();
  await page.getByRole("button", { name: "Redrive…" }).click();
  await page.getByRole("dialog").getByLabel("Messages a second").fill("500");
  await page.getByRole("dialog").getByRole("button", { name: "Start" }).click();
  await hasText(page.locator("main tbody .badge").first(), "Completed");
  await hasText(page.locator("main").getByText("moved").first(), "5 of 5 moved");
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "5");
  assert.equal(await attribute(deadUrl, "ApproximateNumberOfMessages"), "0");
}));

test("the tab of dead letters keeps its links and buttons while figures change", onPage(async (page) => {
  const deadUrl = await createQueue("steady-dead");
  const policy = JSON.stringify({ deadLetterTargetArn: arn("steady-dead"), maxReceiveCount: 1 });
  const QueueUrl = await createQueue("steady", { RedrivePolicy: policy });
  const Entries = Array.from({ length: 10 }, (_, number) => ({ Id: `${number}`, MessageBody: "x" }));
  for (let turn = 0; turn < 2; turn++) await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  for (let turn = 0; turn < 4; turn++) {
    await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 0 }));
  }
  assert.equal(await attribute(deadUrl, "ApproximateNumberOfMessages"), "20");
  await page.goto(pathOf("steady-dead", "dead-letters"));
  const source = page.getByRole("link", { name: "steady", exact: true });
  await source.focus();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "y" }));
  await hasText(page.locator("tr", { has: source }).locator("td").first(), "1");
  await source.and(page.locator(":focus")).waitFor();

  await page.getByRole("button", { name: "Redrive…" }).click();
  await page.getByRole("dialog").getByLabel("Messages a second").fill("1");
  await page.getByRole("dialog").getByRole("button", { name: "Start" }).click();
  const cancel = page.locator("main").getByRole("button", { name: "Cancel" });
  await cancel.hover();
  await page.mouse.down();
  const moved = page.locator("main").getByText("of 20 moved");
  const before = await moved.innerText();
  await until(async () => (await moved.innerText()) !== before);
  await page.mouse.up();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel redrive" }).click();
  await hasText(page.locator("main tbody .badge").first(), "Cancelled");
}));
