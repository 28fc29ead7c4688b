// The console in a real browser, against the real binary, while the SDK works on the same queues.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import {
  CreateQueueCommand,
  DeleteQueueCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
} from "@aws-sdk/client-sqs";
import { ACCOUNT, arn, browser, clientOf, createQueue, pathOf, server, sqs } from "./fixture.mjs";
import { CONSOLE_HOST, Relay, Server, openPage } from "./server.mjs";
import { hasText, until } from "./waiting.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function attribute(QueueUrl, name) {
  const answer = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: [name] }));
  return answer.Attributes[name];
}

async function cloudwatch(action, input, region = "us-east-1") {
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

async function putAlarm(name, queue, changes = {}, region = undefined) {
  await cloudwatch("PutMetricAlarm", {
    AlarmName: name, Namespace: "AWS/SQS", MetricName: "ApproximateNumberOfMessagesVisible",
    Dimensions: [{ Name: "QueueName", Value: queue }], Statistic: "Maximum", Period: 60,
    EvaluationPeriods: 1, Threshold: 0, ComparisonOperator: "GreaterThanThreshold", ...changes,
  }, region);
}

/** The row of a queue in the table of queues. */
function row(page, name) {
  return page.locator("tbody tr", { has: page.locator("a.name", { hasText: new RegExp(`^${name}$`) }) });
}

test("a queue made in the console shows what the SDK sends, without a reload", async () => {
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.console}/queues`);
  await page.getByRole("button", { name: "Create queue" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("parcels");
  await dialog.getByLabel("Visibility timeout, seconds").fill("45");
  await dialog.getByText("AWS CLI").click();
  assert.match(await dialog.locator("code").innerText(), /aws sqs create-queue[^]*--queue-name parcels[^]*VisibilityTimeout/);
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("filter, sort and page are in the address", async () => {
  await Promise.all(Array.from({ length: 130 }, (_, number) => createQueue(`many-${String(number).padStart(3, "0")}`)));
  const { page, problems } = await openPage(browser);
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("browsing leaves the receive count alone, polling raises it", async () => {
  const QueueUrl = await createQueue("letters");
  const hostile = `<img src=x onerror="window.wasRun = true"><script>window.wasRun = true</script>`;
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: hostile }));
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: '{"needle":1}', DelaySeconds: 600 }));
  const { page, problems } = await openPage(browser);
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("JSON is indented as it was written, number for number", async () => {
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
  const { page, problems } = await openPage(browser);
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("a search marks what it found, whatever letters are before it", async () => {
  const QueueUrl = await createQueue("marks");
  for (const MessageBody of ["İİİİFindMe, then findme", "a.c (x) abc \\"]) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  const { page, problems } = await openPage(browser);
  for (const [search, marks] of [["findme", ["FindMe", "findme"]], ["a.c (X)", ["a.c (x)"]], ["\\", ["\\"]]]) {
    await page.goto(`${pathOf("marks", "browse")}?search=${encodeURIComponent(search)}`);
    await page.locator("li.message").waitFor();
    assert.deepEqual(await page.locator(".preview mark").allTextContents(), marks);
  }
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("the commands that are shown work in another region", async () => {
  const far = clientOf("eu-west-1");
  const { QueueUrl } = await far.send(new CreateQueueCommand({ QueueName: "far-letters" }));
  await far.send(new SendMessageCommand({ QueueUrl, MessageBody: "from afar" }));
  const { page, problems } = await openPage(browser);
  const path = `${server.console}/queues/eu-west-1/${ACCOUNT}/far-letters`;
  await page.goto(`${path}/browse`);
  const [, address] = /^curl '([^']+)'$/.exec(await page.locator("details.cli code").textContent());
  assert.match(await (await fetch(address)).text(), /from afar/);

  await page.goto(path);
  const code = page.getByLabel("Code to use this queue");
  await hasText(code, /--region eu-west-1/);
  await page.getByRole("button", { name: "Python" }).click();
  await hasText(code, /region_name="eu-west-1"/);
  await page.getByRole("button", { name: "Rust" }).click();
  await hasText(code, /\.region\(aws_config::Region::new\("eu-west-1"\)\)/);
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("a message sent in the console arrives as it was typed", async () => {
  const QueueUrl = await createQueue("typed.fifo", { FifoQueue: "true" });
  const { page, problems } = await openPage(browser);
  await page.goto(pathOf("typed.fifo", "send"));
  await page.getByLabel("Body", { exact: true }).fill("it's {n}");
  await page.getByLabel("Message group").fill("g");
  await page.getByLabel("Deduplication id").fill("d");
  await page.getByRole("button", { name: "Add attribute" }).click();
  await page.getByLabel("Attribute name").fill("colour");
  await page.getByLabel("Attribute value").fill("blue");
  await page.getByText("AWS CLI").click();
  assert.match(await page.locator(".cli code").innerText(), /--message-body 'it'\\''s \{n\}'/);
  await page.getByLabel("How many").fill("12");
  await page.getByRole("button", { name: "Send 12 messages" }).click();
  await hasText(page.locator(".buttons [role=status]"), "12 messages are in the queue.");

  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ["All"] }));
  assert.equal(Messages.length, 10);
  assert.equal(Messages[9].Body, "it's 10");
  assert.equal(Messages[0].MessageAttributes.colour.StringValue, "blue");
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("dead letters go back where they came from, with progress", async () => {
  const deadUrl = await createQueue("jobs-dead");
  const policy = JSON.stringify({ deadLetterTargetArn: arn("jobs-dead"), maxReceiveCount: 1 });
  const QueueUrl = await createQueue("jobs", { RedrivePolicy: policy });
  const Entries = Array.from({ length: 5 }, (_, number) => ({ Id: `${number}`, MessageBody: `job ${number}` }));
  await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.console}/queues?filter=jobs&sort=name`);
  await hasText(row(page, "jobs").locator("td").nth(7), "→ jobs-dead");
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("the tab of dead letters keeps its links and buttons while figures change", async () => {
  const deadUrl = await createQueue("steady-dead");
  const policy = JSON.stringify({ deadLetterTargetArn: arn("steady-dead"), maxReceiveCount: 1 });
  const QueueUrl = await createQueue("steady", { RedrivePolicy: policy });
  const Entries = Array.from({ length: 10 }, (_, number) => ({ Id: `${number}`, MessageBody: "x" }));
  for (let turn = 0; turn < 2; turn++) await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  for (let turn = 0; turn < 4; turn++) {
    await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 0 }));
  }
  assert.equal(await attribute(deadUrl, "ApproximateNumberOfMessages"), "20");
  const { page, problems } = await openPage(browser);
  await page.goto(pathOf("steady-dead", "dead-letters"));
  const source = page.getByRole("link", { name: "steady", exact: true });
  await source.focus();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "y" }));
  await hasText(page.locator("tr", { has: source }).locator("td").first(), "1");
  await source.and(page.locator(":focus")).waitFor({ timeout: 1000 });

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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("a queue that is deleted and created again is shown again", async () => {
  const QueueUrl = await createQueue("phoenix");
  const { page, problems } = await openPage(browser);
  await page.goto(pathOf("phoenix"));
  await hasText(page.locator("#live"), "Live");
  await sqs.send(new DeleteQueueCommand({ QueueUrl }));
  await page.getByRole("heading", { name: "There is no such queue" }).waitFor();
  await createQueue("phoenix");
  await page.locator("#facts").getByRole("button", { name: "Purge" }).waitFor();
  await hasText(page.locator("#live"), "Live");
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("several large messages are sent in batches that SQS takes", async () => {
  const QueueUrl = await createQueue("heavy");
  const { page, problems } = await openPage(browser);
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("purging and deleting need the queue's name", async () => {
  const QueueUrl = await createQueue("ballast");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  const { page, problems } = await openPage(browser);
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("configuration and tags are saved through the API", async () => {
  const QueueUrl = await createQueue("settings");
  const { page, problems } = await openPage(browser);
  await page.goto(pathOf("settings", "configuration"));
  await page.getByLabel("Visibility timeout, seconds").fill("77");
  await page.getByRole("button", { name: "Save" }).click();
  await hasText(page.locator("tbody tr", { hasText: "VisibilityTimeout" }).locator("td"), "77");
  assert.equal(await attribute(QueueUrl, "VisibilityTimeout"), "77");
  await page.getByLabel("Dead-letter queue").fill("nowhere-at-all");
  await page.getByRole("button", { name: "Save" }).click();
  await hasText(page.getByRole("alert"), /Dead letter target does not exist/);

  await page.goto(pathOf("settings", "tags"));
  await page.getByLabel("Key", { exact: true }).fill("team");
  await page.getByLabel("Value", { exact: true }).fill("post");
  await page.getByRole("button", { name: "Set tag" }).click();
  await hasText(page.locator("tbody tr").first(), /team\s+post/);
  assert.deepEqual(problems.filter((text) => !text.includes("400 (Bad Request)")), []);
  await page.context().close();
});

test("figures go on after a restart of the server, and a form still works", async () => {
  const QueueUrl = await createQueue("lasting");
  const { page, problems } = await openPage(browser);
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
  assert.deepEqual(problems.filter((text) => !text.includes("403 (Forbidden)")), []);
  await page.context().close();
});

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

test("pausing stops the figures, and the keyboard reaches everything", async () => {
  const QueueUrl = await createQueue("still");
  const { page, problems } = await openPage(browser);
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
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("configured credentials are asked for, and open the console", async () => {
  const guarded = await Server.start({ MILLRACE_ACCESS_KEY: "AKIDOPS", MILLRACE_SECRET_KEY: "long-secret" });
  const { page, problems } = await openPage(browser);
  await page.goto(`${guarded.console}/queues?sort=name`);
  await page.getByLabel("Access key").fill("AKIDOPS");
  await page.getByLabel("Secret key").fill("guess");
  await page.getByRole("button", { name: "Log in" }).click();
  await hasText(page.getByRole("alert"), /do not fit together/);
  await page.getByLabel("Secret key").fill("long-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(`${guarded.console}/queues?sort=name`);
  await hasText(page.locator("#live"), "Live");
  const other = await page.context().newPage();
  await other.goto(`${guarded.console}/`);
  await hasText(other.locator("#live"), "Live");
  const ways = [];
  for (const each of [page, other]) {
    each.on("request", (request) => request.isNavigationRequest() && ways.push(new URL(request.url()).pathname));
  }
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL(/login/);
  await other.waitForURL(/login/);
  assert.deepEqual(ways, ["/login", "/login"]);
  await page.goto(guarded.console);
  await page.waitForURL(/login/);
  assert.deepEqual(problems.filter((text) => !/40[13] \(/.test(text)), []);
  await page.context().close();
  await guarded.close();
});

test("a request that fails says so and can be made again", async () => {
  const guarded = await Server.start({ MILLRACE_ACCESS_KEY: "AKIDOPS", MILLRACE_SECRET_KEY: "long-secret" });
  const { page, problems } = await openPage(browser);
  await page.route("**/api/login", (route) => route.abort());
  await page.goto(`${guarded.console}/login?next=http%3A%2F%2F%5B`);
  await page.getByLabel("Access key").fill("AKIDOPS");
  await page.getByLabel("Secret key").fill("long-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
  await page.unroute("**/api/login");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(`${guarded.console}/`);
  await page.goto(`${guarded.console}/login?next=%2F.%2F%2Fevil.example%2F`);
  await page.waitForURL(`${guarded.console}//evil.example/`);
  await guarded.close();

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
  assert.deepEqual(problems.filter((text) => !/ERR_FAILED|40[14] \(/.test(text)), []);
  await page.context().close();
});

test("two consoles on one host do not log each other out", async () => {
  const keys = { MILLRACE_ACCESS_KEY: "AKIDOPS", MILLRACE_SECRET_KEY: "long-secret" };
  const both = await Promise.all([Server.start(keys), Server.start(keys)]);
  const { page, problems } = await openPage(browser);
  for (const one of both) {
    await page.goto(one.console);
    await page.getByLabel("Access key").fill("AKIDOPS");
    await page.getByLabel("Secret key").fill("long-secret");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.waitForURL(`${one.console}/`);
  }
  for (const one of both) {
    await page.goto(`${one.console}/queues`);
    await hasText(page.locator("h1"), "Queues");
  }
  assert.deepEqual(problems.filter((text) => !text.includes("401 (Unauthorized)")), []);
  await page.context().close();
  await Promise.all(both.map((one) => one.close()));
});

test("every page is accessible and sound, in both themes and narrow", async () => {
  const QueueUrl = await createQueue("shown");
  const Attributes = { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn("shown"), maxReceiveCount: 3 }) };
  await createQueue("shown-source", Attributes);
  const MessageAttributes = { colour: { DataType: "String", StringValue: "blue" } };
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: '{"order":1}', MessageAttributes }));
  await putAlarm("shown-backlog", "shown");
  const paths = ["/", "/queues?filter=shown", "/metrics", "/alarms", "/login"].map((path) => server.console + path);
  const tabs = ["", "browse", "poll", "send", "dead-letters", "configuration", "tags"].map((tab) => pathOf("shown", tab));
  const waiting = [...paths, ...tabs];
  const faults = (await Promise.all([0, 1].map(() => inspect(waiting)))).flat();
  assert.deepEqual(faults, []);
});

/** Takes addresses until there are none left; returns what is wrong there, in each theme and width. */
async function inspect(addresses) {
  const faults = [];
  const { page, problems } = await openPage(browser, { bypassCSP: true, reducedMotion: "reduce" });
  while (addresses.length > 0) {
    const address = addresses.shift();
    await page.goto(address);
    await page.locator("#root > *:not(noscript)").first().waitFor();
    if (address.endsWith("/browse")) await page.locator(".message summary").first().click();
    if (address.endsWith("/alarms")) await page.getByRole("button", { name: "shown-backlog", exact: true }).click();
    await page.evaluate(AXE);
    for (const [colorScheme, width] of [["light", 1280], ["dark", 1280], ["dark", 400]]) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const { violations } = await page.evaluate(() => window.axe.run(document, {
        resultTypes: ["violations"],
        runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
      }));
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
      faults.push(...found.map((text) => `${address} ${colorScheme} ${width}: ${text}`));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (overflow > 0) faults.push(`${address} ${width}: ${overflow} pixels too wide`);
    }
  }
  await page.context().close();
  return [...faults, ...problems];
}

test("a narrow window shows the tab that is current", async () => {
  await createQueue("narrow");
  const { page, problems } = await openPage(browser, { viewport: { width: 360, height: 740 } });
  for (const tab of ["", "dead-letters", "configuration", "tags"]) {
    await page.goto(pathOf("narrow", tab));
    await page.locator("#root > *:not(noscript)").first().waitFor();
    const { left, right, top } = await page.locator(".tabs [aria-current]").evaluate((link) => link.getBoundingClientRect().toJSON());
    assert.ok(left >= 0 && right <= 360 && top >= 0, `${tab}: ${left} to ${right}`);
    assert.equal(await page.evaluate(() => scrollY), 0);
  }
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("an alarm is set, shown and deleted", async () => {
  await createQueue("watched");
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.console}/alarms`);
  await page.getByRole("button", { name: "Create alarm" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("watched-backlog");
  await dialog.getByLabel("Queue", { exact: true }).fill("watched");
  await dialog.getByRole("button", { name: "Create alarm" }).click();
  await page.getByRole("button", { name: "watched-backlog", exact: true }).click();
  await page.getByRole("heading", { name: "History of watched-backlog" }).waitFor();
  await page.getByRole("button", { name: "Delete watched-backlog" }).click();
  await dialog.getByRole("textbox").fill("watched-backlog");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "watched-backlog", exact: true }).waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("an alarm's threshold is shown with all its digits", async () => {
  await createQueue("exact");
  await putAlarm("exact-small", "exact", { Threshold: 0.004 });
  await putAlarm("exact-large", "exact", { Threshold: 12345 });
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.console}/alarms`);
  await hasText(page.locator("tbody tr", { hasText: "exact-small" }).locator("td").nth(1), / > 0\.004 for /);
  await hasText(page.locator("tbody tr", { hasText: "exact-large" }).locator("td").nth(1), / > 12345 for /);
  await cloudwatch("DeleteAlarms", { AlarmNames: ["exact-small", "exact-large"] });
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("an alarm whose name has spaces around it is edited and deleted", async () => {
  await createQueue("spaced");
  await putAlarm(" spaced  out ", "spaced");
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.console}/alarms`);
  await page.getByRole("button", { name: "Edit spaced out" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Threshold").fill("7");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  const { MetricAlarms } = await cloudwatch("DescribeAlarms", { AlarmNamePrefix: " spaced" });
  assert.deepEqual(MetricAlarms.map(({ AlarmName, Threshold }) => [AlarmName, Threshold]), [[" spaced  out ", 7]]);
  await page.getByRole("button", { name: "Delete spaced out" }).click();
  await dialog.getByRole("textbox").fill("spaced");
  assert.equal(await dialog.getByRole("button", { name: "Delete" }).isDisabled(), true);
  await dialog.getByRole("textbox").fill("spaced out");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete spaced out" }).waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("alarms and series of another region are shown, changed and charted", async () => {
  const far = clientOf("eu-west-1");
  await far.send(new CreateQueueCommand({ QueueName: "far" }));
  await putAlarm("far-backlog", "far", {}, "eu-west-1");
  await cloudwatch("PutMetricData", { Namespace: "Shop", MetricData: [{ MetricName: "FarOrders", Value: 7 }] }, "eu-west-1");
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.console}/alarms`);
  await hasText(page.locator("tbody tr", { hasText: "far-backlog" }).locator("th .place"), "eu-west-1");
  await page.getByRole("button", { name: "far-backlog", exact: true }).click();
  await page.getByRole("heading", { name: "History of far-backlog in eu-west-1" }).waitFor();
  await page.getByRole("button", { name: "Edit far-backlog in eu-west-1" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Threshold").fill("7");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  const { MetricAlarms: [{ Threshold }] } = await cloudwatch("DescribeAlarms", { AlarmNames: ["far-backlog"] }, "eu-west-1");
  assert.equal(Threshold, 7);
  await page.getByRole("button", { name: "Delete far-backlog in eu-west-1" }).click();
  await dialog.getByRole("textbox").fill("far-backlog");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.waitFor({ state: "hidden" });

  await page.getByRole("button", { name: "Create alarm" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("far-again");
  await dialog.getByLabel("Queue", { exact: true }).fill("far");
  await dialog.getByLabel("Region").selectOption("eu-west-1");
  await dialog.getByRole("button", { name: "Create alarm" }).click();
  await dialog.waitFor({ state: "hidden" });
  const { MetricAlarms } = await cloudwatch("DescribeAlarms", {}, "eu-west-1");
  assert.deepEqual(MetricAlarms.map(({ AlarmName }) => AlarmName), ["far-again"]);
  await cloudwatch("DeleteAlarms", { AlarmNames: ["far-again"] }, "eu-west-1");

  await page.goto(`${server.console}/metrics`);
  await page.getByLabel("Region").selectOption("eu-west-1");
  await page.getByLabel("Show FarOrders").check();
  await page.waitForURL(/region=eu-west-1/);
  assert.match(await page.locator("details.cli code").textContent(), /--region eu-west-1/);
  await page.reload();
  await page.getByLabel("Show FarOrders").and(page.locator(":checked")).waitFor();
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("editing an alarm that another client has put changes only what is edited", async () => {
  await createQueue("edited");
  const changes = { Period: 600, MetricName: "NumberOfDeduplicatedSentMessages" };
  await putAlarm("edited-often", "edited", changes);
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.console}/alarms`);
  await page.getByRole("button", { name: "Edit edited-often" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Threshold").fill("7");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  const { MetricAlarms: [{ Threshold, Period, MetricName }] } = await cloudwatch("DescribeAlarms", { AlarmNames: ["edited-often"] });
  assert.deepEqual({ Threshold, Period, MetricName }, { Threshold: 7, ...changes });
  await cloudwatch("DeleteAlarms", { AlarmNames: ["edited-often"] });
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("a copy of a message is the same, line breaks and types of attributes included", async () => {
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
  const { page, problems } = await openPage(browser);
  await page.goto(pathOf("copied", "browse"));
  await page.locator("li.message summary").first().click();
  await page.getByRole("button", { name: "Send a copy…" }).click();
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("is in the queue.").waitFor();
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ["All"] }));
  const seen = Messages.map(({ Body, MessageAttributes }) => ({ MessageBody: Body, MessageAttributes }));
  assert.equal(seen.length, 2);
  for (const each of seen) assert.deepEqual(JSON.parse(JSON.stringify(each)), JSON.parse(JSON.stringify(message)));
  assert.deepEqual(problems, []);
  await page.context().close();
});

test("texts are copied over plain HTTP too", async () => {
  await createQueue("plain");
  const { page, problems } = await openPage(browser);
  await page.goto(pathOf("plain", "send").replace("127.0.0.1", CONSOLE_HOST));
  assert.equal(await page.evaluate(() => isSecureContext), false);
  await page.getByRole("button", { name: "Copy ARN" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  await page.getByLabel("Body", { exact: true }).focus();
  await page.keyboard.press("Control+V");
  assert.equal(await page.getByLabel("Body", { exact: true }).inputValue(), arn("plain"));

  await page.locator("#facts").getByRole("button", { name: "Purge" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("AWS CLI").click();
  await dialog.getByRole("button", { name: "Copy", exact: true }).click();
  await dialog.getByRole("button", { name: "Copied" }).and(page.locator(":focus")).waitFor();
  await dialog.getByRole("textbox").focus();
  await page.keyboard.press("Control+V");
  assert.match(await dialog.getByRole("textbox").inputValue(), /aws sqs purge-queue/);
  // Browsers warn of a header that they heed over HTTPS only.
  assert.deepEqual(problems.filter((text) => !text.includes("Cross-Origin-Opener-Policy")), []);
  await page.context().close();
});

test("an address without a page leads on", async () => {
  const { page, problems } = await openPage(browser);
  const answer = await page.goto(`${server.console}/nonsense`);
  assert.equal(answer.status(), 404);
  await hasText(page.locator("h1"), "There is no such page");
  await page.getByRole("link", { name: "All queues" }).waitFor();
  await page.getByRole("link", { name: "Alarms" }).click();
  await hasText(page.locator("h1"), "Alarms");
  assert.deepEqual(problems.filter((text) => !text.includes("404")), []);
  await page.context().close();
});

test("the content policy is obeyed by every page", async () => {
  const { page, problems } = await openPage(browser);
  await page.addInitScript(() => {
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  for (const path of ["/", "/queues", "/metrics", "/alarms", "/login"]) {
    await page.goto(server.console + path);
    await page.locator("#root > *:not(noscript)").first().waitFor();
    assert.deepEqual(await page.evaluate(() => window.violations), [], path);
  }
  assert.deepEqual(problems, []);
  await page.context().close();
});
