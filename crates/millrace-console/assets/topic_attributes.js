// A topic's attributes: all of them, and a form for those that can be changed.

import { toast } from "./actions.js";
import { formDialog } from "./dialog.js";
import { field, h, keepText, panel, replace } from "./dom.js";
import { pretty } from "./json.js";
import { sns, snsCommand } from "./sns.js";
import { dataTable } from "./table.js";

const CHANGEABLE = ["DisplayName", "Policy", "DeliveryPolicy", "SignatureVersion", "MaximumMessageSize", "TracingConfig", "KmsMasterKeyId"];
const CHANGEABLE_FIFO = ["DisplayName", "Policy", "ContentBasedDeduplication", "FifoThroughputScope", "MaximumMessageSize", "TracingConfig", "KmsMasterKeyId"];

/** The panel; `update(attributes)` shows them. `changed` is called after each change. */
export function attributePanel(topic, changed) {
  const table = dataTable("Attributes", [["Attribute", "name"], ["Value", "wide"]]);
  let attributes = {};
  const set = h("button", { type: "button", class: "small", onclick: () => attributeDialog(topic, attributes, changed) }, "Set attribute");
  const update = (found) => {
    attributes = found;
    const entries = Object.entries(found).sort(([a], [b]) => a.localeCompare(b));
    replace(table.body, entries.map(([name, value]) => table.row([name, h("code", {}, value)])));
  };
  return { element: panel("Attributes", { end: set }, table.frame), update };
}

function attributeDialog(topic, attributes, done) {
  const name = h("select", {}, (topic.isFifo ? CHANGEABLE_FIFO : CHANGEABLE).map((id) => h("option", { value: id }, id)));
  const value = h("textarea", { rows: 6, spellcheck: "false" });
  let text;
  const show = () => {
    // The service names the attribute that it refuses.
    value.name = name.value;
    text = keepText(value, pretty(attributes[name.value] ?? "").text);
  };
  show();
  const input = () => ({ TopicArn: topic.arn, AttributeName: name.value, AttributeValue: text() });
  const isChanged = () => text() !== pretty(attributes[name.value] ?? "").text;
  name.addEventListener("change", show);
  formDialog({
    title: "Set attribute",
    submit: "Set attribute",
    large: true,
    content: [h("div", { class: "fields" }, field("Attribute", name), field("Value", value, { wide: true }))],
    command: () => (isChanged() ? snsCommand("SetTopicAttributes", input(), topic) : null),
    isReady: isChanged,
    run: async () => {
      await sns("SetTopicAttributes", input(), topic);
      toast(`${name.value} is set.`);
      await done();
    },
  });
}
