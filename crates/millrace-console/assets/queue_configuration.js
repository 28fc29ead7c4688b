// Configuration: the attributes that can be changed, with their limits.

import { call, errorNotice, queueArn, toast } from "./actions.js";
import { cliBlock, command } from "./cli.js";
import { checkField, field, h, panel, replace } from "./dom.js";
import { seconds } from "./format.js";

const NUMBERS = [
  ["VisibilityTimeout", "Visibility timeout, seconds", 0, 43_200],
  ["DelaySeconds", "Delay, seconds", 0, 900],
  ["MessageRetentionPeriod", "Retention, seconds", 60, 1_209_600],
  ["ReceiveMessageWaitTimeSeconds", "Receive wait time, seconds", 0, 20],
  ["MaximumMessageSize", "Largest message, bytes", 1024, 1_048_576],
];

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
  const numbers = NUMBERS.map(([name, label, min, max]) => {
    const control = h("input", { type: "number", min, max, value: attributes[name], required: true });
    controls.set(name, () => control.value);
    const hint = `${min.toLocaleString("en-US")} to ${max.toLocaleString("en-US")}${name === "MaximumMessageSize" ? "" : ` · now ${seconds(attributes[name])}`}`;
    return field(label, control, { hint });
  });
  const policy = redriveFields(queue, attributes.RedrivePolicy);
  controls.set("RedrivePolicy", policy.value);
  const allow = allowFields(attributes.RedriveAllowPolicy);
  controls.set("RedriveAllowPolicy", allow.value);
  const fifo = queue.isFifo && fifoFields(attributes, controls);
  const cli = cliBlock();
  const errors = h("div", {});
  const submit = h("button", { class: "primary" }, "Save");
  const changed = () => {
    const wanted = [...controls].map(([name, value]) => [name, value()]);
    return Object.fromEntries(wanted.filter(([name, value]) => !isSame(value, attributes[name] ?? "")));
  };
  const refresh = () => {
    const changes = changed();
    const isChanged = Object.keys(changes).length > 0;
    submit.disabled = !isChanged;
    cli.update(isChanged ? command("sqs", "SetQueueAttributes", { QueueUrl: queue.url, Attributes: changes }, queue.region, queue) : null);
  };
  const form = h("form", {}, h("div", { class: "fields" }, numbers), fifo, policy.element, allow.element, cli.element, errors, h("div", { class: "buttons" }, submit));
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    errors.replaceChildren();
    submit.disabled = true;
    try {
      await call("sqs", "SetQueueAttributes", { QueueUrl: queue.url, Attributes: changed() }, queue.place);
      toast("Saved.");
      await reload();
    } catch (error) {
      errors.replaceChildren(errorNotice(error));
      refresh();
    }
  });
  refresh();
  return panel("Configuration", {}, h("div", { class: "body" }, form));
}

function redriveFields(queue, text) {
  const policy = parsed(text);
  const target = h("input", { value: policy.deadLetterTargetArn?.split(":").pop() ?? "", placeholder: "none", autocomplete: "off", spellcheck: "false" });
  const receives = h("input", { type: "number", min: 1, max: 1000, value: policy.maxReceiveCount ?? 5, required: true });
  const value = () => {
    const name = target.value.trim();
    if (!name) return "";
    const arn = name.startsWith("arn:") ? name : queueArn({ ...queue, name });
    return JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: Number(receives.value) });
  };
  const element = h("fieldset", {}, h("legend", {}, "Redrive policy"), h("div", { class: "fields" },
    field("Dead-letter queue", target, { hint: "Name or ARN; empty for none" }), field("After receives", receives, { hint: "1 to 1,000" })));
  return { element, value };
}

function allowFields(text) {
  const policy = parsed(text);
  const permission = h("select", {}, [["", "All queues (default)"], ["denyAll", "No queue"], ["byQueue", "These queues"]].map(([id, title]) => h("option", { value: id, selected: policy.redrivePermission === id }, title)));
  const sources = h("textarea", { rows: 2, placeholder: "One ARN a line, at most 10" });
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
  return panel("All attributes", {}, h("div", { class: "table-frame", tabindex: "0" }, h("table", {}, h("caption", { class: "visually-hidden" }, "All attributes"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Attribute"), h("th", { scope: "col" }, "Value"))),
    h("tbody", {}, entries.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, h("code", {}, value), isEncryption(name, value) && h("span", { class: "place" }, "Kept only: bodies are not encrypted yet."))))))));
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
