// IronMQ's settings of a queue: type, projects, subscribers, alerts. Other queues show nothing.

import { queuePath } from "./actions.js";
import { h, panel, replace } from "./dom.js";
import { count, counted, duration } from "./format.js";
import { dataTable } from "./table.js";

const SUBSCRIBERS = [["Subscriber", "name"], ["URL", "wide"], ["Waiting", "number"], ["Latest delivery", "wide"]];
const ALERTS = [["Messages go to", "name"], ["When the queue"], ["Snooze", "number"]];

/** The panel; `update(state)` shows it as soon as there is something to say. */
export function ironMqPanel(queue) {
  const facts = h("dl", { class: "definition" });
  const subscribers = dataTable("Subscribers", SUBSCRIBERS);
  const alerts = dataTable("Alerts", ALERTS);
  const element = panel("IronMQ", {}, h("div", { class: "body" }, facts), subscribers.frame, alerts.frame);
  element.hidden = true;
  const link = (name) => h("a", { href: queuePath(`${queue.region}/${queue.account}/${name}`) }, name);
  let shown = null;
  const update = ({ head, lists }) => {
    const known = head.iron_mq;
    const rows = lists.subscribers ?? [];
    const wanted = JSON.stringify([known, rows]);
    // What did not change is not touched, so that a selection stays.
    if (shown === wanted) return;
    shown = wanted;
    element.hidden = !known;
    if (!known) return;
    replace(facts, factsOf(known, link).map(([label, content]) => [h("dt", {}, label), h("dd", {}, content)]));
    replace(subscribers.body, rows.map((row) => subscribers.row(subscriberCells(row, link))));
    subscribers.frame.hidden = rows.length === 0;
    replace(alerts.body, (known.alerts ?? []).map((alert) => alerts.row(alertCells(alert, link))));
    alerts.frame.hidden = !known.alerts?.length;
  };
  return { element, update };
}

function factsOf(known, link) {
  const isPush = known.type !== "pull";
  const projects = known.projects.length ? `${known.projects.join(", ")}${known.has_more_projects ? ", …" : ""}` : "none";
  return [
    ["Type", known.type],
    [known.projects.length === 1 ? "Project" : "Projects", projects],
    isPush && ["Retries", `${count(known.retries)}, after ${duration(known.retries_delay_s * 1000)}`],
    isPush && ["Error queue", known.error_queue ? link(known.error_queue) : "none"],
    // The subscribers of a unicast queue share its messages.
    known.type === "unicast" && ["Latest delivery", outcome(known.latest_error)],
  ].filter(Boolean);
}

function subscriberCells({ name, url, queue, waiting, latest_error: error }, link) {
  return [
    h("span", { class: "name" }, name),
    queue ? link(queue) : url,
    waiting === null ? "in the queue" : count(waiting),
    waiting === null ? null : outcome(error),
  ];
}

function outcome(error) {
  return error ? [h("span", { class: "badge alarm" }, "Failed"), ` ${error}`] : "no failure";
}

function alertCells({ type, direction, trigger, queue, snooze_s: snooze }, link) {
  const way = direction === "asc" ? "grows" : "shrinks";
  const when = type === "fixed" ? `${way} to ${counted(trigger, "message")}` : `${way} past each ${counted(trigger, "message")}`;
  return [h("span", { class: "name" }, link(queue)), when, snooze ? duration(snooze * 1000) : "none"];
}
