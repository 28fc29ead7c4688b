// Poll: receives messages as a consumer does, and lets one decide about each.

import { call, errorNotice, toast } from "./actions.js";
import { cliBlock, command } from "./cli.js";
import { formDialog } from "./dialog.js";
import { field, h, replace } from "./dom.js";
import { messageItem } from "./message.js";

export function show(root, queue) {
  let now = Date.now();
  const max = h("input", { type: "number", min: 1, max: 10, value: 10, required: true });
  const wait = h("input", { type: "number", min: 0, max: 20, value: 2, required: true });
  const timeout = h("input", { type: "number", min: 0, max: 43_200, placeholder: "the queue's" });
  const start = h("button", { class: "primary" }, "Poll for messages");
  const stop = h("button", { type: "button", hidden: true }, "Stop");
  const cli = cliBlock();
  const errors = h("div", {});
  const list = h("ul", { class: "messages" });
  const empty = h("p", { class: "empty", role: "status" }, "Nothing received yet.");
  const received = h("div", { class: "panel" }, empty, list);
  const input = () => ({
    QueueUrl: queue.url,
    MaxNumberOfMessages: Number(max.value),
    WaitTimeSeconds: Number(wait.value),
    VisibilityTimeout: timeout.value === "" ? undefined : Number(timeout.value),
    MessageAttributeNames: ["All"],
    MessageSystemAttributeNames: ["All"],
  });
  const refresh = () => cli.update(command("sqs", "ReceiveMessage", input(), queue.region, queue));
  const form = h("form", {},
    h("div", { class: "fields" },
      field("Messages, at most", max, { hint: "1 to 10" }),
      field("Wait, seconds", wait, { hint: "0 to 20: how long to wait for the first" }),
      field("Visibility timeout, seconds", timeout, { hint: "Hidden from others for this time" })),
    cli.element, h("div", { class: "buttons" }, start, stop));
  form.addEventListener("input", refresh);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const abort = new AbortController();
    stop.onclick = () => abort.abort();
    start.disabled = true;
    stop.hidden = false;
    errors.replaceChildren();
    empty.hidden = false;
    empty.textContent = "Waiting for messages…";
    try {
      const { Messages: messages = [] } = await call("sqs", "ReceiveMessage", input(), { ...queue.place, signal: abort.signal });
      for (const message of messages.reverse()) list.prepend(item(message));
      empty.textContent = messages.length ? "" : "No messages came.";
    } catch (error) {
      if (error.name !== "AbortError") errors.replaceChildren(errorNotice(error));
      empty.textContent = list.children.length ? "" : "Nothing received.";
    }
    empty.hidden = empty.textContent === "";
    start.disabled = false;
    stop.hidden = true;
  });

  const item = (message) => {
    const element = messageItem(shown(message), { now, actions: () => [
      h("button", { type: "button", class: "small danger", onclick: () => decide(message, element, "DeleteMessage") }, "Delete"),
      h("button", { type: "button", class: "small", onclick: () => decide(message, element, "ChangeMessageVisibility") }, "Change visibility…"),
    ] });
    return element;
  };
  const decide = (message, element, action) => {
    const isDelete = action === "DeleteMessage";
    const seconds = h("input", { type: "number", min: 0, max: 43_200, value: 0, required: true });
    const parameters = () => ({ QueueUrl: queue.url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: isDelete ? undefined : Number(seconds.value) });
    formDialog({
      title: isDelete ? "Delete message" : "Change visibility",
      submit: isDelete ? "Delete" : "Change",
      danger: isDelete,
      content: isDelete ? h("p", {}, `Message ${message.MessageId} is gone for good.`) : field("Hidden for, seconds from now", seconds, { hint: "0: visible at once" }),
      command: () => command("sqs", action, parameters(), queue.region, queue),
      run: async () => {
        await call("sqs", action, parameters(), queue.place);
        element.remove();
        toast(isDelete ? "Message deleted." : "Visibility changed.");
      },
    });
  };
  replace(root,
    h("p", { class: "notice warn" }, "Polling receives: each message's receive count goes up by one and it is hidden from consumers until its visibility timeout ends. To look only, use Browse."),
    h("div", { class: "panel" }, h("div", { class: "body" }, form)), errors, received);
  refresh();
  return ({ head }) => {
    now = head.now;
  };
}

/** A received message in the form of a browsed one. */
function shown(message) {
  const system = message.Attributes ?? {};
  return {
    id: message.MessageId,
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
