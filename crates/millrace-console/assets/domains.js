// Domains of SimpleDB: what there is in a region, creating and deleting.

import { data, errorNotice, toast } from "./actions.js";
import { cliBlock } from "./cli.js";
import { confirmDialog, formDialog } from "./dialog.js";
import { field, h, replace, setText } from "./dom.js";
import { bytes, count, counted } from "./format.js";
import { choosePlace, placeField, placeName } from "./places.js";
import { domainPath, figuresOf, simpledb, simpledbCommand } from "./simpledb.js";
import { dataTable } from "./table.js";
import { textOf } from "./xml.js";

/** SimpleDB: names of one answer. */
const PAGE = 100;

export function show(root) {
  const errors = h("div", {});
  const table = dataTable("Domains", [["Name", "name"], ["Items", "number"], ["Values", "number"], ["Size", "number"], ["Actions", "actions"]]);
  const empty = h("div", { class: "empty" }, h("h2", {}, "No domains here yet"),
    h("p", {}, "A domain of SimpleDB holds items, each with attributes that have any number of values."),
    cliBlock(simpledbCommand("CreateDomain", { DomainName: "cars" }), { open: true }).element);
  const summary = h("span", { class: "quiet", role: "status" });
  const more = h("button", { type: "button", class: "small", onclick: () => load(next) }, "More domains");
  const paging = h("div", { class: "paging", hidden: true }, h("span", { class: "end" }, more));
  const create = h("button", { type: "button", class: "primary", "data-shortcut": "c", onclick: () => createDialog(place.value(), (domain) => location.assign(domainPath(domain))) }, "Create domain");
  let place = placeField([{ region: data.region, account: data.account }]);
  let next;
  // Answers for a region that is not shown any more are dropped.
  let turns = 0;

  const load = async (token) => {
    const turn = ++turns;
    const asked = place.value();
    more.disabled = true;
    try {
      const answer = await simpledb("ListDomains", { MaxNumberOfDomains: PAGE, NextToken: token }, asked);
      const domains = [...answer.querySelectorAll("DomainName")].map(({ textContent }) => ({ ...asked, name: textContent }));
      const rows = await Promise.all(domains.map((domain) => rowOf(table, domain, () => load())));
      if (turn !== turns) return;
      next = textOf(answer, "NextToken");
      replace(errors);
      replace(table.body, token ? [...table.body.children] : [], rows);
      const shown = table.body.children.length;
      table.frame.hidden = shown === 0;
      empty.hidden = shown > 0;
      paging.hidden = next === undefined;
      setText(summary, shown ? `${counted(shown, "domain")}${next ? " shown" : ""}` : "");
    } catch (error) {
      if (turn === turns) replace(errors, errorNotice(error));
    }
    more.disabled = false;
  };
  const start = async () => {
    place = await choosePlace("domains", "/domains", () => load());
    summary.before(place.element);
    await load();
  };
  table.frame.hidden = empty.hidden = true;
  replace(root, h("div", { class: "toolbar" }, summary, h("div", { class: "end" }, create)), errors, h("div", { class: "panel" }, table.frame, empty, paging));
  start().catch((error) => replace(errors, errorNotice(error)));
}

async function rowOf(table, domain, reload) {
  // One that was deleted meanwhile has no figures.
  const figures = await figuresOf(domain).catch(() => ({}));
  return table.row([
    h("a", { class: "name", href: domainPath(domain) }, domain.name), count(figures.items), count(figures.values), bytes(figures.bytes),
    h("button", { type: "button", class: "small danger", "aria-label": `Delete ${domain.name}`, onclick: () => deleteDomainDialog(domain, reload) }, "Delete"),
  ]);
}

export function deleteDomainDialog({ name, ...place }, done) {
  const input = { DomainName: name };
  confirmDialog({
    title: `Delete ${name}`,
    text: "The domain and all its items are gone for good.",
    phrase: name,
    submit: "Delete",
    command: () => simpledbCommand("DeleteDomain", input, place),
    run: async () => {
      await simpledb("DeleteDomain", input, place);
      toast(`${name} is deleted.`);
      done();
    },
  });
}

function createDialog(place, done) {
  const name = h("input", { name: "DomainName", required: true, maxlength: 255, pattern: "[A-Za-z0-9_.\\-]{3,}", autocomplete: "off", spellcheck: "false",
    "data-missing": "A domain needs a name.", "data-pattern": "3 or more letters, digits, -, _ and . only." });
  const input = () => ({ DomainName: name.value });
  formDialog({
    title: `Create domain in ${placeName(place)}`,
    submit: "Create domain",
    content: field("Name", name, { hint: "3 to 255 letters, digits, -, _ and ." }),
    command: () => simpledbCommand("CreateDomain", input(), place),
    run: async () => {
      await simpledb("CreateDomain", input(), place);
      done({ ...place, name: name.value });
    },
  });
}
