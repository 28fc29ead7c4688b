// Domains of SimpleDB in the console.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ACCOUNT, onPage, server, simpledb } from "./fixture.mjs";
import { hasText } from "./waiting.mjs";

/** Puts an item; pairs are `[name, value]`. */
async function put(DomainName, ItemName, ...pairs) {
  const attributes = pairs.flatMap(([name, value], index) => [[`Attribute.${index + 1}.Name`, name], [`Attribute.${index + 1}.Value`, value]]);
  await simpledb("PutAttributes", { DomainName, ItemName, ...Object.fromEntries(attributes) });
}

/** The attributes of an item, in order: `name=value`. */
async function attributes(DomainName, ItemName) {
  const answer = await simpledb("GetAttributes", { DomainName, ItemName });
  return [...answer.matchAll(/<Name>(.*?)<\/Name><Value>(.*?)<\/Value>/g)].map(([, name, value]) => `${name}=${value}`).sort();
}

const pathOf = (name, region = "us-east-1") => `${server.console}/domains/${region}/${ACCOUNT}/${name}`;
const rowOf = (page, name) => page.locator("tbody tr", { has: page.locator(".name", { hasText: new RegExp(`^${name}$`) }) });

test("a domain is created, listed with its figures, and deleted", onPage(async (page) => {
  await page.goto(server.console);
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Domains" }).click();
  await page.getByRole("button", { name: "Create domain" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("a b");
  await dialog.getByRole("button", { name: "Create domain" }).click();
  await hasText(dialog.locator(".error"), /3 or more letters/);
  await dialog.getByLabel("Name").fill("fresh");
  assert.match(await dialog.locator("details.cli code").textContent(), /^aws sdb create-domain \\\n  --cli-input-json '\{"DomainName":"fresh"\}'/);
  await dialog.getByRole("button", { name: "Create domain" }).click();
  await page.waitForURL(pathOf("fresh"));

  await put("fresh", "one", ["colour", "red"], ["colour", "blue"]);
  await page.goto(`${server.console}/domains`);
  await hasText(rowOf(page, "fresh").locator("td").nth(0), "1");
  await hasText(rowOf(page, "fresh").locator("td").nth(1), "2");
  await hasText(rowOf(page, "fresh").locator("td").nth(2), "16 B");
  await page.getByRole("button", { name: "Delete fresh" }).click();
  assert.equal(await dialog.getByRole("button", { name: "Delete" }).isDisabled(), true);
  await dialog.getByRole("textbox").fill("fresh");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await rowOf(page, "fresh").waitFor({ state: "detached" });
  assert.doesNotMatch(await simpledb("ListDomains", {}), /fresh/);
  await page.goto(pathOf("fresh"));
  await page.getByRole("heading", { name: "There is no such domain" }).waitFor();
}, { expected: /400/ }));

test("domains of another region are offered, listed and opened", onPage(async (page) => {
  await simpledb("CreateDomain", { DomainName: "distant" }, "eu-west-1");
  await page.goto(`${server.console}/domains`);
  await page.getByLabel("Region").selectOption("eu-west-1");
  await page.waitForURL(/region=eu-west-1/);
  await rowOf(page, "distant").getByRole("link").click();
  await page.waitForURL(pathOf("distant", "eu-west-1"));
  await page.getByText("No items.").waitFor();
  assert.match(await page.locator("details.cli code").textContent(), /--region eu-west-1/);
}));

test("a query is run page by page, and what is wrong with it is said at its field", onPage(async (page) => {
  await simpledb("CreateDomain", { DomainName: "cars" });
  for (const name of ["a", "b", "c"]) await put("cars", name, ["year", "2001"], ["note", "<b>&"]);
  await page.goto(pathOf("cars"));
  const select = page.getByLabel("Select", { exact: true });
  assert.equal(await select.inputValue(), "select * from `cars` limit 100");
  await hasText(rowOf(page, "a").locator("td").first(), /year 2001/);
  await hasText(rowOf(page, "a").locator("td").first(), /note <b>&/);
  await select.fill("select * from cars limit 2");
  assert.match(await page.locator("details.cli code").textContent(), /^aws sdb select \\\n  --cli-input-json [^]*select \* from cars limit 2/);
  await page.getByRole("button", { name: "Run" }).click();
  await rowOf(page, "c").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Next" }).click();
  await rowOf(page, "c").waitFor();
  assert.equal(await rowOf(page, "a").count(), 0);
  assert.equal(await page.getByRole("button", { name: "Next" }).isDisabled(), true);
  await page.getByRole("button", { name: "Previous" }).click();
  await rowOf(page, "a").waitFor();

  await select.fill("select * frm cars");
  await page.getByRole("button", { name: "Run" }).click();
  await hasText(page.locator(".field .error"), /^InvalidQueryExpression: The specified query expression syntax is not valid\.$/);
  assert.equal(await select.getAttribute("aria-invalid"), "true");
  await select.fill("select count(*) from cars");
  await page.getByRole("button", { name: "Run" }).click();
  await hasText(rowOf(page, "Domain").locator("td").first(), /Count 3/);
  assert.equal(await page.getByRole("button", { name: "Edit Domain" }).count(), 0);
  assert.equal(await page.locator(".field .error").isVisible(), false);
}, { expected: /400/ }));

test("an item is put, edited with what changed only, and deleted", onPage(async (page) => {
  await simpledb("CreateDomain", { DomainName: "edited" });
  await page.goto(pathOf("edited"));
  await page.getByRole("button", { name: "Put item" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Item").fill("i1");
  await dialog.getByLabel("Attribute name").fill("colour");
  await dialog.getByLabel("Value", { exact: true }).fill("red");
  await dialog.getByRole("button", { name: "Put item" }).click();
  await rowOf(page, "i1").waitFor();
  await hasText(page.locator(".figures dd").first(), "1");
  assert.deepEqual(await attributes("edited", "i1"), ["colour=red"]);

  await put("edited", "i1", ["size", "L"], ["kept", "1"], ["kept", "2"]);
  await page.getByRole("button", { name: "Edit i1" }).click();
  const rows = dialog.locator(".attribute");
  const of = async (name) => rows.nth((await rows.locator("input").evaluateAll((inputs) => inputs.map(({ value }) => value))).indexOf(name));
  assert.equal(await dialog.getByRole("button", { name: "Save" }).isDisabled(), true);
  await (await of("colour")).getByLabel("Value").fill("green\nand blue");
  await (await of("size")).getByRole("button", { name: "Remove" }).click();
  const commands = await dialog.locator("details.cli code").textContent();
  assert.match(commands, /aws sdb put-attributes[^]*green\\nand blue[^]*aws sdb delete-attributes[^]*size/);
  assert.doesNotMatch(commands, /kept/);
  // Another client is faster with what is not edited here.
  await put("edited", "i1", ["kept", "3"]);
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  const answer = await simpledb("GetAttributes", { DomainName: "edited", ItemName: "i1" });
  assert.match(answer, /<Value>green\nand blue<\/Value>/);
  assert.doesNotMatch(answer, /red|size/);
  assert.deepEqual(await attributes("edited", "i1"), ["kept=1", "kept=2", "kept=3"]);

  await page.getByRole("button", { name: "Delete i1" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No items.").waitFor();
  assert.deepEqual(await attributes("edited", "i1"), []);
}));

test("names and values that XML cannot carry are shown and kept", onPage(async (page) => {
  await simpledb("CreateDomain", { DomainName: "odd" });
  await put("odd", "\u0001é", ["x\u0002", "\ufeffa\u0003"], ["y", "plain"]);
  await page.goto(pathOf("odd"));
  await page.locator("tbody").getByRole("button", { name: /^Edit/ }).click();
  const dialog = page.getByRole("dialog");
  const values = await dialog.getByLabel("Value", { exact: true }).evaluateAll((fields) => fields.map(({ value }) => value));
  assert.deepEqual(new Set(values), new Set(["plain", "\ufeffa\u0003"]));
  await dialog.getByLabel("Value", { exact: true }).nth(values.indexOf("plain")).fill("other");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  const answer = await simpledb("GetAttributes", { DomainName: "odd", ItemName: "\u0001é" });
  assert.match(answer, /<Value encoding="base64">77u\/YQM=<\/Value>/);
}));

test("domains and items fit a phone, each row a stack", onPage(async (page) => {
  await simpledb("CreateDomain", { DomainName: "phone" });
  await put("phone", "i".repeat(200), ["a".repeat(100), "v".repeat(300)]);
  for (const path of [`${server.console}/domains`, pathOf("phone")]) {
    await page.goto(path);
    const row = page.locator("tbody tr").last();
    await row.waitFor();
    assert.equal(await row.evaluate((row) => getComputedStyle(row).display), "grid");
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 375, path);
  }
  await page.getByRole("button", { name: /^Edit/ }).click();
  const { left, right } = await page.getByRole("button", { name: "Remove" }).evaluate((button) => button.getBoundingClientRect().toJSON());
  assert.ok(left >= 0 && right <= 375);
}, { viewport: { width: 375, height: 740 } }));
