// The console of a server with access keys.

import assert from "node:assert/strict";
import { test } from "node:test";
import { browser } from "./fixture.mjs";
import { Server, openPage } from "./server.mjs";
import { hasText } from "./waiting.mjs";

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

test("pages of another account's domains do not show or change those of one's own", async () => {
  const guarded = await Server.start({ MILLRACE_ACCESS_KEY: "AKIDOPS", MILLRACE_SECRET_KEY: "long-secret" });
  const { page, problems } = await openPage(browser);
  await page.goto(`${guarded.console}/domains`);
  await page.getByLabel("Access key").fill("AKIDOPS");
  await page.getByLabel("Secret key").fill("long-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: "Create domain" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("mine");
  await page.getByRole("dialog").getByRole("button", { name: "Create domain" }).click();
  await page.getByText("No items.").waitFor();
  for (const path of ["/domains/us-east-1/111122223333/mine", "/domains?region=us-east-1&account=111122223333"]) {
    await page.goto(`${guarded.console}${path}`);
    await hasText(page.getByRole("alert"), /Your access key is of account 000000000000/);
    assert.equal(await page.locator("tbody tr").count(), 0);
  }
  assert.deepEqual(problems.filter((text) => !/40[13] \(/.test(text)), []);
  await page.context().close();
  await guarded.close();
});

test("pages of another account's topics do not show or change those of one's own", async () => {
  const guarded = await Server.start({ MILLRACE_ACCESS_KEY: "AKIDOPS", MILLRACE_SECRET_KEY: "long-secret" });
  const { page, problems } = await openPage(browser);
  await page.goto(`${guarded.console}/topics`);
  await page.getByLabel("Access key").fill("AKIDOPS");
  await page.getByLabel("Secret key").fill("long-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: "Create topic" }).click();
  await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("mine");
  await page.getByRole("dialog").getByRole("button", { name: "Create topic" }).click();
  await page.getByText("No subscriptions:").waitFor();
  for (const path of ["/topics/us-east-1/111122223333/mine", "/topics?region=us-east-1&account=111122223333"]) {
    await page.goto(`${guarded.console}${path}`);
    await hasText(page.getByRole("alert"), /Your access key is of account 000000000000/);
    assert.equal(await page.locator("tbody tr").count(), 0);
  }
  assert.deepEqual(problems.filter((text) => !/40[13] \(/.test(text)), []);
  await page.context().close();
  await guarded.close();
});

test("a login that fails says so and can be made again", async () => {
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
  assert.deepEqual(problems.filter((text) => !/ERR_FAILED|40[14] \(/.test(text)), []);
  await page.context().close();
  await guarded.close();
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
