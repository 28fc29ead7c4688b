// Messages that a page shows: true by the second, and deleted, moved or downloaded from there.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { DeleteMessageCommand, ReceiveMessageCommand, SendMessageBatchCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { attribute, createQueue, onPage, pathOf, sqs } from "./fixture.mjs";
import { hasText, until } from "./waiting.mjs";

async function fill(QueueUrl, bodies) {
  for (let at = 0; at < bodies.length; at += 10) {
    const Entries = bodies.slice(at, at + 10).map((MessageBody, index) => ({ Id: `${index}`, MessageBody }));
    await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  }
}

const items = (page) => page.locator("li.message");

test("browsed messages keep their states and ages true", onPage(async (page) => {
  const QueueUrl = await createQueue("true-browse");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  await page.goto(pathOf("true-browse", "browse"));
  const badge = items(page).locator(".badge");
  await hasText(badge, "Available");
  await items(page).locator("summary").click();
  const when = items(page).locator(".when");
  const before = await when.innerText();
  await until(async () => (await when.innerText()) !== before);

  const { Messages: [{ ReceiptHandle }] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, VisibilityTimeout: 3 }));
  await hasText(badge, "In flight");
  await hasText(items(page).locator("dd", { hasText: "left, until" }), /^[0-3]s left/);
  await hasText(badge, "Available");
  await hasText(items(page).locator("dt", { hasText: "Receive count" }).locator("xpath=following-sibling::dd[1]"), "1");
  await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  await hasText(badge, "Gone");
  assert.equal(await items(page).getByRole("checkbox").isDisabled(), true);
}));

test("polled messages say when they are visible again", onPage(async (page) => {
  const QueueUrl = await createQueue("true-poll");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  await page.goto(pathOf("true-poll", "poll"));
  await page.getByLabel("Visibility timeout").fill("2");
  await page.getByRole("button", { name: "Poll for messages" }).click();
  await hasText(items(page).locator(".badge"), "In flight");
  await hasText(items(page).locator(".badge"), "Available");
}));

test("several messages are selected and deleted, as the command does", onPage(async (page) => {
  const QueueUrl = await createQueue("several");
  await fill(QueueUrl, Array.from({ length: 25 }, (_, number) => `message ${number}`));
  await page.goto(pathOf("several", "browse"));
  await items(page).nth(24).waitFor();
  await page.getByLabel("Select all", { exact: true }).check();
  await items(page).first().getByRole("checkbox").uncheck();
  await page.getByText("24 of 25 selected").waitFor();
  await page.getByRole("button", { name: "Delete 24" }).click();
  const dialog = page.getByRole("dialog");
  const command = await dialog.locator("code").textContent();
  assert.equal(command.match(/aws sqs delete-message-batch/g).length, 3);
  const handles = [...command.matchAll(/"ReceiptHandle": "([^"]+)"/g)].map(([, handle]) => handle);
  assert.equal(new Set(handles).size, 24);
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.waitFor({ state: "detached" });
  await until(async () => (await items(page).count()) === 1);
  await hasText(items(page).locator(".preview"), "message 0");
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "1");

  await items(page).locator("summary").click();
  await items(page).getByRole("button", { name: "Delete…" }).click();
  assert.match(await dialog.locator("code").textContent(), /aws sqs delete-message\s/);
  await dialog.getByRole("button", { name: "Delete" }).click();
  await items(page).waitFor({ state: "detached" });
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "0");
}));

test("of a FIFO queue only what is in flight is deleted, and the page says so", onPage(async (page) => {
  const QueueUrl = await createQueue("ordered.fifo", { FifoQueue: "true", ContentBasedDeduplication: "true" });
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x", MessageGroupId: "g" }));
  await page.goto(pathOf("ordered.fifo", "browse"));
  await items(page).locator("summary").click();
  await items(page).getByRole("button", { name: "Delete…" }).click();
  await page.getByText("only what is in flight can be deleted").waitFor();
  await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
  await hasText(items(page).locator(".badge"), "In flight");
  await items(page).getByRole("button", { name: "Delete…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("1 message is in flight").waitFor();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await items(page).waitFor({ state: "detached" });
}));

test("a message is moved whole, and downloaded", onPage(async (page) => {
  const QueueUrl = await createQueue("origin");
  const target = await createQueue("target.fifo", { FifoQueue: "true" });
  const MessageAttributes = { picture: { DataType: "Binary.png", BinaryValue: Uint8Array.of(1, 2, 255) }, size: { DataType: "Number.int", StringValue: "7" } };
  const body = `${"x".repeat(9000)} it's`;
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: body, MessageAttributes }));
  await page.goto(pathOf("origin", "browse"));
  await items(page).locator("summary").click();
  const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  const document = JSON.parse(readFileSync(await saved.path(), "utf8"));
  assert.equal(document.Body, body);
  assert.deepEqual(document.MessageAttributes.picture, { DataType: "Binary.png", BinaryValue: "AQL/" });
  assert.equal(saved.suggestedFilename(), `message-${document.MessageId}.json`);

  await page.getByRole("button", { name: "Move…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Move" }).click();
  await dialog.getByText("Choose the queue to move it to.").waitFor();
  await dialog.getByLabel("Move to").selectOption("target.fifo");
  await dialog.getByRole("button", { name: "Move" }).click();
  await dialog.getByText("A FIFO queue needs a message group.").waitFor();
  await dialog.getByLabel("Message group").fill("g");
  assert.match(await dialog.locator("code").textContent(), /aws sqs send-message [^]* &&\naws sqs delete-message /);
  await dialog.getByRole("button", { name: "Move" }).click();
  await items(page).waitFor({ state: "detached" });
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "0");
  const { Messages: [moved] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: target, MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] }));
  assert.equal(moved.Body, body);
  assert.deepEqual(JSON.parse(JSON.stringify(moved.MessageAttributes)), JSON.parse(JSON.stringify(MessageAttributes)));
  assert.deepEqual([moved.Attributes.MessageGroupId, moved.Attributes.MessageDeduplicationId], ["g", document.MessageId]);
}));

test("a search goes on by itself until it is stopped", onPage(async (page) => {
  const QueueUrl = await createQueue("haystack");
  // More than one request looks through.
  await fill(QueueUrl, [...Array.from({ length: 4100 }, (_, number) => `straw ${number}`), "the needle"]);
  await page.goto(pathOf("haystack", "browse"));
  await items(page).first().waitFor();
  await page.getByLabel("Search messages").fill("needle");
  await hasText(items(page).locator(".preview").first(), "the needle");
  await page.getByText("1 found in 4,101 messages").waitFor();
  assert.equal(await page.getByRole("button", { name: "Search on" }).isVisible(), false);

  let asked = 0;
  await page.route("**/api/browse?**", (route) => (++asked > 1 ? undefined : route.continue()));
  await page.getByLabel("Search messages").fill("nowhere");
  await until(() => asked === 2);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Search on" }).waitFor();
  await hasText(page.locator(".toolbar [role=status]"), /^0 found in [\d,]+ messages so far$/);
  await page.unroute("**/api/browse?**");
  await page.getByRole("button", { name: "Search on" }).click();
  await page.getByText("No message contains “nowhere”.").waitFor();
}));
