// Poll: receives messages as a consumer does, and lets one decide about each.

import { call, data, errorNotice, toast } from "./actions.js";
import { cliBlock, command } from "./cli.js";
import { formDialog } from "./dialog.js";
import { field, h, replace } from "./dom.js";
import { durationField, onSubmit } from "./form.js";
import { MessageItem } from "./message.js";
import { deleteDialog, download, moveDialog } from "./message_actions.js";
import { MessageList } from "./message_list.js";

export function show(root, queue) {
  let now = data.snapshot?.head.now ?? Date.now();
  const max = h("input", { name: "MaxNumberOfMessages", type: "number", min: 1, max: 10, value: 10, required: true });
  const wait = durationField("Wait", { name: "WaitTimeSeconds", value: 2, max: 20, hint: "How long to wait for the first" });
  const timeout = durationField("Visibility timeout", { name: "VisibilityTimeout", max: 43_200, placeholder: "the queue's", hint: "Hidden from others for this time" });
  const start = h("button", { class: "primary" }, "Poll for messages");
  const stop = h("button", { type: "button", hidden: true }, "Stop");
  const cli = cliBlock();
  const errors = h("div", {});
  const list = new MessageList({ ...queue.place, name: queue.name }, { nameOf: ({ handle }) => ({ handle }), onDelete: (items) => remove(items) });
  const empty = h("p", { class: "empty", role: "status" }, "Nothing received yet.");
  const received = h("div", { class: "panel" }, empty, list.element);
  const input = () => ({
    QueueUrl: queue.url,
    MaxNumberOfMessages: Number(max.value),
    WaitTimeSeconds: wait.seconds(),
    VisibilityTimeout: timeout.seconds(),
    MessageAttributeNames: ["All"],
    MessageSystemAttributeNames: ["All"],
  });
  const refresh = () => cli.update(command("sqs", "ReceiveMessage", input(), queue.region, queue));
  const form = h("form", {},
    h("div", { class: "fields" },
      field("Messages, at most", max, { hint: "1 to 10" }),
      wait.element,
      timeout.element),
    cli.element, h("div", { class: "buttons" }, start, stop));
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  onSubmit(form, errors, async () => {
    const abort = new AbortController();
    stop.onclick = () => abort.abort();
    start.disabled = true;
    stop.hidden = false;
    empty.hidden = false;
    empty.textContent = "Waiting for messages…";
    try {
      const { Messages: messages = [] } = await call("sqs", "ReceiveMessage", input(), { ...queue.place, signal: abort.signal });
      for (const message of messages.reverse()) list.addFirst(item(message));
      empty.textContent = messages.length ? "" : "No messages came.";
    } catch (error) {
      empty.textContent = list.length ? "" : "Nothing received.";
      if (error.name !== "AbortError") throw error;
    } finally {
      empty.hidden = empty.textContent === "";
      start.disabled = false;
      stop.hidden = true;
    }
  });

  const remove = (items) => deleteDialog(queue, items.map(({ message }) => message.handle), { done: (indexes) => list.remove(indexes.map((index) => items[index])) });
  const item = (received) => new MessageItem(shown(received), {
    now,
    onselect: () => list.showSelection(),
    actions: (item) => [
      h("button", { type: "button", class: "small danger", onclick: () => remove([item]) }, "Delete…"),
      h("button", { type: "button", class: "small", onclick: () => visibilityDialog(queue, item, () => list.remove([item])) }, "Change visibility…"),
      h("button", { type: "button", class: "small", onclick: () => moveDialog(queue, item.message, item.message.handle, () => list.remove([item])) }, "Move…"),
      h("button", { type: "button", class: "small", onclick: () => download(item.message) }, "Download"),
    ],
  });
  replace(root,
    h("p", { class: "notice warn" }, "Polling receives: each message's receive count goes up by one and it is hidden from consumers until its visibility timeout ends. To look only, use Browse."),
    h("div", { class: "panel" }, h("div", { class: "body" }, form)), errors, received);
  refresh();
  return ({ head }) => {
    now = head.now;
    list.tick(now);
  };
}

function visibilityDialog(queue, { message }, done) {
  const timeout = durationField("Hidden from now on for", { name: "VisibilityTimeout", value: 0, max: 43_200, hint: "0: visible at once" });
  const parameters = () => ({ QueueUrl: queue.url, ReceiptHandle: message.handle, VisibilityTimeout: timeout.seconds() });
  formDialog({
    title: "Change visibility",
    submit: "Change",
    content: timeout.element,
    command: () => command("sqs", "ChangeMessageVisibility", parameters(), queue.region, queue),
    run: async () => {
      await call("sqs", "ChangeMessageVisibility", parameters(), queue.place);
      toast("Visibility changed.");
      if (timeout.seconds() === 0) done();
    },
  });
}

/** A received message in the form of a browsed one. */
function shown(message) {
  const system = message.Attributes ?? {};
  return {
    id: message.MessageId,
    handle: message.ReceiptHandle,
    state: "in_flight",
    sent: Number(system.SentTimestamp),
    receive_count: Number(system.ApproximateReceiveCount),
    first_received: Number(system.ApproximateFirstReceiveTimestamp) || null,
    group: system.MessageGroupId,
    deduplication_id: system.MessageDeduplicationId,
    sequence_number: system.SequenceNumber,
    source: system.DeadLetterQueueSourceArn,
    sender: system.SenderId,
    trace_header: system.AWSTraceHeader,
    size: new TextEncoder().encode(message.Body).length,
    body: message.Body,
    attributes: Object.entries(message.MessageAttributes ?? {}).map(([name, { DataType, StringValue, BinaryValue }]) =>
      ({ name, type: DataType, value: StringValue ?? BinaryValue })),
  };
}
