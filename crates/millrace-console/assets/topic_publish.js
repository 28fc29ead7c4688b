// Publish: one message to all subscriptions of a topic.

import { toast } from "./actions.js";
import { cliBlock } from "./cli.js";
import { checkField, field, h, panel, setText } from "./dom.js";
import { onSubmit } from "./form.js";
import { TOPIC_TYPES, attributeFields } from "./message_attributes.js";
import { sns, snsCommand } from "./sns.js";
import { textOf } from "./xml.js";

/** Protocols that may get a text of their own, and what the field is called. */
const PROTOCOLS = [["sqs", "Queues (sqs)"], ["http", "http"], ["https", "https"]];

/** The panel; `done` is called after each message. */
export function publishPanel(topic, done) {
  const subject = h("input", { name: "Subject", maxlength: 99, autocomplete: "off" });
  const message = h("textarea", { name: "Message", rows: 6, required: true, "data-missing": "A message needs a text." });
  const messageField = field("Message", message, { wide: true, hint: "Text of at most 256 KiB, attributes included" });
  const isByProtocol = h("input", { type: "checkbox" });
  const standard = h("textarea", { rows: 3, required: true, "data-missing": "Protocols without a text of their own need this one." });
  const texts = new Map(PROTOCOLS.filter(([id]) => id === "sqs" || !topic.isFifo).map(([id, title]) => [id, { title, control: h("textarea", { rows: 2 }) }]));
  const textFields = h("div", { class: "fields", hidden: true }, field("Default", standard, { wide: true }),
    [...texts.values()].map(({ title, control }) => field(title, control, { hint: "Empty: the default" })));
  const group = h("input", { name: "MessageGroupId", maxlength: 128, autocomplete: "off", required: topic.isFifo, "data-missing": "A FIFO topic needs a message group." });
  const deduplication = h("input", { name: "MessageDeduplicationId", maxlength: 128, autocomplete: "off", placeholder: "by content, if the topic does that" });
  const attributes = attributeFields("Message attributes", () => refresh(), { types: TOPIC_TYPES });
  const cli = cliBlock();
  const errors = h("div", {});
  const published = h("div", { role: "status" });
  const submit = h("button", { class: "primary" }, "Publish");

  const structured = () => {
    const own = [...texts].map(([id, { control }]) => [id, control.value]).filter(([, text]) => text !== "");
    return JSON.stringify({ default: standard.value, ...Object.fromEntries(own) });
  };
  const input = () => ({
    TopicArn: topic.arn,
    Subject: subject.value || undefined,
    Message: isByProtocol.checked ? structured() : message.value,
    MessageStructure: isByProtocol.checked ? "json" : undefined,
    MessageAttributes: attributes.value(),
    MessageGroupId: group.value || undefined,
    MessageDeduplicationId: (topic.isFifo && deduplication.value) || undefined,
  });
  const refresh = () => cli.update(snsCommand("Publish", input(), topic));
  isByProtocol.addEventListener("change", () => {
    messageField.hidden = isByProtocol.checked;
    textFields.hidden = !isByProtocol.checked;
    if (isByProtocol.checked && standard.value === "") standard.value = message.value;
  });
  const form = h("form", {},
    h("div", { class: "fields" },
      field("Subject (optional)", subject, { hint: "At most 99 characters; it begins with one of ASCII" }),
      field(topic.isFifo ? "Message group" : "Message group (optional)", group, { hint: topic.isFifo ? "Order is kept within a group" : "Queues give groups fair turns" }),
      topic.isFifo && field("Deduplication id", deduplication, { hint: "The same id within 5 minutes is accepted once" })),
    messageField, checkField("A text for each protocol", isByProtocol), textFields,
    attributes.element, cli.element, errors, h("div", { class: "buttons" }, submit, published));
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  onSubmit(form, errors, async () => {
    submit.disabled = true;
    setText(published, "");
    try {
      const answer = await sns("Publish", input(), topic);
      setText(published, `Message ${textOf(answer, "MessageId")} is published.`);
      toast("Published.");
      await done();
    } finally {
      submit.disabled = false;
    }
  });
  refresh();
  return panel("Publish a message", {}, h("div", { class: "body" }, form));
}
