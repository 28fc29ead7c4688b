// A domain's page: its figures, and the items that a query finds.

import { data, errorNotice } from "./actions.js";
import { cliBlock } from "./cli.js";
import { field, h, panel, replace, setText } from "./dom.js";
import { deleteItemDialog, itemDialog } from "./domain_item.js";
import { deleteDomainDialog } from "./domains.js";
import { onSubmit, say } from "./form.js";
import { bytes, count, counted } from "./format.js";
import { figuresOf, itemsOf, simpledb, simpledbCommand } from "./simpledb.js";
import { dataTable } from "./table.js";
import { textOf } from "./xml.js";

const FIGURES = [["items", "Items", count], ["names", "Attribute names", count], ["values", "Values", count], ["bytes", "Size", bytes]];

export function show(root) {
  const domain = data.domain;
  const { name, ...place } = domain;
  const numbers = new Map(FIGURES.map(([id]) => [id, h("dd", {}, "–")]));
  const expression = h("textarea", { rows: 2, spellcheck: "false", required: true, "data-shortcut": "/", "data-missing": "A query is needed." });
  const errors = h("div", {});
  const cli = cliBlock();
  const table = dataTable("Items", [["Item", "name"], ["Attributes", "wide"], ["Actions", "actions"]]);
  const empty = h("p", { class: "empty", hidden: true }, "No items.");
  const summary = h("span", { class: "quiet", role: "status" });
  const run = h("button", { class: "primary" }, "Run");
  const previous = h("button", { type: "button", class: "small", onclick: () => turn(() => load(tokens.slice(0, -1))) }, "Previous");
  const following = h("button", { type: "button", class: "small", onclick: () => turn(() => load([...tokens, next])) }, "Next");
  const paging = h("div", { class: "paging", hidden: true }, h("span", { class: "end" }, previous, following));
  // The pages up to the one shown, by the token of each; and that of the page after it.
  let asked = "";
  let tokens = [undefined];
  let next;

  expression.value = `select * from \`${name}\` limit 100`;
  const input = () => ({ SelectExpression: expression.value, ConsistentRead: true });
  const load = async (wanted) => {
    const answer = await simpledb("Select", { SelectExpression: asked, ConsistentRead: true, NextToken: wanted.at(-1) }, place);
    const items = itemsOf(answer);
    tokens = wanted;
    next = textOf(answer, "NextToken");
    replace(table.body, items.map((item) => rowOf(item)));
    table.frame.hidden = items.length === 0;
    empty.hidden = items.length > 0;
    paging.hidden = tokens.length === 1 && next === undefined;
    previous.disabled = tokens.length === 1;
    following.disabled = next === undefined;
    setText(summary, `${counted(items.length, "item")}${tokens.length > 1 ? `, page ${tokens.length}` : ""}`);
  };
  const turn = async (change) => {
    run.disabled = previous.disabled = following.disabled = true;
    try {
      await change();
      say(expression, "");
    } catch (error) {
      previous.disabled = tokens.length === 1;
      following.disabled = next === undefined;
      // SimpleDB names no parameter: what it refuses is the query, or its domain.
      if (error.status === 400) say(expression, `${error.type}: ${error.message}`);
      else replace(errors, errorNotice(error));
    }
    run.disabled = false;
  };
  const loadFigures = async () => {
    const figures = await figuresOf(domain);
    for (const [id, , format] of FIGURES) setText(numbers.get(id), format(figures[id]));
  };
  const reload = async () => {
    await loadFigures();
    await turn(() => load(tokens));
  };
  const rowOf = (item) => {
    const isCount = /^\s*select\s+count\s*\(/i.test(asked);
    const pairs = [...item.attributes].map(([attribute, values]) => h("div", {}, h("b", {}, attribute), " ", values.join(", ")));
    return table.row([h("span", { class: "name" }, item.name), pairs, !isCount && h("div", { class: "buttons" },
      h("button", { type: "button", class: "small", "aria-label": `Edit ${item.name}`, onclick: () => edit(item.name) }, "Edit"),
      h("button", { type: "button", class: "small danger", "aria-label": `Delete ${item.name}`, onclick: () => deleteItemDialog(domain, item.name, reload) }, "Delete"))]);
  };
  const edit = async (item) => {
    replace(errors);
    try {
      await itemDialog(domain, item, reload);
    } catch (error) {
      replace(errors, errorNotice(error));
    }
  };
  const form = h("form", {}, field("Select", expression), cli.element, errors, h("div", { class: "buttons" }, run, summary));
  const refresh = () => cli.update(simpledbCommand("Select", input(), place));
  form.addEventListener("input", refresh);
  onSubmit(form, errors, () => turn(() => {
    asked = expression.value;
    return load([undefined]);
  }));
  refresh();

  const put = h("button", { type: "button", class: "small", "data-shortcut": "c", onclick: () => edit(null) }, "Put item");
  const remove = h("button", { type: "button", class: "danger small", onclick: () => deleteDomainDialog(domain, () => location.assign("/domains")) }, "Delete");
  table.frame.hidden = true;
  replace(document.getElementById("facts"), h("span", { class: "quiet" }, `${place.region} · ${place.account}`), h("span", { class: "actions buttons" }, remove));
  replace(root,
    h("dl", { class: "figures" }, FIGURES.map(([id, title]) => h("div", {}, h("dt", {}, title), numbers.get(id)))),
    panel("Items", { end: put }, h("div", { class: "body" }, form), table.frame, empty, paging));
  loadFigures().then(() => form.requestSubmit(), (error) => {
    if (error.type !== "NoSuchDomain") replace(errors, errorNotice(error));
    else {
      replace(document.getElementById("facts"));
      replace(root, h("div", { class: "panel empty" }, h("h2", {}, "There is no such domain"),
        h("p", {}, "It was deleted, or never was. ", h("a", { href: "/domains" }, "All domains"))));
    }
  });
}
