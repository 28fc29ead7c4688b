// Messages in the console: looking at them, polling, sending, and copies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ReceiveMessageCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { attribute, createQueue, onPage, pathOf, sqs } from "./fixture.mjs";
import { hasText } from "./waiting.mjs";

test("browsing leaves the receive count alone, polling raises it", onPage(async (page) => {
  const QueueUrl = await createQueue("letters");
  const hostile = `<img src=x onerror="window.wasRun = true"><script>window.wasRun = true</script>`;
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: hostile }));
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: '{"needle":1}', DelaySeconds: 600 }));
  const fact = (item, name) => item.locator("dt", { hasText: name }).locator("xpath=following-sibling::dd[1]");

  for (let look = 0; look < 2; look++) {
    await page.goto(pathOf("letters", "browse"));
    const first = page.locator(".message").first();
    await first.locator("summary").click();
    await hasText(fact(first, "Receive count"), "0");
    await hasText(first.locator("pre"), hostile);
  }
  await page.getByRole("button", { name: "Delayed" }).click();
  await hasText(page.locator(".toolbar [role=status]"), "1 shown");
  await page.getByRole("button", { name: "All", exact: true }).click();
  await page.getByLabel("Search messages").fill("NEEDLE");
  await hasText(page.locator(".toolbar [role=status]"), "1 found in 2 messages");
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "1");
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessagesNotVisible"), "0");

  await page.goto(pathOf("letters", "poll"));
  await page.getByRole("button", { name: "Poll for messages" }).click();
  const polled = page.locator(".message").first();
  await polled.locator("summary").click();
  await hasText(fact(polled, "Receive count"), "1");
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessagesNotVisible"), "1");
  await polled.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await polled.waitFor({ state: "detached" });
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessagesNotVisible"), "0");
  assert.equal(await page.evaluate(() => window.wasRun), undefined);
}));

test("JSON is indented as it was written, number for number", onPage(async (page) => {
  const QueueUrl = await createQueue("written");
  const MessageBody = '{"big":12345678901234567890123,"f":1.0,"f":-2E+5,"list":[[],{ },"a\\"],{\\u00e9"],"next": true}';
  const expected = `{
  "big": 12345678901234567890123,
  "f": 1.0,
  "f": -2E+5,
  "list": [
    [],
    {},
    "a\\"],{\\u00e9"
  ],
  "next": true
}`;
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  await page.goto(pathOf("written", "browse"));
  await page.locator("li.message summary").click();
  await hasText(page.getByLabel("Message body"), expected);
  await page.goto(pathOf("written", "poll"));
  await page.getByRole("button", { name: "Poll for messages" }).click();
  await page.locator("li.message summary").click();
  await hasText(page.getByLabel("Message body"), expected);

  for (const text of ['{"a":1', "[1] 2", "[01]", '"text"', "12345678901234567890123"]) {
    const shown = await page.evaluate(async (text) => (await import(document.querySelector("script[type=module]").src.replace("main.js", "json.js"))).pretty(text), text);
    assert.deepEqual(shown, { text, kind: "Text" });
  }
}));

test("a search marks what it found, whatever letters are before it", onPage(async (page) => {
  const QueueUrl = await createQueue("marks");
  for (const MessageBody of ["İİİİFindMe, then findme", "a.c (x) abc \\"]) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  for (const [search, marks] of [["findme", ["FindMe", "findme"]], ["a.c (X)", ["a.c (x)"]], ["\\", ["\\"]]]) {
    await page.goto(`${pathOf("marks", "browse")}?search=${encodeURIComponent(search)}`);
    await page.locator("li.message").waitFor();
    assert.deepEqual(await page.locator(".preview mark").allTextContents(), marks);
  }
}));

test("a message that cannot be read is asked for again", onPage(async (page) => {
  const QueueUrl = await createQueue("long");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x".repeat(10_000) }));
  await page.goto(pathOf("long", "browse"));
  await page.locator("li.message summary").click();
  await page.route("**/api/message?**", (route) => route.abort());
  await page.getByRole("button", { name: "Send a copy…" }).click();
  await page.getByText("The message cannot be read").waitFor();
  await page.getByRole("button", { name: /^Show all/ }).click();
  await page.getByRole("alert").waitFor();
  await page.unroute("**/api/message?**");
  await page.getByRole("button", { name: /^Show all/ }).click();
  await hasText(page.getByLabel("Message body"), "x".repeat(10_000));
}, { expected: /ERR_FAILED/ }));

test("a message sent in the console arrives as it was typed", onPage(async (page) => {
  const QueueUrl = await createQueue("typed.fifo", { FifoQueue: "true" });
  await page.goto(pathOf("typed.fifo", "send"));
  await page.getByLabel("Body", { exact: true }).fill("it's {n}");
  await page.getByLabel("Message group").fill("g");
  await page.getByLabel("Deduplication id").fill("d");
  await page.getByRole("button", { name: "Add attribute" }).click();
  await page.getByLabel("Attribute name").fill("colour");
  await page.getByLabel("Attribute value").fill("blue");
  await page.getByText("AWS CLI").click();
  assert.match(await page.locator(".cli code").innerText(), /"MessageBody": "it'\\''s \{n\}"/);
  await page.getByLabel("How many").fill("12");
  await page.getByRole("button", { name: "Send 12 messages" }).click();
  await hasText(page.locator(".buttons [role=status]"), "12 messages are in the queue.");

  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ["All"] }));
  assert.equal(Messages.length, 10);
  assert.equal(Messages[9].Body, "it's 10");
  assert.equal(Messages[0].MessageAttributes.colour.StringValue, "blue");
}));

test("several large messages are sent in batches that SQS takes", onPage(async (page) => {
  const QueueUrl = await createQueue("heavy");
  await page.goto(pathOf("heavy", "send"));
  // Three bytes each.
  await page.getByLabel("Body", { exact: true }).fill("€".repeat(100_000));
  await page.getByRole("button", { name: "Add attribute" }).click();
  await page.getByLabel("Attribute name").fill("padding");
  await page.getByLabel("Attribute value").fill("a".repeat(60_000));
  await page.getByLabel("How many").fill("12");
  await page.getByRole("button", { name: "Send 12 messages" }).click();
  await page.getByText("12 messages are in the queue.").waitFor();
  assert.equal(await attribute(QueueUrl, "ApproximateNumberOfMessages"), "12");
}));

test("a copy of a message is the same, line breaks and types of attributes included", onPage(async (page) => {
  const QueueUrl = await createQueue("copied");
  const message = {
    MessageBody: "one\r\ntwo\rthree\n",
    MessageAttributes: {
      lines: { DataType: "String", StringValue: "a\r\nb\nc" },
      size: { DataType: "Number.int", StringValue: "7" },
      picture: { DataType: "Binary.png", BinaryValue: Uint8Array.of(1, 2, 255) },
    },
  };
  await sqs.send(new SendMessageCommand({ QueueUrl, ...message }));
  await page.goto(pathOf("copied", "browse"));
  await page.locator("li.message summary").first().click();
  await page.getByRole("button", { name: "Send a copy…" }).click();
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("is in the queue.").waitFor();
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ["All"] }));
  const seen = Messages.map(({ Body, MessageAttributes }) => ({ MessageBody: Body, MessageAttributes }));
  assert.equal(seen.length, 2);
  for (const each of seen) assert.deepEqual(JSON.parse(JSON.stringify(each)), JSON.parse(JSON.stringify(message)));
}));
