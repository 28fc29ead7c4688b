// Actions on messages: delete some, move one, download one.

import { ActionError, call, queueUrl, toast } from "./actions.js";
import { command } from "./cli.js";
import { formDialog } from "./dialog.js";
import { field, h } from "./dom.js";
import { counted } from "./format.js";
import { queuePicker } from "./queue_picker.js";

/** SQS: entries of a batch. */
const BATCH = 10;

/**
 * Asks, then deletes messages by their receipt handles. `done(indexes)` is called with those that are gone, also when
 * others were refused.
 */
export function deleteDialog(queue, handles, { warning, done }) {
  const inputs = batches(handles).map((batch) => ({ QueueUrl: queue.url, Entries: batch.map(({ handle, index }) => ({ Id: String(index), ReceiptHandle: handle })) }));
  const alone = handles.length === 1 && { QueueUrl: queue.url, ReceiptHandle: handles[0] };
  formDialog({
    title: handles.length === 1 ? "Delete message" : `Delete ${counted(handles.length, "message")}`,
    submit: "Delete",
    danger: true,
    content: [h("p", {}, handles.length === 1 ? "The message is gone for good." : "The messages are gone for good."), warning && h("p", { class: "notice warn" }, warning)],
    command: () => (alone ? command("sqs", "DeleteMessage", alone, queue.region, queue)
      : inputs.map((input) => command("sqs", "DeleteMessageBatch", input, queue.region, queue)).join(" &&\n")),
    run: async () => {
      if (alone) {
        await call("sqs", "DeleteMessage", alone, queue.place);
        done([0]);
      } else {
        await deleteAll(queue, inputs, done);
      }
      toast(`${counted(handles.length, "message")} deleted.`);
    },
  });
}

async function deleteAll(queue, inputs, done) {
  const gone = [];
  const refused = [];
  try {
    for (const input of inputs) {
      const { Successful: successful = [], Failed: failed = [] } = await call("sqs", "DeleteMessageBatch", input, queue.place);
      gone.push(...successful.map(({ Id }) => Number(Id)));
      refused.push(...failed);
    }
  } finally {
    done(gone);
  }
  if (refused.length) throw new ActionError(400, refused[0].Code, `${counted(refused.length, "message")} could not be deleted. ${refused[0].Message ?? ""}`);
}

/** Handles in batches that SQS takes, each with its place among all. */
function batches(handles) {
  const all = handles.map((handle, index) => ({ handle, index }));
  return Array.from({ length: Math.ceil(all.length / BATCH) }, (_, number) => all.slice(number * BATCH, (number + 1) * BATCH));
}

/**
 * Sends a whole message to another queue, then deletes it here by its handle. If the second is refused, it is in both
 * queues, and the dialog says so. `done()` is called when it has left.
 */
export function moveDialog(queue, message, handle, done) {
  const group = h("input", { name: "MessageGroupId", maxlength: 128, required: true, value: message.group ?? "", "data-missing": "A FIFO queue needs a message group." });
  const groupField = field("Message group", group, { hint: "Order is kept within a group" });
  const target = queuePicker("Move to", { place: () => queue.place, fits: (name) => name !== queue.name, missing: "Choose the queue to move it to." });
  const isFifo = () => target.name().endsWith(".fifo");
  const place = () => {
    const [, , , region, account, name] = target.arn().split(":");
    return { region, account, name };
  };
  const sending = () => ({
    QueueUrl: target.arn() ? queueUrl(place()) : undefined,
    MessageBody: message.body,
    MessageAttributes: attributesOf(message),
    MessageGroupId: (isFifo() ? group.value : message.group) || undefined,
    // Moved twice, it is there once.
    MessageDeduplicationId: isFifo() ? message.id : undefined,
  });
  const deleting = { QueueUrl: queue.url, ReceiptHandle: handle };
  const { dialog } = formDialog({
    title: "Move message",
    submit: "Move",
    content: [
      h("p", {}, "A copy is sent to the other queue, with body and attributes, and deleted here. There it has a new id and was received no time."),
      h("div", { class: "fields" }, target.element, target.otherField, groupField),
    ],
    command: () => {
      if (!target.arn()) return null;
      const send = command("sqs", "SendMessage", sending(), place().region, { account: place().account });
      return send && `${send} &&\n${command("sqs", "DeleteMessage", deleting, queue.region, queue)}`;
    },
    run: async () => {
      await call("sqs", "SendMessage", sending(), place());
      try {
        await call("sqs", "DeleteMessage", deleting, queue.place);
      } catch (error) {
        error.message = `The message was sent to ${place().name}, and is still here: ${error.message}`;
        throw error;
      }
      toast(`Moved to ${place().name}.`);
      done();
    },
  });
  const show = () => {
    groupField.hidden = !isFifo();
  };
  dialog.addEventListener("input", show);
  dialog.addEventListener("change", show);
  show();
}

function attributesOf({ attributes }) {
  if (!attributes?.length) return undefined;
  return Object.fromEntries(attributes.map(({ name, type, value }) =>
    [name, { DataType: type, [type.startsWith("Binary") ? "BinaryValue" : "StringValue"]: value }]));
}

/** Saves a whole message as a JSON document, with all that is known of it. */
export function download(message) {
  const time = (ms) => (ms ? new Date(ms).toISOString() : undefined);
  const document = {
    MessageId: message.id,
    Body: message.body,
    MessageAttributes: attributesOf(message),
    Sent: time(message.sent),
    ReceiveCount: message.receive_count,
    FirstReceived: time(message.first_received),
    MessageGroupId: message.group || undefined,
    MessageDeduplicationId: message.deduplication_id || undefined,
    SequenceNumber: message.sequence_number || undefined,
    DeadLetterQueueSourceArn: message.source || undefined,
    SenderId: message.sender || undefined,
    AWSTraceHeader: message.trace_header || undefined,
  };
  const url = URL.createObjectURL(new Blob([`${JSON.stringify(document, null, 2)}\n`], { type: "application/json" }));
  h("a", { href: url, download: `message-${message.id}.json` }).click();
  URL.revokeObjectURL(url);
}
