// Overview: what all queues hold and do, the deepest, and dead letters.

import { data, queuePath } from "./actions.js";
import { alarmSummary } from "./alarms.js";
import { chart } from "./chart.js";
import { cliBlock, command } from "./cli.js";
import { h, panel, replace, setAttribute, setText } from "./dom.js";
import { NOTHING, age, count, rate } from "./format.js";
import { Live } from "./live.js";
import { dataTable } from "./table.js";

/** Those of all queues as of one: `[label, (head) => text]`. */
export const FIGURES = [
  ["Messages available", (head) => count(head.available)],
  ["Messages in flight", (head) => count(head.in_flight)],
  ["Delayed", (head) => count(head.delayed)],
  ["Oldest message", (head) => age(head.oldest, head.now)],
  ["Sent/s", (head) => rate(head.sent)],
  ["Received/s", (head) => rate(head.received)],
  ["Deleted/s", (head) => rate(head.deleted)],
];

/** How much the charts show, at most and at least. */
const LIVE_MS = 5 * 60 * 1000;
const SHORTEST_MS = 60 * 1000;
/** Farther apart no points are joined: nobody watched, and the minutes before are not known. */
const GAP_MS = 150 * 1000;

export function show(root) {
  const figures = figureList([...FIGURES, ["Queues", (head) => count(head.queues)]]);
  const charts = liveCharts();
  const deepest = queueTable("Deepest queues", [
    ["Available", (row) => row.available],
    ["In flight", (row) => row.in_flight],
    ["Delayed", (row) => row.delayed],
  ], "No queue holds messages.");
  const dead = queueTable("Dead letters", [
    ["Messages", (row) => row.available + row.in_flight + row.delayed],
  ], "No dead-letter queue holds messages.", (row, head) => age(row.oldest, head.now));
  const alarms = alarmSummary();
  const full = h("div", {}, figures.element, alarms.element, charts.element, h("div", { class: "columns" }, deepest.element, dead.element));
  const empty = firstQueue();
  root.replaceChildren();
  new Live("view=overview", (state) => {
    const wanted = state.head.queues === 0 ? empty : full;
    if (root.firstChild !== wanted) replace(root, wanted);
    figures.update(state.head);
    alarms.update(state.head.in_alarm);
    charts.update(state);
    deepest.update(state.lists.deepest, state.head);
    dead.update(state.lists.dead, state.head);
  });
}

/** Labelled numbers: `[label, (head) => text]`. */
export function figureList(entries) {
  const values = entries.map(() => h("dd", {}, NOTHING));
  const element = h("dl", { class: "figures" }, entries.map(([label], index) => h("div", {}, h("dt", {}, label), values[index])));
  return { element, update: (head) => entries.forEach(([, text], index) => setText(values[index], text(head))) };
}

/** Two charts of the last minutes, fed by the stream. */
export function liveCharts() {
  const messages = chart("Messages", { gapMs: GAP_MS });
  const rates = chart("Messages per second", { format: rate, gapMs: GAP_MS });
  const element = h("div", { class: "columns" }, messages.element, rates.element);
  const update = ({ head, history }) => {
    // While there is little to show it gets the whole width.
    const first = Math.min(history[0]?.[0] ?? head.now, head.now - SHORTEST_MS);
    const range = { from: Math.max(first, head.now - LIVE_MS), to: head.now };
    const recent = history.filter(([time]) => time >= range.from);
    const series = (name, column) => ({ name, points: recent.map((point) => [point[0], point[column]]) });
    messages.update({ ...range, series: [series("Available", 1), series("In flight", 2), series("Delayed", 3)] });
    rates.update({ ...range, series: [series("Sent", 4), series("Received", 5), series("Deleted", 6)] });
  };
  return { element, update };
}

function queueTable(title, columns, emptyText, oldest) {
  const all = [["Queue", "name"], ...columns.map(([name]) => [name, "number"]), ...(oldest ? [["Oldest", "number"]] : [])];
  const table = dataTable(title, all);
  const empty = h("p", { class: "empty" }, emptyText);
  const element = panel(title, {}, table.frame, empty);
  const update = (rows = [], head) => {
    table.frame.hidden = rows.length === 0;
    empty.hidden = rows.length > 0;
    while (table.body.children.length > rows.length) table.body.lastChild.remove();
    rows.forEach((row, index) => {
      const line = table.body.children[index] ?? table.body.appendChild(table.row([h("a", { class: "name" }), ...all.slice(1).map(() => "")]));
      const link = line.querySelector("a");
      setText(link, row.name);
      setAttribute(link, "href", queuePath(row.key, oldest ? "dead-letters" : ""));
      columns.forEach(([, value], column) => setText(line.children[column + 1], count(value(row))));
      if (oldest) setText(line.lastChild, oldest(row, head));
    });
  };
  return { element, update };
}

function firstQueue() {
  const create = command("sqs", "CreateQueue", { QueueName: "letters" });
  const send = command("sqs", "SendMessage", { QueueUrl: `${data.endpoint}/${data.account}/letters`, MessageBody: "hello" });
  return h("div", { class: "panel empty" },
    h("h2", {}, "No queues yet"),
    h("p", {}, "Create the first one on the ", h("a", { href: "/queues?create" }, "page of queues"), ", or from a terminal:"),
    cliBlock(`${create}\n${send}`, { open: true }).element);
}
