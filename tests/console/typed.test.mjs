// What people have typed, when the session or the queue ends under it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DeleteQueueCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import { browser, createQueue, onPage, pathOf, sqs } from "./fixture.mjs";
import { Server, openPage } from "./server.mjs";
import { hasText } from "./waiting.mjs";

const KEYS = { MILLRACE_ACCESS_KEY: "AKIDOPS", MILLRACE_SECRET_KEY: "long-secret" };

async function logIn(place, secret = "long-secret") {
  await place.getByLabel("Access key").fill("AKIDOPS");
  await place.getByLabel("Secret key").fill(secret);
  await place.getByRole("button", { name: "Log in" }).click();
}

test("a session that ends asks for a login over what was typed, and the page goes on", async () => {
  const guarded = await Server.start(KEYS);
  const { page, problems } = await openPage(browser);
  await page.goto(`${guarded.console}/queues`);
  await logIn(page);
  await page.getByRole("button", { name: "Create queue" }).first().click();
  await page.getByRole("textbox", { name: "Name", exact: true }).fill("precious");
  const other = await page.context().newPage();
  await other.goto(`${guarded.console}/`);
  await other.getByRole("button", { name: "Log out" }).click();
  await other.waitForURL(/login/);

  const login = page.getByRole("dialog", { name: "The session has ended" });
  await login.getByText("What you typed is kept.").waitFor();
  await page.keyboard.press("Escape");
  await logIn(login, "guess");
  await hasText(login.getByRole("alert"), /do not fit together/);
  await logIn(login);
  await login.waitFor({ state: "detached" });
  assert.equal(await page.getByRole("textbox", { name: "Name", exact: true }).inputValue(), "precious");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "precious" }).waitFor();
  await hasText(page.locator("#live"), "Live");

  // With nothing typed any more, the page goes to the login.
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL(/login/);
  assert.deepEqual(problems.filter((text) => !/40[13] \(/.test(text)), []);
  await page.context().close();
  await guarded.close();
});

test("a queue that is deleted takes no typed text along", onPage(async (page) => {
  const QueueUrl = await createQueue("leaving");
  await page.goto(pathOf("leaving", "send"));
  await hasText(page.locator("#live"), "Live");
  await page.getByLabel("Body", { exact: true }).fill("precious");
  await sqs.send(new DeleteQueueCommand({ QueueUrl }));
  const alert = page.getByRole("alert");
  await hasText(alert, /^The queue was deleted. What you typed is still here./);
  assert.equal(await page.getByLabel("Body", { exact: true }).inputValue(), "precious");

  await createQueue("leaving");
  await hasText(alert, /^The queue was deleted and created again. What you typed is still here./);
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("is in the queue.").waitFor();
  const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
  assert.equal(Messages[0].Body, "precious");
  await alert.getByRole("link", { name: "Load the page again" }).click();
  await hasText(page.locator("#live"), "Live");
  assert.equal(await page.getByLabel("Body", { exact: true }).inputValue(), "");
}));
