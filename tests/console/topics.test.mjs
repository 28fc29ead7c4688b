// Topics of SNS in the console: lists, subscriptions, filter policies, publishing.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CreateQueueCommand, DeleteQueueCommand, GetQueueUrlCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { ACCOUNT, arn, browser, createQueue, onPage, server, sns, sqs } from "./fixture.mjs";
import { Server, openPage } from "./server.mjs";
import { hasText, until } from "./waiting.mjs";

const topicArn = (name, region = "us-east-1") => `arn:aws:sns:${region}:${ACCOUNT}:${name}`;
const pathOf = (name, region = "us-east-1") => `${server.console}/topics/${region}/${ACCOUNT}/${name}`;
const rowOf = (page, name) => page.locator("tbody tr", { has: page.locator(".name", { hasText: new RegExp(`^${name}$`) }) });
const cell = (row, title) => row.locator(`td[data-label="${title}"]`);
const textOf = (answer, tag) => new RegExp(`<${tag}>(.*?)</${tag}>`).exec(answer)?.[1];

/** A topic with a queue subscribed to it, both of that name; resolves to the subscription's ARN. */
async function subscribed(name, attributes = {}) {
  await createQueue(name);
  await sns("CreateTopic", { Name: name });
  const entries = Object.entries(attributes).flatMap(([key, value], index) => [[`Attributes.entry.${index + 1}.key`, key], [`Attributes.entry.${index + 1}.value`, value]]);
  return textOf(await sns("Subscribe", { TopicArn: topicArn(name), Protocol: "sqs", Endpoint: arn(name), ...Object.fromEntries(entries) }), "SubscriptionArn");
}

/** The attributes of a subscription. */
async function attributesOf(SubscriptionArn) {
  const answer = await sns("GetSubscriptionAttributes", { SubscriptionArn });
  const unescaped = (text) => text.replaceAll("&quot;", '"').replaceAll("&amp;", "&");
  return Object.fromEntries([...answer.matchAll(/<key>(.*?)<\/key><value>([^]*?)<\/value>/g)].map(([, key, value]) => [key, unescaped(value)]));
}

/** The next message of a queue. */
async function received(name, client = sqs) {
  const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName: name }));
  const input = { QueueUrl, WaitTimeSeconds: 10, MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
  const { Messages: [message] } = await client.send(new ReceiveMessageCommand(input));
  return message;
}

test("a topic is created, listed with its subscriptions, and deleted", onPage(async (page) => {
  await page.goto(server.console);
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Topics" }).click();
  await page.getByRole("heading", { name: "No topics here yet" }).waitFor();
  await page.getByRole("button", { name: "Create topic" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("a b");
  await dialog.getByRole("button", { name: "Create topic" }).click();
  await hasText(dialog.locator(".error").first(), /Letters, digits/);
  await dialog.getByLabel("Name", { exact: true }).fill("fresh");
  await dialog.getByLabel("Display name").fill("Fresh & new");
  assert.match(await dialog.locator("details.cli code").textContent(), /^aws sns create-topic \\\n  --cli-input-json '\{"Name":"fresh","Attributes":\{"DisplayName":"Fresh & new"\}\}'/);
  await dialog.getByRole("button", { name: "Create topic" }).click();
  await page.waitForURL(pathOf("fresh"));
  await page.getByText("No subscriptions:").waitFor();
  await hasText(page.locator("tbody tr", { hasText: "DisplayName" }).locator("td"), "Fresh & new");

  await createQueue("fresh");
  await sns("Subscribe", { TopicArn: topicArn("fresh"), Protocol: "sqs", Endpoint: arn("fresh") });
  await page.goto(`${server.console}/topics`);
  await hasText(cell(rowOf(page, "fresh"), "Subscriptions"), "1");
  await hasText(cell(rowOf(page, "fresh"), "Pending"), "0");
  await page.getByRole("button", { name: "Delete fresh" }).click();
  assert.equal(await dialog.getByRole("button", { name: "Delete" }).isDisabled(), true);
  await dialog.getByRole("textbox").fill("fresh");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await rowOf(page, "fresh").waitFor({ state: "detached" });
  assert.doesNotMatch(await sns("ListTopics", {}), /fresh/);
  await page.goto(pathOf("fresh"));
  await page.getByRole("heading", { name: "There is no such topic" }).waitFor();
}, { expected: /404/ }));

test("topics of another region are offered, listed and opened", onPage(async (page) => {
  await sns("CreateTopic", { Name: "distant" }, "eu-west-1");
  await page.goto(`${server.console}/topics`);
  await page.getByLabel("Region").selectOption("eu-west-1");
  await page.waitForURL(/region=eu-west-1/);
  await rowOf(page, "distant").getByRole("link").click();
  await page.waitForURL(pathOf("distant", "eu-west-1"));
  await page.getByText("No subscriptions:").waitFor();
  assert.match(await page.locator("details.cli code").first().textContent(), /--region eu-west-1/);
}));

test("a queue is subscribed with its settings, and its deliveries and failures are counted", onPage(async (page) => {
  const url = await createQueue("target");
  await createQueue("lost");
  await createQueue("target.fifo", { FifoQueue: "true" });
  await sns("CreateTopic", { Name: "news" });
  await page.goto(pathOf("news"));
  await page.getByRole("button", { name: "Subscribe", exact: true }).click();
  const dialog = page.getByRole("dialog");
  const queue = dialog.getByLabel("Queue", { exact: true });
  await queue.locator("option", { hasText: "target" }).waitFor({ state: "attached" });
  assert.equal(await queue.locator("option", { hasText: "target.fifo" }).count(), 0);
  await dialog.getByRole("button", { name: "Subscribe" }).click();
  await hasText(dialog.locator(".error").filter({ visible: true }), "Choose a queue.");
  await queue.selectOption("target");
  await dialog.getByLabel("Raw delivery").check();
  await dialog.getByLabel("Dead-letter queue").selectOption("lost");
  const command = await dialog.locator("details.cli code").textContent();
  assert.match(command, /^aws sns subscribe[^]*"Protocol": "sqs"[^]*"Endpoint": "arn:aws:sqs:us-east-1:000000000000:target"[^]*"RawMessageDelivery": "true"/);
  await dialog.getByRole("button", { name: "Subscribe" }).click();
  const row = rowOf(page, "target");
  await hasText(cell(row, "State"), "Confirmed");
  await hasText(cell(row, "Protocol"), "sqs");
  await hasText(cell(row, "Delivery"), "Raw");
  await hasText(cell(row, "Dead-letter queue"), "lost");
  await hasText(page.locator(".figures dd").first(), "1");

  const publish = async (text) => {
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.getByRole("button", { name: "Publish" }).click();
  };
  await publish("one");
  await hasText(cell(row, "Delivered"), "1");
  assert.equal((await received("target")).Body, "one");
  await page.getByRole("button", { name: /^Edit/ }).click();
  await dialog.getByLabel("Raw delivery").uncheck();
  await dialog.getByRole("button", { name: "Save" }).click();
  await hasText(cell(row, "Delivery"), "Envelope");
  await sqs.send(new DeleteQueueCommand({ QueueUrl: url }));
  await publish("two");
  await hasText(cell(row, "Failed"), "1");
  await hasText(cell(row, "Delivered"), "1");
  assert.equal(JSON.parse((await received("lost")).Body).Message, "two");

  await page.getByRole("button", { name: "Unsubscribe target" }).click();
  await dialog.getByRole("button", { name: "Unsubscribe" }).click();
  await page.getByText("No subscriptions:").waitFor();
  assert.doesNotMatch(await sns("ListSubscriptionsByTopic", { TopicArn: topicArn("news") }), /<member>/);
}));

test("deliveries and failures of an HTTP endpoint are counted, and those of a day shown", onPage(async (page) => {
  const bodies = [];
  const receiver = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => { text += part; });
    request.on("end", () => {
      bodies.push(JSON.parse(text));
      response.writeHead(bodies.at(-1).Message === "refused" ? 404 : 200).end();
    });
  });
  await new Promise((resolve) => { receiver.listen(0, "127.0.0.1", resolve); });
  try {
    await sns("CreateTopic", { Name: "posted" });
    const endpoint = `http://127.0.0.1:${receiver.address().port}/`;
    await sns("Subscribe", { TopicArn: topicArn("posted"), Protocol: "http", Endpoint: endpoint });
    await until(() => bodies.length === 1);
    await sns("ConfirmSubscription", { TopicArn: topicArn("posted"), Token: bodies[0].Token });
    for (const Message of ["one", "two", "refused"]) await sns("Publish", { TopicArn: topicArn("posted"), Message });

    const row = page.locator("tbody tr", { hasText: endpoint });
    await until(async () => {
      await page.goto(pathOf("posted"));
      const counts = [await cell(row, "Delivered").innerText(), await cell(row, "Failed").innerText()];
      return counts.join() === "2,1";
    });
    const figure = (title) => page.locator(".figures div", { has: page.getByText(title, { exact: true }) }).locator("dd");
    for (const [title, number] of [["Published, 24 h", "3"], ["Delivered, 24 h", "2"], ["Failed, 24 h", "1"]]) await hasText(figure(title), number);
  } finally {
    receiver.closeAllConnections();
    receiver.close();
  }
}));

test("a filter policy is tried on a message while it is written", onPage(async (page) => {
  const subscription = await subscribed("tried", { FilterPolicy: '{"colour":["red"]}' });
  await page.goto(pathOf("tried"));
  await hasText(cell(rowOf(page, "tried"), "Filter"), '{"colour":["red"]}');
  await page.getByRole("button", { name: /^Edit/ }).click();
  const dialog = page.getByRole("dialog");
  const outcome = dialog.locator(".trial [role=status]");
  await hasText(outcome, /^This message does not match/);
  await dialog.getByRole("button", { name: "Add attribute" }).click();
  await dialog.getByLabel("Attribute name").fill("colour");
  await dialog.getByLabel("Attribute value").fill("red");
  await hasText(outcome, "This message matches.");

  const policy = dialog.getByLabel("Filter policy");
  await policy.fill('{"colour":["red"');
  await hasText(dialog.locator(".field .error").filter({ visible: true }), /failed to parse JSON/);
  await policy.fill('{"a":{"b":[{"prefix":"x"}]}}');
  await hasText(dialog.locator(".field .error").filter({ visible: true }), "Filter policy scope MessageAttributes does not support nested filter policy");
  await dialog.getByRole("button", { name: "Save" }).click();
  assert.equal(await policy.getAttribute("aria-invalid"), "true");
  await dialog.getByLabel("It looks at the").selectOption("Message");
  await hasText(outcome, "This message matches no policy: it is not a JSON object.");
  assert.equal(await policy.getAttribute("aria-invalid"), null);
  await dialog.getByLabel("Message to try").fill('{"a":{"b":"xyz"}}');
  await hasText(outcome, "This message matches.");
  const commands = await dialog.locator("details.cli code").textContent();
  assert.match(commands, /set-subscription-attributes[^]*FilterPolicyScope[^]*MessageBody[^]*set-subscription-attributes[^]*"FilterPolicy"/);
  await dialog.getByRole("button", { name: "Save" }).click();
  await hasText(cell(rowOf(page, "tried"), "Filter"), /prefix[^]*on the message/);
  const stored = await attributesOf(subscription);
  assert.deepEqual([stored.FilterPolicy, stored.FilterPolicyScope], ['{"a":{"b":[{"prefix":"x"}]}}', "MessageBody"]);
  for (const message of ['{"a":{"b":"abc"}}', '{"a":{"b":"xyz"}}']) {
    await page.getByLabel("Message", { exact: true }).fill(message);
    await page.getByRole("button", { name: "Publish" }).click();
    await page.getByText(/^Message .* is published\.$/).waitFor();
  }
  assert.match((await received("tried")).Body, /xyz/);
  await hasText(cell(rowOf(page, "tried"), "Delivered"), "1");

  await page.getByRole("button", { name: /^Edit/ }).click();
  await policy.fill("");
  await hasText(outcome, "Without a policy all messages match.");
  await dialog.getByRole("button", { name: "Save" }).click();
  await hasText(cell(rowOf(page, "tried"), "Filter"), "");
  assert.equal((await attributesOf(subscription)).FilterPolicy, undefined);
}));

test("an address stays pending until it confirms", onPage(async (page) => {
  await sns("CreateTopic", { Name: "asked" });
  await page.goto(pathOf("asked"));
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Subscribe", exact: true }).click();
  await dialog.getByLabel("What").selectOption("URL");
  await dialog.getByLabel("URL", { exact: true }).fill("ftp://receiver.example/in");
  await dialog.getByRole("button", { name: "Subscribe" }).click();
  await hasText(dialog.locator(".error").filter({ visible: true }), /^It begins with http/);
  await dialog.getByLabel("URL", { exact: true }).fill("https://receiver.invalid/in");
  assert.match(await dialog.locator("details.cli code").textContent(), /"Protocol": "https"/);
  await dialog.getByRole("button", { name: "Subscribe" }).click();
  const address = rowOf(page, "https://receiver.invalid/in");
  await hasText(cell(address, "State"), "Pending");
  assert.equal(await address.getByRole("button").count(), 0);
  await hasText(page.locator(".figures dd").nth(1), "1");
}));

test("a token confirms another account's queue, and links do not end it then", async () => {
  const directory = mkdtempSync(join(tmpdir(), "millrace-topics-"));
  const keys = [["AKIDOPS", ACCOUNT], ["AKIDOTHER", "111111111111"]].map(([key, account]) => `[[credentials]]\naccess_key = "${key}"\nsecret_key = "long-secret"\naccount = "${account}"\n`);
  writeFileSync(join(directory, "millrace.toml"), keys.join(""));
  const guarded = await Server.start({ MILLRACE_CONFIG: join(directory, "millrace.toml") });
  const credentials = { accessKeyId: "AKIDOTHER", secretAccessKey: "long-secret" };
  const other = new SQSClient({ endpoint: guarded.endpoint, region: "us-east-1", credentials, maxAttempts: 1 });
  const Policy = JSON.stringify({ Statement: { Effect: "Allow", Principal: { Service: "sns.amazonaws.com" }, Action: "sqs:SendMessage", Resource: "*" } });
  await other.send(new CreateQueueCommand({ QueueName: "foreign", Attributes: { Policy } }));
  const { page, problems } = await openPage(browser);
  await page.goto(`${guarded.console}/topics`);
  await page.getByLabel("Access key").fill("AKIDOPS");
  await page.getByLabel("Secret key").fill("long-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Create topic" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("guarded");
  await dialog.getByRole("button", { name: "Create topic" }).click();
  await page.getByRole("button", { name: "Subscribe", exact: true }).click();
  await dialog.getByLabel("Queue", { exact: true }).selectOption("Another queue…");
  await dialog.getByLabel("Name or ARN").filter({ visible: true }).fill("arn:aws:sqs:us-east-1:111111111111:foreign");
  await dialog.getByRole("button", { name: "Subscribe" }).click();
  const row = page.locator("tbody tr", { hasText: "111111111111" });
  await hasText(cell(row, "State"), "Pending");

  const { Token } = JSON.parse((await received("foreign", other)).Body);
  await page.getByRole("button", { name: "Confirm…" }).click();
  await dialog.getByLabel("Token").fill("nonsense");
  await dialog.getByRole("button", { name: "Confirm" }).click();
  await hasText(dialog.locator(".error").filter({ visible: true }), /Token/);
  await dialog.getByLabel("Token").fill(`https://sns.example/?Action=ConfirmSubscription&Token=${Token}`);
  await dialog.getByLabel("Links in messages do not end it").check();
  assert.match(await dialog.locator("details.cli code").textContent(), new RegExp(`"Token": "${Token}"`));
  await dialog.getByRole("button", { name: "Confirm" }).click();
  await hasText(cell(row, "State"), "Confirmed");
  await hasText(page.locator(".figures dd").first(), "1");

  await page.getByRole("button", { name: /^Unsubscribe/ }).click();
  const command = await dialog.locator("details.cli code").textContent();
  const link = new URLSearchParams({ Action: "Unsubscribe", SubscriptionArn: /arn:aws:sns:[^"]*/.exec(command)[0] });
  assert.equal((await fetch(`${guarded.endpoint}/?${link}`)).status, 403);
  await dialog.getByRole("button", { name: "Unsubscribe" }).click();
  await page.getByText("No subscriptions:").waitFor();
  assert.deepEqual(problems.filter((text) => !/40[01] \(/.test(text)), []);
  await page.context().close();
  await guarded.close();
  rmSync(directory, { recursive: true });
});

test("a message is published with subject, attributes and a text for each protocol", onPage(async (page) => {
  await subscribed("loud");
  await page.goto(pathOf("loud"));
  await page.getByLabel("Message", { exact: true }).fill("for all");
  await page.getByLabel("Subject").fill("é at first");
  await page.getByRole("button", { name: "Publish" }).click();
  await hasText(page.locator(".field", { has: page.getByLabel("Subject") }).locator(".error"), /Subject/);
  await page.getByLabel("Subject").fill("News");
  await page.getByRole("button", { name: "Add attribute" }).click();
  await page.getByLabel("Attribute name").fill("price");
  await page.getByLabel("Attribute type").selectOption("Number");
  await page.getByLabel("Attribute value").fill("12.5");
  await page.getByLabel("A text for each protocol").check();
  assert.equal(await page.getByLabel("Default").inputValue(), "for all");
  await page.getByLabel("Queues (sqs)").fill("for queues");
  assert.match(await page.locator("details.cli code").first().textContent(), /^aws sns publish[^]*"MessageStructure": "json"/);
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText(/^Message [-0-9a-f]{36} is published\.$/).waitFor();
  const body = JSON.parse((await received("loud")).Body);
  assert.deepEqual([body.Message, body.Subject, body.MessageAttributes], ["for queues", "News", { price: { Type: "Number", Value: "12.5" } }]);
}, { expected: /400/ }));

test("a FIFO topic takes queues, and messages with a group", onPage(async (page) => {
  await createQueue("ordered.fifo", { FifoQueue: "true" });
  await page.goto(`${server.console}/topics`);
  await page.getByRole("button", { name: "Create topic" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("ordered");
  await dialog.getByLabel("Type").selectOption("FIFO");
  await dialog.getByRole("button", { name: "Create topic" }).click();
  await page.waitForURL(pathOf("ordered.fifo"));
  await page.getByRole("button", { name: "Subscribe", exact: true }).click();
  assert.equal(await dialog.getByLabel("What").locator("option").count(), 1);
  await dialog.getByLabel("Queue", { exact: true }).selectOption("ordered.fifo");
  await dialog.getByRole("button", { name: "Subscribe" }).click();
  await hasText(cell(rowOf(page, "ordered.fifo"), "State"), "Confirmed");

  await page.getByLabel("Message", { exact: true }).fill("first");
  await page.getByRole("button", { name: "Publish" }).click();
  await hasText(page.locator(".field", { has: page.getByLabel("Message group") }).locator(".error"), "A FIFO topic needs a message group.");
  await page.getByLabel("Message group").fill("g");
  await page.getByLabel("Deduplication id").fill("d");
  await page.getByRole("button", { name: "Publish" }).click();
  const { Attributes: attributes, Body: body } = await received("ordered.fifo");
  assert.deepEqual([attributes.MessageGroupId, attributes.MessageDeduplicationId, JSON.parse(body).Message], ["g", "d", "first"]);
}));

test("an attribute is set, and refused at its field", onPage(async (page) => {
  await sns("CreateTopic", { Name: "set" });
  await page.goto(pathOf("set"));
  await page.getByRole("button", { name: "Set attribute" }).click();
  const dialog = page.getByRole("dialog");
  const set = dialog.getByRole("button", { name: "Set attribute" });
  assert.equal(await set.isDisabled(), true);
  await dialog.getByLabel("Attribute").selectOption("SignatureVersion");
  await dialog.getByLabel("Value").fill("3");
  await set.click();
  await hasText(dialog.locator(".error").filter({ visible: true }), /SignatureVersion/);
  await dialog.getByLabel("Value").fill("2");
  assert.match(await dialog.locator("details.cli code").textContent(), /^aws sns set-topic-attributes[^]*"AttributeValue": "2"/);
  await set.click();
  await hasText(page.locator("tbody tr", { hasText: "SignatureVersion" }).locator("td"), "2");
}, { expected: /400/ }));

test("topics and subscriptions fit a phone, each row a stack", onPage(async (page) => {
  await subscribed("phone", { FilterPolicy: `{"${"k".repeat(100)}":["${"v".repeat(200)}"]}` });
  for (const path of [`${server.console}/topics`, pathOf("phone")]) {
    await page.goto(path);
    const row = rowOf(page, "phone");
    await row.waitFor();
    assert.equal(await row.evaluate((row) => getComputedStyle(row).display), "grid");
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 375, path);
  }
  await page.getByRole("button", { name: /^Edit/ }).click();
  const { left, right } = await page.getByRole("dialog").getByLabel("Filter policy").evaluate((control) => control.getBoundingClientRect().toJSON());
  assert.ok(left >= 0 && right <= 375);
}, { viewport: { width: 375, height: 740 } }));
