// A subscription's settings: fields for them, changing them, ending the subscription.

import { toast } from "./actions.js";
import { formDialog } from "./dialog.js";
import { checkField, h } from "./dom.js";
import { filterFields } from "./filter_policy.js";
import { queuePicker } from "./queue_picker.js";
import { deadLetterArn, sns, snsCommand, subscriptionAttributes } from "./sns.js";

/** Fields for what a subscription may have, filled with its attributes. */
export function settingFields(topic, attributes = {}) {
  const raw = h("input", { type: "checkbox" });
  raw.checked = attributes.RawMessageDelivery === "true";
  const dead = queuePicker("Dead-letter queue", { name: "RedrivePolicy", place: () => topic, none: "None", value: deadLetterArn(attributes.RedrivePolicy),
    fits: (name) => name.endsWith(".fifo") === topic.isFifo, hint: "Takes messages that cannot be delivered. Of the topic's type and region." });
  const filter = filterFields(attributes);
  const element = h("div", {},
    checkField("Raw delivery: the message alone, without an envelope", raw),
    h("div", { class: "fields" }, dead.element, dead.otherField),
    filter.element);
  return {
    element,
    isRaw: () => String(raw.checked),
    deadLetter: dead.arn,
    redrivePolicy: () => JSON.stringify({ deadLetterTargetArn: dead.arn() }),
    policy: filter.policy,
    scope: filter.scope,
  };
}

/** Opens the form for a subscription as it is now. */
export async function editDialog(topic, { arn, endpoint }, done) {
  const attributes = await subscriptionAttributes(topic, arn);
  const fields = settingFields(topic, attributes);
  const before = { isRaw: attributes.RawMessageDelivery ?? "false", deadLetter: deadLetterArn(attributes.RedrivePolicy), policy: fields.policy(), scope: fields.scope() };
  const changes = () => changesOf(before, fields).map(([AttributeName, AttributeValue]) => ({ SubscriptionArn: arn, AttributeName, AttributeValue }));
  formDialog({
    title: `Edit ${endpoint}`,
    submit: "Save",
    large: true,
    content: fields.element,
    command: () => changes().map((input) => snsCommand("SetSubscriptionAttributes", input, topic)).join("\n") || null,
    isReady: () => changes().length > 0,
    run: async () => {
      for (const input of changes()) await sns("SetSubscriptionAttributes", input, topic);
      toast("The subscription is saved.");
      await done();
    },
  });
}

/** The attributes to set, in an order in which the service takes each: `[[name, value]]`. */
function changesOf(before, fields) {
  const changes = [];
  if (fields.isRaw() !== before.isRaw) changes.push(["RawMessageDelivery", fields.isRaw()]);
  if (fields.deadLetter() !== before.deadLetter) changes.push(["RedrivePolicy", fields.deadLetter() ? fields.redrivePolicy() : "{}"]);
  const policy = fields.policy();
  const set = policy !== before.policy ? [["FilterPolicy", policy || "{}"]] : [];
  // A subscription without a policy may keep a scope, which nobody is shown.
  const isScopeSent = policy !== "" && (before.policy === "" || fields.scope() !== before.scope);
  if (!isScopeSent) return [...changes, ...set];
  const scope = ["FilterPolicyScope", fields.scope()];
  // A policy on attributes has one level, and is one on the message as well; the reverse is not so.
  return before.policy === "" || scope[1] === "MessageBody" ? [...changes, scope, ...set] : [...changes, ...set, scope];
}

export function unsubscribeDialog(topic, { arn, endpoint }, done) {
  const input = { SubscriptionArn: arn };
  formDialog({
    title: "Unsubscribe",
    submit: "Unsubscribe",
    danger: true,
    content: h("p", {}, h("b", {}, endpoint), " gets no more messages from this topic."),
    command: () => snsCommand("Unsubscribe", input, topic),
    run: async () => {
      await sns("Unsubscribe", input, topic);
      toast("The subscription has ended.");
      await done();
    },
  });
}
