// Waiting for what a page or the server comes to, without a fixed time.

import assert from "node:assert/strict";

/** Waits until something holds. */
export async function until(holds) {
  const deadline = Date.now() + 20_000;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `${holds} does not come to hold`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

/** Waits until a locator's text fits. */
export async function hasText(locator, expected) {
  const deadline = Date.now() + 20_000;
  let text;
  while (Date.now() < deadline) {
    text = await locator.innerText();
    if (expected instanceof RegExp ? expected.test(text) : text.trim() === expected) return;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assert.fail(`${JSON.stringify(text)} is not ${expected}`);
}
