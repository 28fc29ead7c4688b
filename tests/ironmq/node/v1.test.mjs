// iron_mq 0.2.4, which speaks version 1.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ask, connect } from "./client.mjs";

const client = connect("iron_mq_v1");
const jobs = client.queue("jobs");
const on = (method, ...parameters) => ask(jobs, method, ...parameters);

test("a queue is made, shown and listed", async () => {
  await on("update", {});
  const info = await on("info");
  assert.equal(info.size, 0);
  const [listed, ...others] = await ask(client, "queues", { page: 0, per_page: 10 });
  assert.equal(listed.name, "jobs");
  assert.deepEqual(others, []);
});

test("a message is posted, seen, reserved, touched, released and deleted", async () => {
  const id = await on("post", "a");
  const ids = await on("post", ["b", { body: "c", timeout: 90, delay: 0, expires_in: 3600 }]);
  assert.match(id, /^\d+$/);

  assert.equal((await on("peek", {})).id, id);
  assert.deepEqual((await on("peek_n", { n: 3 })).map(({ body }) => body), ["a", "b", "c"]);
  assert.equal((await on("msg_get", id)).body, "a");
  const message = await on("get", {});
  assert.equal(message.id, id);
  assert.deepEqual(await on("msg_touch", id), { msg: "Touched" });
  assert.deepEqual(await on("msg_release", id, { delay: 0 }), { msg: "Released" });
  assert.equal((await on("get", { n: 1, timeout: 60, wait: 1 })).id, id);
  assert.deepEqual(await on("del", id), { msg: "Deleted" });

  assert.deepEqual((await on("get_n", { n: 10 })).map(({ body }) => body), ["b", "c"]);
  assert.deepEqual(await on("del_multiple", ids), { msg: "Deleted" });
  assert.equal(await on("get", {}), undefined);
  await on("post", ["d", "e"]);
  assert.equal((await on("info")).size, 2);
  assert.deepEqual(await on("clear"), { msg: "Cleared" });
  assert.equal((await on("info")).size, 0);
  assert.deepEqual(await on("del_queue"), { msg: "Deleted." });
  await assert.rejects(on("get", {}), /Queue not found/);
});

test("alerts are added, replaced and deleted", async () => {
  const alerted = client.queue("alerted");
  const on = (method, ...parameters) => ask(alerted, method, ...parameters);
  const alert = (trigger) => ({ type: "fixed", direction: "asc", trigger, queue: "alarms" });
  await on("update", {});
  assert.deepEqual(await on("add_alerts", alert(10)), { msg: "Alerts were added." });
  assert.deepEqual(await on("update_alerts", [alert(20), alert(30)]), { msg: "Alerts were replaced." });
  const { alerts } = await on("info");
  assert.deepEqual(alerts.map(({ trigger }) => trigger), [20, 30]);
  assert.deepEqual(await on("delete_alerts", { id: alerts[0].id }), { msg: "Alerts were deleted." });
  assert.deepEqual(await on("delete_alert_by_id", alerts[1].id), { msg: "Alerts were deleted." });
  await on("del_queue");
});
