// Alarms and metrics in the console.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CreateQueueCommand } from "@aws-sdk/client-sqs";
import { clientOf, cloudwatch, createQueue, onPage, putAlarm, server } from "./fixture.mjs";
import { hasText } from "./waiting.mjs";

test("an alarm is set, shown and deleted", onPage(async (page) => {
  await createQueue("watched");
  await page.goto(`${server.console}/alarms`);
  await page.getByRole("button", { name: "Create alarm" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("watched-backlog");
  await dialog.getByLabel("Queue", { exact: true }).selectOption("watched");
  await dialog.getByRole("button", { name: "Create alarm" }).click();
  await page.getByRole("button", { name: "watched-backlog", exact: true }).click();
  await page.getByRole("heading", { name: "History of watched-backlog" }).waitFor();
  await page.getByRole("button", { name: "Delete watched-backlog" }).click();
  await dialog.getByRole("textbox").fill("watched-backlog");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "watched-backlog", exact: true }).waitFor({ state: "detached" });
}));

test("an alarm's threshold is shown with all its digits", onPage(async (page) => {
  await createQueue("exact");
  await putAlarm("exact-small", "exact", { Threshold: 0.004 });
  await putAlarm("exact-large", "exact", { Threshold: 12345 });
  await page.goto(`${server.console}/alarms`);
  await hasText(page.locator("tbody tr", { hasText: "exact-small" }).locator("td").nth(1), / > 0\.004 for /);
  await hasText(page.locator("tbody tr", { hasText: "exact-large" }).locator("td").nth(1), / > 12345 for /);
  await cloudwatch("DeleteAlarms", { AlarmNames: ["exact-small", "exact-large"] });
}));

test("an alarm whose name has spaces around it is edited and deleted", onPage(async (page) => {
  await createQueue("spaced");
  await putAlarm(" spaced  out ", "spaced");
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
}));

test("alarms and series of another region are shown, changed and charted", onPage(async (page) => {
  const far = clientOf("eu-west-1");
  await far.send(new CreateQueueCommand({ QueueName: "far" }));
  await putAlarm("far-backlog", "far", {}, "eu-west-1");
  await cloudwatch("PutMetricData", { Namespace: "Shop", MetricData: [{ MetricName: "FarOrders", Value: 7 }] }, "eu-west-1");
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
  await dialog.getByLabel("Region").selectOption("eu-west-1");
  await dialog.getByLabel("Queue", { exact: true }).selectOption("far");
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
}));

test("editing an alarm that another client has put changes only what is edited", onPage(async (page) => {
  await createQueue("edited");
  const changes = { Period: 600, MetricName: "NumberOfDeduplicatedSentMessages" };
  await putAlarm("edited-often", "edited", changes);
  await page.goto(`${server.console}/alarms`);
  await page.getByRole("button", { name: "Edit edited-often" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Threshold").fill("7");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  const { MetricAlarms: [{ Threshold, Period, MetricName }] } = await cloudwatch("DescribeAlarms", { AlarmNames: ["edited-often"] });
  assert.deepEqual({ Threshold, Period, MetricName }, { Threshold: 7, ...changes });
  await cloudwatch("DeleteAlarms", { AlarmNames: ["edited-often"] });
}));
