// What a page shows before anybody has waited: charts, alarms, the server, series worth seeing; and where things stand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CreateQueueCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { ACCOUNT, browser, clientOf, cloudwatch, createQueue, onPage, pathOf, putAlarm, row, server, sqs } from "./fixture.mjs";
import { openPage } from "./server.mjs";
import { hasText, until } from "./waiting.mjs";

const WIDTHS = [375, 1280, 1920];

async function send(name, count = 1) {
  const QueueUrl = await createQueue(name);
  for (let number = 0; number < count; number++) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
  return QueueUrl;
}

test("charts have a line at the first look", onPage(async (page) => {
  await send("charted", 3);
  for (const address of [server.console, pathOf("charted")]) {
    await page.goto(address);
    // A page does not wait long for the minutes before it; its stream begins with what it missed.
    await hasText(page.locator("#live"), "Live");
    // As far as a line goes from the left edge of the plot to the right one: not a dot.
    const widths = await page.locator(".chart .line.series-1").evaluateAll((lines) => lines.map((line) => line.getBBox().width));
    assert.equal(widths.length, 2, address);
    for (const width of widths) assert.ok(width > 1, `${address}: ${width}`);
  }
}));

test("the server page says how the server is", onPage(async (page) => {
  await send("served");
  await page.goto(`${server.console}/server`);
  const figure = (label) => page.locator(".figures div", { hasText: label }).locator("dd");
  await hasText(figure("Up for"), /\d+s$/);
  for (const label of ["Memory", "Disk free"]) await hasText(figure(label), /^[\d.]+ [MGT]iB$/);
  await hasText(figure("Connections"), /^\d+$/);
  const fact = (title, label) => page.getByRole("region", { name: title, exact: true }).locator("dt", { hasText: label }).locator("xpath=following-sibling::dd[1]");
  await hasText(fact("Journal", "Written since the start"), /^[\d.]+ [KM]?i?B in \d+ records?$/);
  await hasText(fact("Syncs", "Since the start"), /^\d+/);
  await hasText(fact("Errors since the start", "Journal"), "Takes changes.");
  const sends = page.locator("tbody tr", { hasText: "SendMessage" }).first();
  await hasText(sends.locator("td").first(), /^\d+$/);

  await until(async () => {
    await send("served");
    return /^[1-9]/.test(await figure("Requests/s").innerText());
  });
  await sqs.send(new SendMessageCommand({ QueueUrl: `${server.endpoint}/${ACCOUNT}/nowhere`, MessageBody: "x" })).catch(() => {});
  await hasText(fact("Errors since the start", "Refused requests"), /^[1-9]/);
}));

test("alarms in alarm are beside their page's name and on the overview", onPage(async (page) => {
  await createQueue("alarming");
  // Nothing is measured under that name: no evaluation undoes what is set by hand.
  await putAlarm("alarming-backlog", "alarming", { Namespace: "Nothing", TreatMissingData: "ignore" });
  await page.goto(server.console);
  const badge = page.locator("#in-alarm");
  await hasText(page.locator("#live"), "Live");
  assert.equal(await badge.isVisible(), false);
  await cloudwatch("SetAlarmState", { AlarmName: "alarming-backlog", StateValue: "ALARM", StateReason: "by hand" });
  await hasText(badge.locator("span").first(), "1");
  await page.locator(".notice.alarms", { hasText: "alarming-backlog" }).waitFor();
  await page.goto(`${server.console}/metrics`);
  await hasText(badge.locator("span").first(), "1");
  await cloudwatch("DeleteAlarms", { AlarmNames: ["alarming-backlog"] });
  await page.goto(server.console);
  await hasText(page.locator("#live"), "Live");
  await badge.waitFor({ state: "hidden" });
}));

test("queues have a region, by which they are filtered", onPage(async (page) => {
  await createQueue("near-one");
  await clientOf("ap-southeast-2").send(new CreateQueueCommand({ QueueName: "far-one" }));
  await page.goto(`${server.console}/queues?filter=-one`);
  await hasText(row(page, "far-one").locator("td").nth(1), "ap-southeast-2");
  await row(page, "near-one").waitFor();
  await page.getByLabel("Region").selectOption("ap-southeast-2");
  await page.waitForURL(/region=ap-southeast-2/);
  await row(page, "near-one").waitFor({ state: "detached" });
  await hasText(page.locator(".toolbar [role=status]"), /^1 of/);

  await page.getByRole("button", { name: "Create queue" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("second-one");
  await dialog.getByLabel("Region").selectOption("ap-southeast-2");
  assert.match(await dialog.locator("code").textContent(), /--region ap-southeast-2/);
  await dialog.getByRole("button", { name: "Create queue" }).click();
  await row(page, "second-one").waitFor();
}));

test("the page of metrics opens with the busiest queues", onPage(async (page) => {
  await send("a-quiet-queue");
  await send("a-busy-queue", 40);
  // Which queues lead is sampled; until then the page shows those that led before.
  await until(async () => {
    await page.goto(`${server.console}/metrics`);
    return /^NumberOfMessagesSent a-busy-queue/.test(await page.locator(".legend li").first().innerText());
  });
  assert.doesNotMatch(await page.locator(".chart").innerText(), /No data/);
}));

test("everything begins at one left edge, and nothing is out of sight on a phone", async () => {
  const QueueUrl = await createQueue("edges");
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: '{"order":1}' }));
  const tabs = ["", "browse", "poll", "send", "dead-letters", "configuration", "tags"].map((tab) => pathOf("edges", tab));
  const addresses = [...["/", "/queues", "/topics", "/domains", "/metrics", "/alarms", "/server"].map((path) => server.console + path), ...tabs];
  for (const width of WIDTHS) {
    const { page, problems } = await openPage(browser, { viewport: { width, height: 800 } });
    const tops = new Set();
    for (const address of addresses) {
      await page.goto(address);
      await page.locator("#root > *:not(noscript)").first().waitFor();
      const found = await page.evaluate(() => {
        const left = (selector) => document.querySelector(selector).getBoundingClientRect().left;
        const hidden = [...document.querySelectorAll("td, tbody th, nav a")].filter((element) => element.checkVisibility() && (element.getBoundingClientRect().right > innerWidth + 1 || element.getBoundingClientRect().left < -1));
        const scrolled = [...document.querySelectorAll(".table-frame, nav")].filter((element) => element.scrollWidth > element.clientWidth + 1);
        // The first thing of each row of controls that has a size; panels and fieldsets have a padding.
        const rows = [...document.querySelectorAll("#root > .toolbar, #root > form > .toolbar")];
        const starts = rows.map((row) => [...row.children].map((child) => child.getBoundingClientRect()).find(({ width }) => width > 0)?.left);
        return {
          starts: starts.filter((start) => start !== undefined).map((start) => Math.round(start - left(".brand"))),
          lefts: [left(".brand"), left("h1"), left("#root > *"), left(".foot") + parseFloat(getComputedStyle(document.querySelector(".foot")).paddingLeft)],
          top: document.querySelector("h1").getBoundingClientRect().top,
          hidden: hidden.map((element) => element.outerHTML.slice(0, 80)),
          scrolled: scrolled.map((element) => element.className),
        };
      });
      assert.deepEqual(found.lefts.map((left) => Math.round(left - found.lefts[0])), [0, 0, 0, 0], `${address} at ${width}`);
      if (width === 375) {
        assert.deepEqual([found.hidden, found.scrolled], [[], []], address);
        // In wider windows some of them are at the right edge.
        assert.deepEqual(found.starts.filter((start) => start !== 0), [], address);
      }
      // Pages of queues have a line above their name.
      if (!tabs.includes(address)) tops.add(found.top);
    }
    assert.equal(tops.size, 1, `${[...tops]} at ${width}`);
    assert.deepEqual(problems, []);
    await page.context().close();
  }
});

test("on a phone each cell of a queue says what it is", onPage(async (page) => {
  await send("stacked", 2);
  await page.goto(`${server.console}/queues?filter=stacked`);
  await hasText(row(page, "stacked").locator("td.number").first(), "2");
  const cells = await row(page, "stacked").locator("td").evaluateAll((all) => all.filter((cell) => cell.checkVisibility() && !cell.matches(".check")).map((cell) => [getComputedStyle(cell, "::before").content, cell.textContent]));
  const labels = cells.map(([label]) => label.replaceAll('"', "").trim());
  assert.deepEqual(labels, ["Region", "Available", "In flight", "Delayed", "Oldest", "Sent/s", "Deleted/s", "Created"]);
  // What sorts is still there.
  await page.getByRole("columnheader", { name: "Name" }).getByRole("link").click();
  await page.waitForURL(/sort=name/);
}, { viewport: { width: 375, height: 740 } }));
