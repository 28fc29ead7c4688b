// Send: one message, or several alike.

import { ActionError, call, errorNotice, toast } from "./actions.js";
import { cliBlock, command, unusedWord } from "./cli.js";
import { field, h, keepText, panel, replace, setText } from "./dom.js";
import { durationField, onSubmit } from "./form.js";
import { bytes, count, counted } from "./format.js";
import { attributeFields } from "./message_attributes.js";

/** More at once would keep the page waiting; a load generator is better at it. */
const MAX_COPIES = 1000;
/** SQS: entries of a batch, and bytes of their bodies and attributes together. */
const BATCH = 10;
const BATCH_BYTES = 1_048_576;

export function show(root, queue) {
  const body = h("textarea", { rows: 9, required: true, "data-shortcut": "/", "data-missing": "A message needs a body." });
  const size = h("span", { class: "quiet" });
  const file = h("input", { type: "file", "aria-label": "Fill the body from a file" });
  const delay = durationField("Delay", { name: "DelaySeconds", max: 900, placeholder: "the queue's" });
  const group = h("input", { name: "MessageGroupId", maxlength: 128, autocomplete: "off", required: queue.isFifo, "data-missing": "A FIFO queue needs a message group." });
  const deduplication = h("input", { name: "MessageDeduplicationId", maxlength: 128, autocomplete: "off", placeholder: "by content, if the queue does that" });
  const copies = h("input", { type: "number", min: 1, max: MAX_COPIES, value: 1, required: true });
  const attributes = attributeFields("Message attributes", () => refresh());
  const cli = cliBlock();
  const errors = h("div", {});
  const sent = h("div", { role: "status" });
  const submit = h("button", { class: "primary" }, "Send message");
  const progress = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Messages sent" });

  let text = () => body.value;
  const message = () => ({
    MessageBody: text(),
    DelaySeconds: queue.isFifo ? undefined : delay.seconds(),
    MessageAttributes: attributes.value(),
    MessageGroupId: group.value || undefined,
    MessageDeduplicationId: (queue.isFifo && deduplication.value) || undefined,
  });
  const refresh = () => {
    setText(size, bytes(textBytes(text())));
    setText(submit, Number(copies.value) > 1 ? `Send ${count(Number(copies.value))} messages` : "Send message");
    cli.update(commandOf(queue, message(), Number(copies.value)));
  };
  file.addEventListener("change", async () => {
    errors.replaceChildren();
    try {
      if (file.files[0]) text = keepText(body, await textOf(file.files[0]));
    } catch (error) {
      file.value = "";
      errors.replaceChildren(errorNotice(error));
    }
    refresh();
  });
  const form = h("form", {},
    field("Body", body, { hint: "Text of at most 1 MiB, attributes included" }),
    h("div", { class: "toolbar" }, size, h("span", { class: "end" }, file)),
    h("div", { class: "fields" },
      !queue.isFifo && delay.element,
      field(queue.isFifo ? "Message group" : "Message group (optional)", group, { hint: queue.isFifo ? "Order is kept within a group" : "Groups get fair turns" }),
      queue.isFifo && field("Deduplication id", deduplication, { hint: "The same id within 5 minutes is accepted once" }),
      field("How many", copies, { hint: `1 to ${count(MAX_COPIES)}; {n} in the body becomes the number` })),
    attributes.element,
    cli.element, errors, progress, h("div", { class: "buttons" }, submit, sent));
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  onSubmit(form, errors, async () => {
    submit.disabled = true;
    setText(sent, "");
    try {
      setText(sent, await send(queue, message(), Number(copies.value), progress));
      toast("Sent.");
    } finally {
      submit.disabled = false;
      progress.hidden = true;
    }
  });
  replace(root, panel("Send a message", {}, h("div", { class: "body" }, form)));
  const copied = sessionStorage.getItem("millrace-copy");
  if (copied && new URLSearchParams(location.search).has("copy")) {
    const { body: whole, attributes: list = [], group: of } = JSON.parse(copied);
    text = keepText(body, whole);
    group.value = of ?? "";
    list.forEach((attribute) => attributes.add(attribute));
  }
  refresh();
}

/** The command that sends what `send` does: of several messages, one at a time. */
function commandOf(queue, message, copies) {
  const input = { QueueUrl: queue.url, ...message };
  if (!(Number.isInteger(copies) && copies > 1)) return command("sqs", "SendMessage", input, queue.region, queue);
  const mark = unusedWord(JSON.stringify(input));
  return command("sqs", "SendMessage", { ...input, ...numbered(message, mark) }, queue.region, { account: queue.account, repeat: { count: copies, mark } });
}

/** One of several messages alike. */
function numbered(message, number) {
  return {
    ...message,
    MessageBody: message.MessageBody.replaceAll("{n}", () => number),
    MessageDeduplicationId: message.MessageDeduplicationId && `${message.MessageDeduplicationId}-${number}`,
  };
}

async function send(queue, message, copies, progress) {
  if (copies === 1) {
    const answer = await call("sqs", "SendMessage", { QueueUrl: queue.url, ...message }, queue.place);
    return `Message ${answer.MessageId} is in the queue.`;
  }
  progress.hidden = false;
  progress.value = 0;
  // Messages that the queue takes for one have one id.
  const ids = new Set();
  let accepted = 0;
  try {
    for (const entries of batches(message, copies)) {
      const { Successful: successful = [], Failed: failed = [] } = await call("sqs", "SendMessageBatch", { QueueUrl: queue.url, Entries: entries }, queue.place);
      for (const { MessageId } of successful) ids.add(MessageId);
      accepted += successful.length;
      if (failed.length) throw new ActionError(400, failed[0].Code, failed[0].Message ?? "");
      progress.value = accepted / copies;
    }
  } catch (error) {
    // Who sends again has to know.
    error.message += ` (after ${counted(accepted, "message")})`;
    throw error;
  }
  const duplicates = copies - ids.size;
  return `${counted(ids.size, "message")} ${ids.size === 1 ? "is" : "are"} in the queue${duplicates ? `; ${count(duplicates)} had the same deduplication id` : ""}.`;
}

/** The messages 1 to `copies` in batches that SQS takes; one that is too large is alone, to be refused. */
function* batches(alike, copies) {
  let entries = [];
  let total = 0;
  for (let number = 1; number <= copies; number++) {
    const message = numbered(alike, number);
    const size = messageBytes(message);
    if (entries.length === BATCH || (entries.length > 0 && total + size > BATCH_BYTES)) {
      yield entries;
      entries = [];
      total = 0;
    }
    entries.push({ Id: String(number), ...message });
    total += size;
  }
  yield entries;
}

/** What a message counts, or more: a binary attribute's base64 is longer than its value. */
function messageBytes({ MessageBody, MessageAttributes = {} }) {
  const attributes = Object.entries(MessageAttributes).flatMap(([name, { DataType, StringValue = "", BinaryValue = "" }]) => [name, DataType, StringValue, BinaryValue]);
  return textBytes([MessageBody, ...attributes].join(""));
}

/** A file's text, byte for byte: what is no text would be sent as another. */
async function textOf(file) {
  if (file.size > BATCH_BYTES) throw new Error(`${file.name} has ${count(file.size)} bytes, a message at most ${count(BATCH_BYTES)}.`);
  const content = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    throw new Error(`${file.name} is not text in UTF-8. Other content can be sent as base64, or in an attribute of type Binary.`);
  }
}

function textBytes(text) {
  return new TextEncoder().encode(text).length;
}
