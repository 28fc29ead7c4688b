// The server itself: whether it takes changes, how it writes, what it takes, what it refused.

import { errorNotice } from "./actions.js";
import { h, panel, replace, setText } from "./dom.js";
import { NOTHING, bytes, count, counted, dateTime, duration, microseconds, rate } from "./format.js";
import { Live } from "./live.js";
import { figureList } from "./overview.js";
import { dataTable } from "./table.js";

const ACTION_COLUMNS = [["Action", "name"], ["Requests", "number"], ["Refused (4xx)", "number"], ["Failed (5xx)", "number"], ["Mean time", "number"]];

/** What the figures are worked out from: the head, and how much each counter grew in a second. */
const FIGURES = [
  ["Up for", ({ head }) => duration(head.now - head.started)],
  ["Requests/s", ({ grown }) => rate(grown("requests"))],
  ["Syncs/s", ({ grown }) => rate(grown("syncs"))],
  ["A sync takes", ({ head, grown }) => microseconds(grown("syncs") ? grown("sync_time_us") / grown("syncs") : head.syncs ? head.sync_time_us / head.syncs : null)],
  ["Connections", ({ head }) => count(head.connections)],
  ["Memory", ({ head }) => bytes(head.memory)],
  ["Disk free", ({ head }) => bytes(head.disk_available)],
  ["Errors (5xx)", ({ head }) => count(head.server_errors)],
];

const PANELS = [
  ["Process", [
    ["Version", ({ head }) => head.version],
    ["Started", ({ head }) => dateTime(head.started)],
    ["Durability", ({ head }) => head.durability],
    ["Memory", ({ head }) => bytes(head.memory)],
  ]],
  ["Journal", [
    ["Space on disk", ({ head }) => bytes(head.journal_disk)],
    ["Written since the start", ({ head }) => `${bytes(head.journal_written)} in ${counted(head.journal_records, "record")}`],
    ["Written a second", ({ grown }) => (grown("journal_written") === null ? NOTHING : bytes(grown("journal_written")))],
    ["Waiting for a commit", ({ head }) => bytes(head.journal_waiting)],
    ["Largest group", ({ head }) => bytes(head.journal_largest_group)],
  ]],
  ["Syncs", [
    ["Since the start", ({ head }) => count(head.syncs)],
    ["Half took less than", ({ head }) => microseconds(head.sync_p50_us)],
    ["99 % took less than", ({ head }) => microseconds(head.sync_p99_us)],
    ["On average", ({ head }) => microseconds(head.syncs ? head.sync_time_us / head.syncs : null)],
  ]],
  ["Disk", [
    ["Free", ({ head }) => (head.disk_total ? `${bytes(head.disk_available)} of ${bytes(head.disk_total)} (${Math.round((100 * head.disk_available) / head.disk_total)} %)` : "Data is in memory only.")],
    ["Journal", ({ head }) => bytes(head.journal_disk)],
    ["History of metrics", ({ head }) => bytes(head.metrics_disk)],
  ]],
  ["Connections of clients", [
    ["Open", ({ head }) => count(head.connections)],
    ["Since the start", ({ head }) => count(head.connections_opened)],
    ["Ended", ({ head }) => endings(head)],
    ["Received", ({ head, grown }) => flow(head.bytes_in, grown("bytes_in"))],
    ["Sent", ({ head, grown }) => flow(head.bytes_out, grown("bytes_out"))],
  ]],
  ["Errors since the start", [
    ["Refused requests (4xx)", ({ head }) => count(head.client_errors)],
    ["Failed requests (5xx)", ({ head }) => count(head.server_errors)],
    ["Journal", ({ head }) => (head.is_poisoned ? "A write or sync failed: no change is taken until a restart." : head.is_full ? "The disk is full: sends are refused." : "Takes changes.")],
  ]],
];

export function show(root) {
  const figures = figureList(FIGURES);
  const health = h("div", {});
  const panels = PANELS.map(([title, entries]) => factPanel(title, entries));
  const actions = dataTable("Requests by action, since the start", ACTION_COLUMNS);
  const none = h("p", { class: "empty" }, "No client has asked for anything yet.");
  const full = [figures.element, health, h("div", { class: "columns three" }, panels.map(({ element }) => element)), panel("Requests by action, since the start", {}, actions.frame, none)];
  const partial = h("p", { class: "notice" }, "Figures of all accounts together are at /metrics, behind its token.");
  const some = factPanel(...PANELS[0]);
  let before = null;
  let shownHealth = "";
  let isPartial = null;
  new Live("view=server", ({ head, lists }, isNew) => {
    const now = { ...head };
    const earlier = before;
    const seconds = earlier && !isNew ? (now.now - earlier.now) / 1000 : 0;
    const grown = (name) => (seconds > 0 && now[name] !== undefined ? Math.max(0, now[name] - earlier[name]) / seconds : null);
    // What was read at the same moment says nothing of a second.
    if (!before || now.now > before.now) before = now;
    if (isPartial !== Boolean(head.is_partial)) {
      isPartial = Boolean(head.is_partial);
      replace(root, isPartial ? [partial, health, some.element] : full);
    }
    const text = head.is_poisoned ? "A write or sync of the journal failed. No change is taken until the server is restarted." : head.is_full ? "The disk is full: sends are refused until there is room." : "";
    if (text !== shownHealth) {
      shownHealth = text;
      replace(health, text && errorNotice(new Error(text)));
    }
    const state = { head, grown };
    figures.update(state);
    for (const each of [...panels, some]) each.update(state);
    showActions(actions, lists.actions ?? []);
    none.hidden = (lists.actions ?? []).length > 0;
    actions.frame.hidden = !none.hidden;
  });
}

function factPanel(title, entries) {
  const values = entries.map(() => h("dd", {}, NOTHING));
  const element = panel(title, {}, h("div", { class: "body" }, h("dl", { class: "definition" }, entries.map(([label], index) => [h("dt", {}, label), values[index]]))));
  return { element, update: (state) => entries.forEach(([, text], index) => setText(values[index], text(state))) };
}

function showActions({ body, row }, rows) {
  while (body.children.length > rows.length) body.lastChild.remove();
  rows.forEach((action, index) => {
    const line = body.children[index] ?? body.appendChild(row(ACTION_COLUMNS.map(() => "")));
    const texts = [action.action === "other" ? "Other" : `${action.action}${action.service === "sqs" ? "" : ` (${action.service})`}`, count(action.requests), count(action.client_errors), count(action.server_errors), microseconds(action.mean_us)];
    texts.forEach((text, column) => setText(line.children[column], text));
  });
}

function endings({ connections_closed: closed, closed_by_reason: reasons = {} }) {
  const parts = Object.entries(reasons).sort(([, a], [, b]) => b - a).map(([reason, number]) => `${count(number)} ${reason.replaceAll("_", " ")}`);
  return parts.length ? `${count(closed)}: ${parts.join(", ")}` : count(closed);
}

function flow(total, perSecond) {
  return perSecond === null ? bytes(total) : `${bytes(total)}, ${bytes(perSecond)}/s now`;
}
