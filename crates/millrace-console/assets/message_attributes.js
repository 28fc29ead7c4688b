// Fields for the attributes of a message.

import { h, keepText, withValue } from "./dom.js";

/** Types that queues take. Types may have a label of their own, as in Number.int. */
const QUEUE_TYPES = ["String", "Number", "Binary"];
/** Types that topics take. */
export const TOPIC_TYPES = ["String", "String.Array", "Number", "Binary"];

/**
 * A fieldset with a row for each attribute. `value()` is what SQS and SNS take, or undefined; `add` shows an attribute
 * that is there already. `refresh` is called when a row has gone. Rows without a name are left out.
 */
export function attributeFields(legend, refresh, { types = QUEUE_TYPES, isNameNeeded = true } = {}) {
  const rows = h("div", {});
  const add = (attribute) => rows.append(attributeRow({ types, isNameNeeded, refresh }, attribute));
  const button = h("button", { type: "button", class: "small", onclick: () => add() }, "Add attribute");
  const value = () => {
    const entries = [...rows.children].map((row) => row.attribute());
    const named = entries.filter(([name]) => name !== "");
    return named.length ? Object.fromEntries(named) : undefined;
  };
  return { element: h("fieldset", {}, h("legend", {}, legend), rows, button), value, add };
}

function attributeRow({ types, isNameNeeded, refresh }, { name = "", type = "String", value = "" } = {}) {
  const names = h("input", { "aria-label": "Attribute name", placeholder: "Name", value: name, autocomplete: "off", required: isNameNeeded, "data-missing": "An attribute needs a name." });
  const kinds = h("select", { "aria-label": "Attribute type" },
    withValue(types.map((known) => [known, known]), type).map(([id, title]) => h("option", { value: id, selected: id === type }, title)));
  const values = h("textarea", { rows: 1, "aria-label": "Attribute value", placeholder: "Value; of Binary in base64", autocomplete: "off" });
  const text = keepText(values, value);
  const row = h("div", { class: "attribute" }, names, kinds, values,
    h("button", { type: "button", class: "small", "aria-label": "Remove this attribute", onclick: () => {
      row.remove();
      refresh();
    } }, "Remove"), h("span", { class: "error", role: "alert", hidden: true }));
  // Of two attributes with one name only one would be sent.
  names.rule = () => {
    const before = [...row.parentElement.children].slice(0, [...row.parentElement.children].indexOf(row));
    return names.value !== "" && before.some((other) => other.attribute()[0] === names.value) ? `There are two attributes with the name ${names.value}.` : "";
  };
  row.attribute = () => [names.value, { DataType: kinds.value, [kinds.value.startsWith("Binary") ? "BinaryValue" : "StringValue"]: text() }];
  return row;
}
