// Forms: what is wrong is said at the field; durations have units; queues are picked from lists.

import assert from "node:assert/strict";
import { test } from "node:test";
import { attribute, arn, createQueue, onPage, pathOf, row, server } from "./fixture.mjs";
import { hasText } from "./waiting.mjs";

/** What is said to be wrong with a field. */
const error = (place, label) => place.locator(".field", { has: place.page().getByLabel(label, { exact: true }) }).locator(".error");

test("a field says why it is wrong, and the first one is gone to", onPage(async (page) => {
  await page.goto(`${server.console}/queues`);
  await page.getByRole("button", { name: "Create queue" }).first().click();
  const dialog = page.getByRole("dialog");
  const name = dialog.getByLabel("Name", { exact: true });
  await dialog.getByLabel("Visibility timeout").fill("13");
  await dialog.locator(".field", { hasText: "Visibility timeout" }).getByLabel("Unit").selectOption("hours");
  await dialog.getByRole("button", { name: "Create queue" }).click();
  await hasText(error(dialog, "Name"), "A queue needs a name.");
  await hasText(error(dialog, "Visibility timeout"), "0 seconds to 12 hours, not 13 hours.");
  await name.and(page.locator(":focus")).waitFor();
  assert.equal(await name.getAttribute("aria-invalid"), "true");

  await name.fill("no spaces");
  await hasText(error(dialog, "Name"), /^Letters, digits/);
  await name.fill("formed");
  await error(dialog, "Name").waitFor({ state: "hidden" });
  await dialog.getByLabel("Visibility timeout").fill("2");
  await error(dialog, "Visibility timeout").waitFor({ state: "hidden" });
  await dialog.getByRole("button", { name: "Create queue" }).click();
  await row(page, "formed").waitFor();
  assert.equal(await attribute(`${server.endpoint}/000000000000/formed`, "VisibilityTimeout"), "7200");
}));

test("what the service refuses is said at the field that it names", onPage(async (page) => {
  await createQueue("refused");
  await page.goto(pathOf("refused", "tags"));
  const policy = page.getByLabel("Policy, JSON");
  await policy.fill("{");
  await page.getByRole("button", { name: "Save policy" }).click();
  await hasText(error(page.locator("main"), "Policy, JSON"), /^This is not JSON/);
  await policy.fill('{"Statement": 7}');
  await page.getByRole("button", { name: "Save policy" }).click();
  await hasText(error(page.locator("main"), "Policy, JSON"), /Policy/);
}, { expected: /400 \(Bad Request\)/ }));

test("durations are in the unit that suits, and a dead-letter queue is picked from those that fit", onPage(async (page) => {
  await createQueue("fitting-dead");
  await createQueue("fitting-dead.fifo", { FifoQueue: "true" });
  const QueueUrl = await createQueue("fitting", { VisibilityTimeout: "5400", MessageRetentionPeriod: "86400" });
  await page.goto(pathOf("fitting", "configuration"));
  const unit = (label) => page.locator(".field", { hasText: label }).getByLabel("Unit");
  assert.deepEqual([await page.getByLabel("Visibility timeout").inputValue(), await unit("Visibility timeout").inputValue()], ["90", "60"]);
  assert.deepEqual([await page.getByLabel("Retention").inputValue(), await unit("Retention").inputValue()], ["1", "86400"]);
  await page.getByLabel("Retention").fill("3");
  const dead = page.getByLabel("Dead-letter queue");
  await dead.locator("option", { hasText: "fitting-dead" }).waitFor({ state: "attached" });
  const offered = await dead.locator("option").allTextContents();
  assert.ok(!offered.includes("fitting-dead.fifo") && !offered.includes("fitting"), offered.join());
  await dead.selectOption("fitting-dead");
  await page.getByLabel("After receives").fill("3");
  assert.match(await page.locator(".cli code").first().textContent(), /"MessageRetentionPeriod": "259200"/);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  assert.equal(await attribute(QueueUrl, "MessageRetentionPeriod"), "259200");
  assert.deepEqual(JSON.parse(await attribute(QueueUrl, "RedrivePolicy")), { deadLetterTargetArn: arn("fitting-dead"), maxReceiveCount: 3 });
}));
