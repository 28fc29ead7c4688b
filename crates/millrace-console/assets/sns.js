// SNS's actions: a form to the service, XML back, and the AWS CLI command that does the same.

import { arnOf, call, data, post } from "./actions.js";
import { command } from "./cli.js";
import { childOf, textOf } from "./xml.js";

/** Calls an action with the members that AWS's SDKs have. Resolves to an XML document. */
export function sns(action, input, place) {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) {
    if (name === "MessageAttributes") addMessageAttributes(form, value ?? {});
    else if (typeof value === "object") addEntries(form, name, value);
    else if (value !== undefined) form.append(name, value);
  }
  return call("sns", action, form, place);
}

function addEntries(form, name, map) {
  Object.entries(map).forEach(([key, value], index) => {
    form.append(`${name}.entry.${index + 1}.key`, key);
    form.append(`${name}.entry.${index + 1}.value`, value);
  });
}

function addMessageAttributes(form, attributes) {
  Object.entries(attributes).forEach(([key, value], index) => {
    const entry = `MessageAttributes.entry.${index + 1}`;
    form.append(`${entry}.Name`, key);
    for (const [member, text] of Object.entries(value)) form.append(`${entry}.Value.${member}`, text);
  });
}

export function snsCommand(action, input, place = data) {
  return command("sns", action, input, place.region, place);
}

/** The topic of an ARN: `{ region, account, name, arn, isFifo }`. */
export function topicOf(arn) {
  const [, , , region, account, name] = arn.split(":");
  return { region, account, name, arn, isFifo: name.endsWith(".fifo") };
}

/** The topic with that name. */
export function topicAt(place) {
  return topicOf(arnOf("sns", place));
}

export function topicPath({ region, account, name }) {
  return `/topics/${[region, account, name].map(encodeURIComponent).join("/")}`;
}

export async function topicAttributes(topic) {
  return entriesOf(await sns("GetTopicAttributes", { TopicArn: topic.arn }, topic));
}

/** One page: `{ topics, next }`. */
export async function listTopics(place, token) {
  const answer = await sns("ListTopics", { NextToken: token }, place);
  return { topics: [...answer.querySelectorAll("TopicArn")].map(({ textContent }) => topicOf(textContent)), next: textOf(answer, "NextToken") };
}

/**
 * One page: `{ subscriptions, next }`. A subscription is `{ arn, owner, protocol, endpoint, attributes, counts }`; one
 * that is not confirmed has no ARN that could be used, and no attributes. `counts` is null or `{ delivered, failed }`,
 * since the server's start.
 */
export async function listSubscriptions(topic, token) {
  const answer = await sns("ListSubscriptionsByTopic", { TopicArn: topic.arn, NextToken: token }, topic);
  const found = [...answer.querySelectorAll("Subscriptions > member")].map((member) => {
    const text = (tag) => childOf(member, tag)?.textContent ?? "";
    const arn = text("SubscriptionArn");
    return { arn: arn.startsWith("arn:") ? arn : null, owner: text("Owner"), protocol: text("Protocol"), endpoint: text("Endpoint") };
  });
  // One that ended meanwhile has none.
  const counts = await deliveries(found.map(({ arn }) => arn ?? ""));
  const withAttributes = async (it, index) => ({ ...it, counts: counts[index], attributes: it.arn ? await subscriptionAttributes(topic, it.arn).catch(() => ({})) : {} });
  return { subscriptions: await Promise.all(found.map(withAttributes)), next: textOf(answer, "NextToken") };
}

async function deliveries(arns) {
  return (await post("/api/deliveries", { subscriptions: arns })).counts;
}

export async function subscriptionAttributes(topic, arn) {
  return entriesOf(await sns("GetSubscriptionAttributes", { SubscriptionArn: arn }, topic));
}

/** The queue that a redrive policy names: its ARN, or "". */
export function deadLetterArn(policy) {
  try {
    return JSON.parse(policy ?? "{}").deadLetterTargetArn ?? "";
  } catch {
    return "";
  }
}

function entriesOf(answer) {
  const entries = [...answer.querySelectorAll("Attributes > entry")];
  return Object.fromEntries(entries.map((entry) => [childOf(entry, "key").textContent, childOf(entry, "value")?.textContent ?? ""]));
}
