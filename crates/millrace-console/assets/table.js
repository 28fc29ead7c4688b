// Tables. In a narrow window each row reads as a stack of its cells, each with the name of its column.

import { h } from "./dom.js";

/**
 * A table in a frame. Columns are `[title, kind]`: the kind "name" is the row's header, "number" stands right,
 * "wide" takes a line of its own when stacked, "check" and "actions" have no name to show.
 */
export function dataTable(caption, columns, { head, class: name } = {}) {
  const body = h("tbody", { role: "rowgroup" });
  const titles = head ?? h("tr", { role: "row" }, columns.map(([title, kind]) => headCell(title, kind)));
  const table = h("table", { role: "table" }, h("caption", { class: "visually-hidden" }, caption), h("thead", { role: "rowgroup" }, titles), body);
  const frame = h("div", { class: `table-frame ${name ?? ""}`.trim(), tabindex: "0", role: "group", "aria-label": caption }, table);
  const row = (contents, attributes = {}) => h("tr", { role: "row", ...attributes }, contents.map((content, index) => cell(columns[index], content)));
  return { frame, body, row };
}

export function headCell(title, kind, content = title) {
  const shown = kind === "actions" ? h("span", { class: "visually-hidden" }, content) : content;
  return h("th", { scope: "col", role: "columnheader", class: kind === "number" || kind === "check" ? kind : null }, shown);
}

export function cell([title, kind], content) {
  if (kind === "name") return h("th", { scope: "row", role: "rowheader" }, content);
  const label = kind === "check" || kind === "actions" ? null : title;
  return h("td", { role: "cell", class: kind, "data-label": label }, content);
}
