// iron_mq 0.9.3, which speaks version 3.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ask, connect } from "./client.mjs";

const client = connect("iron_mq");
const stale = { message: "Reservation timed out" };

test("a queue is made, changed, shown and listed", async () => {
  const { queue: made } = await ask(client, "create_queue", "node%20jobs", { message_timeout: 90 });
  assert.equal(made.name, "node jobs");
  assert.equal(made.message_timeout, 90);
  const { queue: changed } = await ask(client, "update_queue", "node%20jobs", { message_expiration: 7200 });
  assert.equal(changed.message_expiration, 7200);
  assert.equal((await ask(client.queue("node%20jobs"), "update", {})).queue.message_timeout, 90);
  const info = await ask(client.queue("node%20jobs"), "info");
  assert.equal(info.size, 0);
  assert.deepEqual(await ask(client, "queues", { per_page: 3 }), [{ name: "node jobs" }]);
  assert.deepEqual(await ask(client, "queues", { prefix: "x" }), []);
});

test("a message is posted, seen, reserved, touched, released and deleted", async () => {
  const jobs = client.queue("jobs");
  const on = (method, ...parameters) => ask(jobs, method, ...parameters);
  const id = await on("post", "a");
  const ids = await on("post", ["b", { body: "c", delay: 0 }]);
  assert.match(id, /^\d+$/);
  assert.equal(ids.length, 2);

  assert.deepEqual(await on("peek", {}), { id, body: "a", reserved_count: 0 });
  assert.deepEqual((await on("peek_n", { n: 3 })).map(({ body }) => body), ["a", "b", "c"]);
  assert.deepEqual(await on("msg_get", id), { id, body: "a", reserved_count: 0 });
  const message = await on("reserve", {});
  assert.equal(message.id, id);
  assert.match(message.reservation_id, /./);

  await assert.rejects(on("del", id, {}), { message: "A reservation_id is required" });
  const touched = await on("msg_touch", id, message.reservation_id, { timeout: 120 });
  assert.equal(touched.msg, "Touched");
  await assert.rejects(on("del", id, { reservation_id: message.reservation_id }), stale);
  assert.deepEqual(await on("msg_release", id, touched.reservation_id, { delay: 0 }), { msg: "Released" });
  const again = await on("get", { n: 1, timeout: 60, wait: 1 });
  assert.equal(again.id, id);
  assert.equal(again.reserved_count, 3);
  assert.deepEqual(await on("del", id, { reservation_id: again.reservation_id }), { msg: "Deleted" });

  const reserved = await on("get_n", { n: 10 });
  assert.deepEqual(reserved.map(({ body }) => body), ["b", "c"]);
  assert.deepEqual(await on("del_multiple", { reservation_ids: reserved }), { msg: "Deleted" });
  const more = await on("post", ["d", "e"]);
  assert.deepEqual(await on("del_multiple", { ids: more.slice(1) }), { msg: "Deleted" });
  assert.equal((await on("info")).size, 1);
  assert.deepEqual(await on("clear"), { msg: "Cleared" });
  assert.equal((await on("info")).size, 0);
  assert.equal(await on("reserve", {}), undefined);
  assert.deepEqual(await on("del_queue"), { msg: "Deleted." });
  await assert.rejects(on("reserve", {}), { message: "Queue not found" });
  await assert.rejects(on("del_queue"), { message: "Queue not found" });
});

test("subscribers are added, replaced and removed", async () => {
  const pushed = client.queue("pushed");
  const on = (method, ...parameters) => ask(pushed, method, ...parameters);
  const subscriber = (name) => ({ name, url: `http://127.0.0.1:9/${name}` });
  await ask(client, "create_queue", "pushed", { type: "multicast", push: { subscribers: [subscriber("a")] } });
  assert.deepEqual(await on("add_subscribers", subscriber("b")), { msg: "Updated" });
  assert.deepEqual(await on("rm_subscribers", { name: "a" }), { msg: "Updated" });
  assert.deepEqual(await on("rpl_subscribers", [subscriber("c")]), { msg: "Updated" });
  assert.deepEqual((await on("info")).push.subscribers, [subscriber("c")]);
  const id = await on("post", "a");
  const { subscribers } = await on("msg_push_statuses", id);
  assert.deepEqual(subscribers.map(({ name }) => name), ["c"]);
  await on("del_queue");
});
