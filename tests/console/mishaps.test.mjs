// What happens to people at the console: clicks that come twice, other hands on the same queues, servers
// that go away, files and addresses that are not what they seem.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DeleteQueueCommand, ListQueueTagsCommand, ReceiveMessageCommand, SendMessageCommand, StartMessageMoveTaskCommand, TagQueueCommand } from "@aws-sdk/client-sqs";
import { arn, browser, cloudwatch, createQueue, onPage, pathOf, server, sqs } from "./fixture.mjs";
import { CONSOLE_HOST, Server, openPage } from "./server.mjs";
import { hasText } from "./waiting.mjs";

test("a double click on a tag's button removes no tag, and a removal is confirmed", onPage(async (page) => {
  const QueueUrl = await createQueue("tagged");
  await sqs.send(new TagQueueCommand({ QueueUrl, Tags: { a: "1", b: "2", c: "3" } }));
  const tags = async () => Object.keys((await sqs.send(new ListQueueTagsCommand({ QueueUrl }))).Tags).sort();
  await page.goto(pathOf("tagged", "tags"));
  const remove = page.getByRole("button", { name: "Remove tag a" });
  const { x, y } = await remove.boundingBox();
  await page.mouse.dblclick(x + 5, y + 5, { delay: 30 });
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Remove" }).waitFor();
  assert.deepEqual(await tags(), ["a", "b", "c"]);

  await dialog.getByRole("button", { name: "Remove" }).click();
  await remove.waitFor({ state: "detached" });
  assert.deepEqual(await tags(), ["b", "c"]);
  await page.getByLabel("Key", { exact: true }).and(page.locator(":focus")).waitFor();
}));

test("deleting several queues names them, and one that is refused keeps no other from its turn", onPage(async (page) => {
  const urls = {};
  for (const name of ["going-a", "going-b", "going-c"]) urls[name] = await createQueue(name);
  await page.goto(`${server.console}/queues?filter=going-&sort=name`);
  await page.locator("tbody tr").nth(2).waitFor();
  await page.getByLabel("Select all on this page").check();
  await page.getByRole("button", { name: "Delete 3" }).click();
  const dialog = page.getByRole("dialog");
  assert.deepEqual(await dialog.getByRole("listitem").allInnerTexts(), ["going-a", "going-b", "going-c"]);
  await dialog.getByText("The queues and all their messages are gone for good.").waitFor();
  // Another client deletes one meanwhile, and one is refused once.
  await sqs.send(new DeleteQueueCommand({ QueueUrl: urls["going-a"] }));
  const refusal = { status: 400, json: { __type: "com.amazonaws.sqs#OverLimit", message: "Not now." } };
  await page.route("**/api/call/sqs/DeleteQueue?**", (route) =>
    route.request().postData().includes("going-b") ? route.fulfill(refusal) : route.continue());
  await dialog.getByRole("textbox").fill("delete 3 queues");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await hasText(dialog.getByRole("alert"), "1 of 3 queues could not be deleted. going-b: Not now.");
  await page.locator("tbody tr").nth(1).waitFor({ state: "detached" });

  await page.unroute("**/api/call/sqs/DeleteQueue?**");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.waitFor({ state: "hidden" });
  await page.getByText("No queue fits the filter.").waitFor();
}, { expected: /400 \(Bad Request\)/ }));

test("who is logged in comes in by a link from another site, and back leads out again", async () => {
  const guarded = await Server.start({ MILLRACE_ACCESS_KEY: "AKIDOPS", MILLRACE_SECRET_KEY: "long-secret" });
  const { page, problems } = await openPage(browser);
  const outside = `http://${CONSOLE_HOST}:${new URL(server.endpoint).port}/health`;
  const follow = (url) => page.evaluate((url) => location.assign(url), url);
  await page.goto(outside);
  await follow(`${guarded.console}/queues`);
  await page.getByLabel("Access key").fill("AKIDOPS");
  await page.getByLabel("Secret key").fill("long-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(`${guarded.console}/queues`);
  await page.goBack();
  await page.waitForURL(outside);

  await follow(`${guarded.console}/queues?sort=name`);
  await page.waitForURL(`${guarded.console}/queues?sort=name`);
  await hasText(page.locator("h1"), "Queues");
  // The icon of the page outside is forbidden, too.
  assert.deepEqual(problems.filter((text) => !/40[13] \(/.test(text)), []);
  await page.context().close();
  await guarded.close();
});

test("a file that is no text, or too large, is refused, and text is taken to the byte", onPage(async (page) => {
  const QueueUrl = await createQueue("files");
  await page.goto(pathOf("files", "send"));
  const choose = (name, buffer) => page.getByLabel("Fill the body from a file").setInputFiles({ name, mimeType: "application/octet-stream", buffer });
  await choose("picture.png", Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff]));
  await hasText(page.getByRole("alert"), /^picture.png is not text in UTF-8/);
  await choose("huge.txt", Buffer.alloc(1_048_577, "a"));
  await hasText(page.getByRole("alert"), "huge.txt has 1,048,577 bytes, a message at most 1,048,576.");
  assert.equal(await page.getByLabel("Body", { exact: true }).inputValue(), "");

  await choose("marked.txt", Buffer.from("\uFEFFone\r\ntwo"));
  await page.getByRole("alert").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("is in the queue.").waitFor();
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
  assert.equal(Messages[0].Body, "\uFEFFone\r\ntwo");
}));

test("an address of the metrics page that is damaged shows what is left of it", onPage(async (page) => {
  await cloudwatch("PutMetricData", { Namespace: "Shop", MetricData: [{ MetricName: "a~b", Value: 7 }] });
  await page.goto(`${server.console}/metrics?series=%25~~${encodeURIComponent("Shop|a%7Eb")}~AWS`);
  const box = page.getByLabel("Show a~b");
  await box.and(page.locator(":checked")).waitFor();
  await page.locator(".legend li", { hasText: "a~b" }).waitFor();
  await page.getByRole("button", { name: "1 h", exact: true }).click();
  await page.waitForURL(/range=1/);
  await page.reload();
  await box.and(page.locator(":checked")).waitFor();
  await page.locator(".legend li", { hasText: "a~b" }).waitFor();
}));

test("the status says since when figures are stale as long as they are, and that a page is paused", onPage(async (page) => {
  await page.goto(server.console);
  const status = page.locator("#live");
  await hasText(status, "Live");
  await server.end();
  await hasText(status, /^Stale since/);
  // The browser tries again each second.
  await page.evaluate(() => {
    window.said = [];
    const note = () => window.said.push(document.getElementById("live").textContent);
    new MutationObserver(note).observe(document.getElementById("live"), { childList: true });
  });
  await page.waitForEvent("requestfailed");
  await page.waitForEvent("requestfailed");
  await server.spawn();
  await hasText(status, "Live");
  assert.deepEqual(await page.evaluate(() => window.said), ["Live"]);

  await page.getByRole("button", { name: "Pause" }).click();
  // Its name says what it does; that it is pressed would say the opposite.
  await page.getByRole("button", { name: "Resume", pressed: false }).waitFor();
  await page.evaluate(() => {
    for (const isHidden of [true, false]) {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }
  });
  await hasText(status, "Paused");
}));

test("a server that is away is called that, once", async () => {
  const QueueUrl = await createQueue("away");
  const { page } = await openPage(browser);
  await page.goto(`${server.console}/alarms`);
  await page.getByRole("heading", { name: "No alarms yet" }).waitFor();
  const form = await page.context().newPage();
  await form.goto(pathOf("away", "send"));
  await form.getByLabel("Body", { exact: true }).fill("kept");
  await server.end();
  const send = form.getByRole("button", { name: "Send message" });
  await send.click();
  await hasText(form.getByRole("alert"), "The server gives no answer.");
  const alert = page.getByRole("alert");
  await hasText(alert, "The server gives no answer.");
  await alert.evaluate((element) => (element.isSame = true));
  await page.waitForEvent("requestfailed");
  assert.equal(await alert.evaluate((element) => element.isSame), true);

  await server.spawn();
  await send.click();
  await form.getByText("is in the queue.").waitFor();
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
  assert.equal(Messages[0].Body, "kept");
  await page.context().close();
});

test("the next page begins at its top, and a click that asks for another tab gets one", onPage(async (page) => {
  await Promise.all(Array.from({ length: 110 }, (_, number) => createQueue(`row-${number}`)));
  await page.goto(`${server.console}/queues?filter=row-&sort=name`);
  const next = page.getByRole("link", { name: "Next" });
  const [other] = await Promise.all([page.context().waitForEvent("page"), next.click({ modifiers: ["Control"] })]);
  await other.waitForURL(/page=2/);
  const [sorted] = await Promise.all([page.context().waitForEvent("page"), page.getByRole("link", { name: "Created" }).click({ modifiers: ["Control"] })]);
  await sorted.waitForURL(/sort=created/);
  assert.equal(new URL(page.url()).search, "?filter=row-&sort=name");

  await next.scrollIntoViewIfNeeded();
  await next.click();
  await hasText(page.locator(".paging span").first(), "Page 2 of 2");
  assert.equal(await page.evaluate(() => scrollY), 0);
}));

test("a window of 320 pixels shows every choice of time", onPage(async (page) => {
  await createQueue("slim");
  await page.goto(pathOf("slim"));
  const choice = page.getByRole("group", { name: "Time shown" });
  await choice.waitFor();
  const right = (element) => element.getBoundingClientRect().right;
  for (const button of await choice.getByRole("button").all()) {
    assert.ok((await button.evaluate(right)) <= (await choice.evaluate(right)), await button.innerText());
  }
}, { viewport: { width: 320, height: 640 } }));

test("words as long as they may be fit into every page", onPage(async (page) => {
  const word = "W".repeat(250);
  const [from, to] = ["from", "to"].map((name) => name.padEnd(80, "x"));
  await createQueue(to);
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: `arn:aws:sqs:us-east-1:000000000000:${to}`, maxReceiveCount: 1 });
  const QueueUrl = await createQueue(from, { RedrivePolicy });
  await sqs.send(new TagQueueCommand({ QueueUrl, Tags: { ["k".repeat(128)]: word } }));
  const metric = { Namespace: "Words", MetricName: word, Dimensions: [{ Name: word, Value: word }] };
  await cloudwatch("PutMetricData", { Namespace: "Words", MetricData: [{ ...metric, Namespace: undefined, Value: 7 }] });
  await cloudwatch("PutMetricAlarm", {
    ...metric, AlarmName: word, AlarmDescription: word, Statistic: "Maximum", Period: 60,
    EvaluationPeriods: 1, Threshold: 0, ComparisonOperator: "GreaterThanThreshold",
  });
  const fits = async (what) => {
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(excess <= 0, `${what}: ${excess} pixels too wide`);
  };
  for (const tab of ["", "send", "dead-letters", "configuration", "tags"]) {
    await page.goto(pathOf(from, tab));
    await page.locator("#root > *:not(noscript)").first().waitFor();
    await fits(tab);
  }
  await page.goto(pathOf(from, "configuration"));
  await page.getByLabel("Dead-letter queue").selectOption("Another queue…");
  await page.getByLabel("Name or ARN").fill(word);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").waitFor();
  await fits("an error");
  await page.goto(`${server.console}/alarms`);
  await page.getByRole("button", { name: word, exact: true }).click();
  await page.getByRole("heading", { name: "History of" }).waitFor();
  await fits("an alarm");
  await page.getByRole("button", { name: `Delete ${word}` }).click();
  await page.getByRole("dialog").getByRole("textbox").and(page.locator(":focus")).waitFor();
  await fits("a confirmation");
  await page.goto(`${server.console}/metrics`);
  await page.getByLabel(`Show ${word}`).check();
  await page.locator(".legend li", { hasText: word }).waitFor();
  await fits("a series");
}, { viewport: { width: 320, height: 640 }, expected: /400 \(Bad Request\)/ }));

test("a redrive that another tab starts is shown, and one message is one message", onPage(async (page) => {
  const deadUrl = await createQueue("shared-dead");
  await createQueue("shared", { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn("shared-dead"), maxReceiveCount: 1 }) });
  await sqs.send(new SendMessageCommand({ QueueUrl: deadUrl, MessageBody: "x" }));
  await page.goto(pathOf("shared-dead", "dead-letters"));
  await page.getByText("No redrive yet.").waitFor();
  await page.getByText("1 message waits here.").waitFor();

  await sqs.send(new StartMessageMoveTaskCommand({ SourceArn: arn("shared-dead"), DestinationArn: arn("shared") }));
  await hasText(page.locator("main").getByText("moved"), "1 of 1 moved");
  await page.goto(pathOf("shared"));
  await page.getByText(/after 1 receive$/).waitFor();
}));

test("a body in which there is nothing to see, or which hides something, says so", onPage(async (page) => {
  const QueueUrl = await createQueue("unseen");
  const cases = [
    [" \n\t", "(blank)", null],
    ["\u200B\u00A0", "(blank)", "U+200B, U+00A0"],
    ["pay \u202Egnp.exe", "pay \u202Egnp.exe", "U+202E"],
    ["\u{1F469}\u200D\u{1F469}\u200D\u{1F467} caf\u00E9\r\n\u05E9", "\u{1F469}\u200D\u{1F469}\u200D\u{1F467} caf\u00E9 \u05E9", null],
  ];
  for (const [MessageBody] of cases) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  await page.goto(pathOf("unseen", "browse"));
  await page.locator("li.message").nth(cases.length - 1).waitFor();
  for (const [index, [, preview, hidden]] of cases.entries()) {
    const item = page.locator("li.message").nth(index);
    assert.equal(await item.locator(".preview").textContent(), preview);
    await item.locator("summary").click();
    await item.getByText("Receive count").waitFor();
    const fact = item.locator("dt", { hasText: "Invisible in the body" }).locator("xpath=following-sibling::dd[1]");
    assert.deepEqual(await fact.allTextContents(), hidden ? [hidden] : [], preview);
  }
}));

test("the form for sending drops no attribute, and says what was sent before an error", onPage(async (page) => {
  const QueueUrl = await createQueue("careful");
  await page.goto(pathOf("careful", "send"));
  const send = page.getByRole("button", { name: /^Send / });
  const status = page.locator(".buttons [role=status]");
  await page.getByLabel("Body", { exact: true }).fill("x");
  for (const value of ["1", "2"]) {
    await page.getByRole("button", { name: "Add attribute" }).click();
    await page.getByLabel("Attribute value").last().fill(value);
  }
  await send.click();
  await page.getByLabel("Attribute name").first().and(page.locator(":focus")).waitFor();
  for (const name of await page.getByLabel("Attribute name").all()) await name.fill("same");
  await send.click();
  await hasText(page.getByRole("alert"), "There are two attributes with the name same.");
  await page.getByLabel("Attribute name").last().fill("other");
  await send.click();
  await hasText(status, /is in the queue/);
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MessageAttributeNames: ["All"] }));
  assert.deepEqual(Object.keys(Messages[0].MessageAttributes).sort(), ["other", "same"]);

  let requests = 0;
  await page.route("**/SendMessageBatch?**", (route) => (++requests > 2 ? route.abort() : route.continue()));
  await page.getByLabel("How many").fill("50");
  await send.click();
  await hasText(page.getByRole("alert"), "The server gives no answer. (after 20 messages)");
  assert.equal(await status.innerText(), "");
}, { expected: /ERR_FAILED/ }));

test("copies that a queue takes for one message are not called several", onPage(async (page) => {
  await createQueue("same.fifo", { FifoQueue: "true", ContentBasedDeduplication: "true" });
  await page.goto(pathOf("same.fifo", "send"));
  await page.getByLabel("Body", { exact: true }).fill("alike");
  await page.getByLabel("Message group").fill("g");
  await page.getByLabel("How many").fill("12");
  await page.getByRole("button", { name: "Send 12 messages" }).click();
  await hasText(page.locator(".buttons [role=status]"), "1 message is in the queue; 11 had the same deduplication id.");
}));

test("a long attribute is shown whole on demand", onPage(async (page) => {
  const QueueUrl = await createQueue("wordy");
  const StringValue = `${"v".repeat(5000)}end`;
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "short", MessageAttributes: { long: { DataType: "String", StringValue } } }));
  await page.goto(pathOf("wordy", "browse"));
  await page.locator("li.message summary").click();
  await hasText(page.locator("li.message td code"), /v…$/);
  await page.getByRole("button", { name: "Show all of the attributes" }).click();
  await hasText(page.locator("li.message td code"), StringValue);
  await page.getByRole("button", { name: "Show all of the attributes" }).waitFor({ state: "detached" });
}));

test("JSON of very many lines is shown as it is", onPage(async (page) => {
  const QueueUrl = await createQueue("lines");
  const MessageBody = `[${"0,".repeat(60_000)}0]`;
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  await page.goto(pathOf("lines", "poll"));
  await page.getByRole("button", { name: "Poll for messages" }).click();
  await page.locator("li.message summary").click();
  await page.getByRole("heading", { name: "Body, JSON, too long to indent" }).waitFor();
  assert.equal(await page.getByLabel("Message body").textContent(), MessageBody);
}));
