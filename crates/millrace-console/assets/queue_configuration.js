// Configuration: the attributes that can be changed, with their limits.

import { call, errorNotice, toast } from "./actions.js";
import { cliBlock, command } from "./cli.js";
import { checkField, field, h, panel, replace, setText } from "./dom.js";
import { durationField, onSubmit } from "./form.js";
import { queuePicker } from "./queue_picker.js";
import { dataTable } from "./table.js";

const DURATIONS = [
  ["VisibilityTimeout", "Visibility timeout", 0, 43_200],
  ["DelaySeconds", "Delay", 0, 900],
  ["MessageRetentionPeriod", "Retention", 60, 1_209_600],
  ["ReceiveMessageWaitTimeSeconds", "Receive wait time", 0, 20],
];
const SIZE_BYTES = [1024, 1_048_576];

export function show(root, queue) {
  load(root, queue);
}

async function load(root, queue) {
  try {
    const { Attributes: attributes } = await call("sqs", "GetQueueAttributes", { QueueUrl: queue.url, AttributeNames: ["All"] }, queue.place);
    replace(root, attributeForm(queue, attributes, () => load(root, queue)), allAttributes(attributes));
  } catch (error) {
    replace(root, errorNotice(error));
  }
}

function attributeForm(queue, attributes, reload) {
  const controls = new Map();
  const durations = DURATIONS.map(([name, label, min, max]) => {
    const duration = durationField(label, { name, value: Number(attributes[name]), min, max });
    // What is no number changes nothing: the field says what is wrong with it.
    controls.set(name, () => (Number.isInteger(duration.seconds()) ? String(duration.seconds()) : attributes[name]));
    return duration.element;
  });
  const [min, max] = SIZE_BYTES;
  const size = h("input", { name: "MaximumMessageSize", type: "number", min, max, value: attributes.MaximumMessageSize, required: true });
  controls.set("MaximumMessageSize", () => size.value);
  const sizeField = field("Largest message", size, { hint: "1,024 to 1,048,576 bytes", beside: h("span", { class: "unit" }, "bytes") });
  const policy = redriveFields(queue, attributes.RedrivePolicy);
  controls.set("RedrivePolicy", policy.value);
  const allow = allowFields(attributes.RedriveAllowPolicy);
  controls.set("RedriveAllowPolicy", allow.value);
  const fifo = queue.isFifo && fifoFields(attributes, controls);
  const cli = cliBlock();
  const errors = h("div", {});
  const submit = h("button", { class: "primary" }, "Save");
  const state = h("span", { class: "quiet" });
  const changed = () => {
    const wanted = [...controls].map(([name, value]) => [name, value()]);
    return Object.fromEntries(wanted.filter(([name, value]) => !isSame(value, attributes[name] ?? "")));
  };
  const refresh = () => {
    const changes = changed();
    const isChanged = Object.keys(changes).length > 0;
    submit.disabled = !isChanged;
    setText(state, isChanged ? "" : "Nothing has changed.");
    cli.update(isChanged ? command("sqs", "SetQueueAttributes", { QueueUrl: queue.url, Attributes: changes }, queue.region, queue) : null);
  };
  const form = h("form", {}, h("div", { class: "fields" }, durations, sizeField), fifo, policy.element, allow.element, cli.element, errors, h("div", { class: "buttons" }, submit, state));
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  onSubmit(form, errors, async () => {
    submit.disabled = true;
    try {
      await call("sqs", "SetQueueAttributes", { QueueUrl: queue.url, Attributes: changed() }, queue.place);
      toast("Saved.");
      await reload();
    } finally {
      refresh();
    }
  });
  refresh();
  return panel("Configuration", {}, h("div", { class: "body" }, form));
}

function redriveFields(queue, text) {
  const policy = parsed(text);
  const target = queuePicker("Dead-letter queue", { name: "RedrivePolicy", place: () => queue.place, none: "None", value: policy.deadLetterTargetArn,
    fits: (name) => name !== queue.name && name.endsWith(".fifo") === queue.isFifo, hint: "Of the same type and region" });
  const receives = h("input", { type: "number", min: 1, max: 1000, value: policy.maxReceiveCount ?? 5, required: true });
  const receivesField = field("After receives", receives, { hint: "1 to 1,000" });
  const show = () => {
    receivesField.hidden = target.list.value === "";
  };
  target.list.addEventListener("change", show);
  show();
  const value = () => (target.arn() ? JSON.stringify({ deadLetterTargetArn: target.arn(), maxReceiveCount: Number(receives.value) }) : "");
  const element = h("fieldset", {}, h("legend", {}, "Redrive policy"), h("div", { class: "fields" }, target.element, target.otherField, receivesField));
  return { element, value };
}

function allowFields(text) {
  const policy = parsed(text);
  const permission = h("select", {}, [["", "All queues (default)"], ["denyAll", "No queue"], ["byQueue", "These queues"]].map(([id, title]) => h("option", { value: id, selected: policy.redrivePermission === id }, title)));
  const sources = h("textarea", { name: "RedriveAllowPolicy", rows: 2, required: true, "data-missing": "At least one ARN.", placeholder: "One ARN a line, at most 10" });
  sources.value = (policy.sourceQueueArns ?? []).join("\n");
  const sourcesField = field("Source queues", sources, { wide: true });
  const value = () => {
    if (permission.value === "") return text && policy.redrivePermission === "allowAll" ? text : "";
    if (permission.value === "denyAll") return JSON.stringify({ redrivePermission: "denyAll" });
    return JSON.stringify({ redrivePermission: "byQueue", sourceQueueArns: sources.value.split("\n").map((line) => line.trim()).filter(Boolean) });
  };
  const showSources = () => {
    sourcesField.hidden = permission.value !== "byQueue";
  };
  permission.addEventListener("change", showSources);
  showSources();
  const element = h("fieldset", {}, h("legend", {}, "Redrive allow policy"), h("div", { class: "fields" },
    field("May use this queue for dead letters", permission), sourcesField));
  return { element, value };
}

function fifoFields(attributes, controls) {
  const content = h("input", { type: "checkbox" });
  content.checked = attributes.ContentBasedDeduplication === "true";
  controls.set("ContentBasedDeduplication", () => String(content.checked));
  const scope = h("select", {}, ["queue", "messageGroup"].map((value) => h("option", { selected: attributes.DeduplicationScope === value }, value)));
  controls.set("DeduplicationScope", () => scope.value);
  const limit = h("select", {}, ["perQueue", "perMessageGroupId"].map((value) => h("option", { selected: attributes.FifoThroughputLimit === value }, value)));
  controls.set("FifoThroughputLimit", () => limit.value);
  return h("fieldset", {}, h("legend", {}, "FIFO"), h("div", { class: "fields" },
    checkField("Deduplicate by content", content), field("Deduplication scope", scope), field("Throughput limit", limit)));
}

function allAttributes(attributes) {
  const entries = Object.entries(attributes).sort(([a], [b]) => a.localeCompare(b));
  const table = dataTable("All attributes", [["Attribute", "name"], ["Value", "wide"]]);
  table.body.append(...entries.map(([name, value]) =>
    table.row([name, [h("code", {}, value), isEncryption(name, value) && h("span", { class: "place" }, "Kept only: bodies are not encrypted yet.")]])));
  return panel("All attributes", {}, table.frame);
}

/** Whether an attribute reads as if bodies were encrypted. Amazon answers it so, and clients compare. */
function isEncryption(name, value) {
  return (name === "SqsManagedSseEnabled" && value === "true") || (name === "KmsMasterKeyId" && value !== "");
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : {};
  } catch {
    return {};
  }
}

function isSame(a, b) {
  if (a === b) return true;
  const [left, right] = [parsed(a), parsed(b)];
  if (typeof left !== "object" || !Object.keys(left).length) return false;
  return left.deadLetterTargetArn === right.deadLetterTargetArn && String(left.maxReceiveCount) === String(right.maxReceiveCount)
    && left.redrivePermission === right.redrivePermission && String(left.sourceQueueArns) === String(right.sourceQueueArns);
}
