// What people take along from a page: times, and tables for spreadsheets.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { browser, createQueue, onPage, pathOf, server } from "./fixture.mjs";
import { openPage } from "./server.mjs";
import { hasText } from "./waiting.mjs";

test("a time says in which zone it is", async () => {
  await createQueue("timed");
  for (const [timezoneId, zone] of [["UTC", "UTC"], ["Asia/Kolkata", "UTC+5:30"], ["America/Phoenix", "UTC-7"]]) {
    const { page, problems } = await openPage(browser, { timezoneId });
    await page.goto(pathOf("timed"));
    const created = page.locator("dt", { hasText: "Created" }).locator("xpath=following-sibling::dd[1]");
    await hasText(created, new RegExp(`^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d ${zone.replace("+", "\\+")}$`));
    assert.deepEqual(problems, []);
    await page.context().close();
  }
});

test("a downloaded table has no cell that a spreadsheet takes for a formula", onPage(async (page) => {
  const names = ["=1+1", "+1", "-1", "@a", 'plain "quoted"'];
  const response = await fetch(server.endpoint, {
    method: "POST",
    headers: { "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "GraniteServiceVersion20100801.PutMetricData" },
    body: JSON.stringify({ Namespace: "Cells", MetricData: names.map((MetricName) => ({ MetricName, Value: -7 })) }),
  });
  assert.equal(response.status, 200);
  const series = names.map((name) => `Cells|${encodeURIComponent(name)}`).join("~");
  await page.goto(`${server.console}/metrics?series=${encodeURIComponent(series)}`);
  await hasText(page.locator(".legend b").last(), "-7");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  const [head, row] = readFileSync(await download.path(), "utf8").split("\n");
  assert.equal(head, `time,"'=1+1 (Average)","'+1 (Average)","'-1 (Average)","'@a (Average)","plain ""quoted"" (Average)"`);
  assert.match(row, /^\d{4}-\d\d-\d\dT[\d:.]+Z,-7,-7,-7,-7,-7$/);
}));
