// An item's form: attributes with their values, of which only what is changed is sent.

import { toast } from "./actions.js";
import { formDialog } from "./dialog.js";
import { field, h, keepText } from "./dom.js";
import { attributesOf, simpledb, simpledbCommand } from "./simpledb.js";

/** Opens the form for an item as it is now, or for a new one if `name` is null. */
export async function itemDialog({ name: domain, ...place }, name, done) {
  const stored = name === null ? new Map() : attributesOf(await simpledb("GetAttributes", { DomainName: domain, ItemName: name, ConsistentRead: true }, place));
  const item = h("input", { name: "ItemName", required: true, readonly: name !== null, autocomplete: "off", spellcheck: "false", "data-missing": "An item needs a name." });
  const itemName = keepText(item, name ?? "");
  const rows = h("div", {});
  const pairs = new Map();
  const addRow = (attribute = "", value = "") => {
    const key = h("input", { required: true, placeholder: "Name", "aria-label": "Attribute name", autocomplete: "off", spellcheck: "false", "data-missing": "An attribute needs a name." });
    const text = h("textarea", { rows: 1, placeholder: "Value", "aria-label": "Value", spellcheck: "false" });
    const row = h("div", { class: "attribute pair" }, key, text,
      h("button", { type: "button", onclick: () => {
        pairs.delete(row);
        row.remove();
        add.focus();
        opened.refresh();
      } }, "Remove"),
      h("span", { class: "error", role: "alert", hidden: true }));
    pairs.set(row, [keepText(key, attribute), keepText(text, value)]);
    rows.append(row);
    return key;
  };
  const add = h("button", { type: "button", class: "small", onclick: () => {
    addRow().focus();
    opened.refresh();
  } }, "Add value");
  for (const [attribute, values] of stored) values.forEach((value) => addRow(attribute, value));
  if (stored.size === 0) addRow();

  const changes = () => changesOf({ DomainName: domain, ItemName: itemName() }, stored, [...pairs.values()].map(([key, text]) => [key(), text()]));
  const opened = formDialog({
    title: name === null ? "Put item" : `Edit ${name}`,
    submit: name === null ? "Put item" : "Save",
    large: true,
    content: [
      h("div", { class: "fields" }, field("Item", item, { hint: name === null ? "If it exists, attributes of these names get new values." : undefined })),
      h("fieldset", {}, h("legend", {}, "Attributes"), rows, add),
      h("p", { class: "quiet" }, "The same name may have several values."),
    ],
    command: () => changes().map(([action, input]) => simpledbCommand(action, input, place)).join("\n") || null,
    isReady: () => changes().length > 0,
    run: async () => {
      for (const [action, input] of changes()) await simpledb(action, input, place);
      toast(`${itemName()} is saved.`);
      await done();
    },
  });
}

export function deleteItemDialog({ name: domain, ...place }, name, done) {
  const input = { DomainName: domain, ItemName: name };
  formDialog({
    title: "Delete item",
    submit: "Delete",
    danger: true,
    content: h("p", {}, "The item ", h("b", {}, name), " and all its attributes are gone for good."),
    command: () => simpledbCommand("DeleteAttributes", input, place),
    run: async () => {
      await simpledb("DeleteAttributes", input, place);
      toast(`${name} is deleted.`);
      await done();
    },
  });
}

/**
 * The actions, each with its input, that turn what is stored into these pairs. Attributes that nobody has edited are in
 * none of them: another client may have changed them meanwhile.
 */
function changesOf(item, stored, pairs) {
  const wanted = new Map();
  for (const [name, value] of pairs) wanted.set(name, (wanted.get(name) ?? new Set()).add(value));
  const isChanged = ([name, values]) => {
    const before = stored.get(name) ?? [];
    return before.length !== values.size || before.some((value) => !values.has(value));
  };
  const put = [...wanted].filter(isChanged).flatMap(([name, values]) => [...values].map((Value) => ({ Name: name, Value, Replace: true })));
  const removed = [...stored.keys()].filter((name) => !wanted.has(name)).map((Name) => ({ Name }));
  return [["PutAttributes", { ...item, Attributes: put }], ["DeleteAttributes", { ...item, Attributes: removed }]].filter(([, { Attributes }]) => Attributes.length > 0);
}
