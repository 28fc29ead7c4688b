// A topic's page: figures, subscriptions, publishing, attributes.

import { data, errorNotice } from "./actions.js";
import { metricData, span } from "./cloudwatch.js";
import { h, replace, setText } from "./dom.js";
import { NOTHING, count } from "./format.js";
import { topicAt, topicAttributes } from "./sns.js";
import { subscriptionPanel } from "./subscriptions.js";
import { attributePanel } from "./topic_attributes.js";
import { publishPanel } from "./topic_publish.js";
import { deleteTopicDialog } from "./topics.js";

const COUNTS = [["SubscriptionsConfirmed", "Confirmed subscriptions"], ["SubscriptionsPending", "Pending"]];
/** Metrics of AWS/SNS. */
const METRICS = [
  ["NumberOfMessagesPublished", "Published"],
  ["NumberOfNotificationsDelivered", "Delivered"],
  ["NumberOfNotificationsFailed", "Failed"],
  ["NumberOfNotificationsFilteredOut", "Filtered out"],
];
const DAY = { seconds: 86_400, period: 3600 };

export function show(root) {
  const topic = topicAt(data.topic);
  const numbers = new Map([...COUNTS, ...METRICS].map(([id]) => [id, h("dd", {}, NOTHING)]));
  const errors = h("div", {});
  const attributes = attributePanel(topic, () => reload());
  const subscriptions = subscriptionPanel(topic, () => reload());
  const remove = h("button", { type: "button", class: "danger small", onclick: () => deleteTopicDialog(topic, () => location.assign("/topics")) }, "Delete");

  const loadAttributes = async () => {
    const found = await topicAttributes(topic);
    attributes.update(found);
    for (const [id] of COUNTS) setText(numbers.get(id), count(Number(found[id] ?? 0)));
  };
  const reload = async () => {
    replace(errors);
    await Promise.all([loadAttributes(), subscriptions.load()]);
  };
  const start = async () => {
    await loadAttributes();
    const published = publishPanel(topic, () => subscriptions.load());
    replace(root, figures(numbers), errors, subscriptions.element, published, attributes.element);
    await Promise.all([subscriptions.load(), loadMetrics(topic, numbers)]);
  };
  replace(document.getElementById("facts"), h("span", { class: "quiet" }, `${topic.region} · ${topic.account}`), topic.isFifo && h("span", { class: "badge" }, "FIFO"), h("span", { class: "actions buttons" }, remove));
  replace(root, errors);
  start().catch((error) => {
    if (error.type !== "NotFound") replace(errors, errorNotice(error));
    else {
      replace(document.getElementById("facts"));
      replace(root, h("div", { class: "panel empty" }, h("h2", {}, "There is no such topic"),
        h("p", {}, "It was deleted, or never was. ", h("a", { href: "/topics" }, "All topics"))));
    }
  });
}

function figures(numbers) {
  const entries = [...COUNTS.map(([id, title]) => [id, title]), ...METRICS.map(([id, title]) => [id, `${title}, 24 h`])];
  return h("dl", { class: "figures" }, entries.map(([id, title]) => h("div", {}, h("dt", {}, title), numbers.get(id))));
}

/** What the topic did in the last day. */
async function loadMetrics(topic, numbers) {
  const queries = METRICS.map(([MetricName], index) => ({ Id: `m${index}`, MetricStat: {
    Metric: { Namespace: "AWS/SNS", MetricName, Dimensions: [{ Name: "TopicName", Value: topic.name }] }, Period: DAY.period, Stat: "Sum" } }));
  const found = await metricData(queries, span(DAY, Date.now()), topic);
  METRICS.forEach(([id], index) => {
    const points = found[`m${index}`]?.points ?? [];
    setText(numbers.get(id), points.length ? count(points.reduce((sum, [, value]) => sum + value, 0)) : NOTHING);
  });
}
