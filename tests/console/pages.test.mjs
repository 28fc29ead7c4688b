// What holds for every page of the console: accessibility, widths, what can be copied, addresses, the content policy.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { CreateQueueCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { ACCOUNT, arn, browser, clientOf, createQueue, onPage, pathOf, putAlarm, server, simpledb, sns, sqs } from "./fixture.mjs";
import { CONSOLE_HOST, openPage } from "./server.mjs";
import { hasText } from "./waiting.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

test("every page is accessible and sound, in both themes and narrow", async () => {
  const QueueUrl = await createQueue("shown");
  const Attributes = { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn("shown"), maxReceiveCount: 3 }) };
  await createQueue("shown-source", Attributes);
  const MessageAttributes = { colour: { DataType: "String", StringValue: "blue" } };
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: '{"order":1}', MessageAttributes }));
  await putAlarm("shown-backlog", "shown");
  await simpledb("CreateDomain", { DomainName: "shown" });
  await simpledb("PutAttributes", { DomainName: "shown", ItemName: "i", "Attribute.1.Name": "a", "Attribute.1.Value": "v" });
  await sns("CreateTopic", { Name: "shown" });
  await sns("Subscribe", { TopicArn: `arn:aws:sns:us-east-1:${ACCOUNT}:shown`, Protocol: "sqs", Endpoint: arn("shown"), "Attributes.entry.1.key": "FilterPolicy", "Attributes.entry.1.value": '{"colour":["red"]}' });
  const iron = (name, queue) => fetch(`${server.endpoint}/3/projects/${ACCOUNT}/queues/${name}`, { method: "PUT", headers: { Authorization: "OAuth any" }, body: JSON.stringify({ queue }) });
  await iron("pushed", { type: "multicast", push: { subscribers: [{ name: "s", url: `https://receiver.invalid/${"x".repeat(200)}` }, { name: "t", url: "ironmq:///shown" }] } });
  await iron("watched", { alerts: [{ type: "fixed", direction: "asc", trigger: 10, queue: "shown" }] });
  const paths = ["/", "/queues?filter=shown", "/topics", `/topics/us-east-1/${ACCOUNT}/shown`, "/domains", `/domains/us-east-1/${ACCOUNT}/shown`, "/metrics", "/alarms", "/server", "/login"].map((path) => server.console + path);
  const tabs = ["", "browse", "poll", "send", "dead-letters", "configuration", "tags"].map((tab) => pathOf("shown", tab));
  const waiting = [...paths, ...tabs, pathOf("pushed"), pathOf("watched")];
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
    if (address.endsWith(`/domains/us-east-1/${ACCOUNT}/shown`)) await page.getByRole("button", { name: "Edit i" }).click();
    if (address.endsWith(`/topics/us-east-1/${ACCOUNT}/shown`)) {
      await page.getByRole("button", { name: /^Edit/ }).click();
      await page.getByText(/^This message does not match/).waitFor();
    }
    if (/(pushed|watched)$/.test(address)) await page.getByRole("heading", { name: "IronMQ" }).waitFor();
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

test("a narrow window shows the tab that is current", onPage(async (page) => {
  await createQueue("narrow");
  for (const tab of ["", "dead-letters", "configuration", "tags"]) {
    await page.goto(pathOf("narrow", tab));
    await page.locator("#root > *:not(noscript)").first().waitFor();
    const { left, right, top } = await page.locator(".tabs [aria-current]").evaluate((link) => link.getBoundingClientRect().toJSON());
    assert.ok(left >= 0 && right <= 360 && top >= 0, `${tab}: ${left} to ${right}`);
    assert.equal(await page.evaluate(() => scrollY), 0);
  }
}, { viewport: { width: 360, height: 740 } }));

test("the commands that are shown work in another region", onPage(async (page) => {
  const far = clientOf("eu-west-1");
  const { QueueUrl } = await far.send(new CreateQueueCommand({ QueueName: "far-letters" }));
  await far.send(new SendMessageCommand({ QueueUrl, MessageBody: "from afar" }));
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
}));

test("texts are copied over plain HTTP too", onPage(async (page) => {
  await createQueue("plain");
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
}, { expected: /Cross-Origin-Opener-Policy/ }));

test("an address without a page leads on", onPage(async (page) => {
  const answer = await page.goto(`${server.console}/nonsense`);
  assert.equal(answer.status(), 404);
  await hasText(page.locator("h1"), "There is no such page");
  await page.getByRole("link", { name: "All queues" }).waitFor();
  await page.getByRole("link", { name: "Alarms" }).click();
  await hasText(page.locator("h1"), "Alarms");
}, { expected: /404/ }));

test("the content policy is obeyed by every page", onPage(async (page) => {
  await page.addInitScript(() => {
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  for (const path of ["/", "/queues", "/topics", "/domains", "/metrics", "/alarms", "/server", "/login"]) {
    await page.goto(server.console + path);
    await page.locator("#root > *:not(noscript)").first().waitFor();
    assert.deepEqual(await page.evaluate(() => window.violations), [], path);
  }
}));
