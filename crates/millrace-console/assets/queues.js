// The queues: filter, sort, page through, create, purge, delete. What is shown is in the address.

import { call, data, keyOfArn, queueArn, queuePath, queueUrl, toast } from "./actions.js";
import { cliBlock, command } from "./cli.js";
import { confirmDialog, formDialog } from "./dialog.js";
import { checkField, field, h, isPlain, replace, setAttribute, setText } from "./dom.js";
import { age, count, counted, day, rate } from "./format.js";
import { Live } from "./live.js";
import { isHere } from "./places.js";

const COLUMNS = [
  { id: "name", title: "Name", first: "ascending" },
  { id: "available", title: "Messages available", number: true, text: (row) => count(row.available) },
  { id: "in_flight", title: "Messages in flight", number: true, text: (row) => count(row.in_flight) },
  { id: "delayed", title: "Delayed", number: true, text: (row) => count(row.delayed), wide: true },
  { id: "oldest", title: "Oldest", number: true, text: (row, head) => age(row.oldest, head.now), wide: true },
  { id: "sent", title: "Sent/s", number: true, text: (row) => rate(row.sent), wide: true },
  { id: "deleted", title: "Deleted/s", number: true, text: (row) => rate(row.deleted), wide: true },
  { id: null, title: "Dead letters", wide: true },
  { id: "created", title: "Created", number: true, text: (row) => day(row.created), wide: true },
];
/** Of refusals that one notice tells. */
const MAX_REASONS = 5;
const TYPES = [["", "All types"], ["standard", "Standard"], ["fifo", "FIFO"], ["dead-letter", "Dead-letter queues"]];

export function show(root) {
  const page = new QueuesPage(root);
  if (new URLSearchParams(location.search).has("create")) page.create();
}

class QueuesPage {
  #parameters = new URLSearchParams(location.search);
  #selected = new Set();
  #rows = new Map();
  #body = h("tbody", {});
  #headers = new Map();
  #live;

  constructor(root) {
    this.#filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name", "data-shortcut": "/", autocomplete: "off", spellcheck: "false" });
    this.#filter.value = this.#parameters.get("filter") ?? "";
    this.#type = h("select", { "aria-label": "Type" }, TYPES.map(([value, title]) => h("option", { value }, title)));
    this.#type.value = this.#parameters.get("type") ?? "";
    this.#all = h("input", { type: "checkbox", "aria-label": "Select all on this page" });
    this.#purge = h("button", { type: "button", class: "danger", disabled: true, onclick: () => this.#purgeSelected() }, "Purge");
    this.#remove = h("button", { type: "button", class: "danger", disabled: true, onclick: () => this.#deleteSelected() }, "Delete");
    const create = h("button", { type: "button", class: "primary", "data-shortcut": "c", onclick: () => this.create() }, "Create queue");
    this.#summary = h("span", { class: "quiet", role: "status" });
    this.#previous = h("a", { class: "button" }, "Previous");
    this.#next = h("a", { class: "button" }, "Next");
    this.#pages = h("span", {});
    this.#paging = h("nav", { class: "paging", "aria-label": "Pages" }, this.#pages, h("span", { class: "end" }, this.#previous, this.#next));
    this.#empty = h("div", { class: "empty" });
    this.#table = h("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": "Queues" }, h("table", {},
      h("caption", { class: "visually-hidden" }, "Queues"), h("thead", {}, this.#headRow()), this.#body));
    replace(root,
      h("div", { class: "toolbar" }, h("div", { class: "grow" }, this.#filter), this.#type, this.#summary,
        h("div", { class: "end" }, this.#purge, this.#remove, create)),
      h("div", { class: "panel" }, this.#table, this.#empty, this.#paging));
    this.#listen();
    this.#live = new Live(this.#query(), (state) => this.#show(state));
  }

  #filter; #type; #all; #purge; #remove; #summary; #previous; #next; #pages; #paging; #empty; #table;

  create() {
    createDialog((key) => {
      const name = key.split("/").pop();
      toast(`Queue ${name} is there.`);
      this.#live.setQuery(this.#query());
    });
  }

  #listen() {
    let timer;
    this.#filter.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#go({ filter: this.#filter.value.trim(), page: null }), 150);
    });
    this.#type.addEventListener("change", () => this.#go({ type: this.#type.value, page: null }));
    this.#all.addEventListener("change", () => {
      for (const [key, row] of this.#rows) {
        row.check.checked = this.#all.checked;
        this.#all.checked ? this.#selected.add(key) : this.#selected.delete(key);
      }
      this.#showSelection();
    });
    for (const link of [this.#previous, this.#next]) {
      link.addEventListener("click", (event) => {
        if (!link.hasAttribute("href") || !isPlain(event)) return;
        event.preventDefault();
        this.#go({ page: new URL(link.href).searchParams.get("page") });
        scrollTo(0, 0);
      });
    }
    addEventListener("popstate", () => {
      this.#parameters = new URLSearchParams(location.search);
      this.#filter.value = this.#parameters.get("filter") ?? "";
      this.#type.value = this.#parameters.get("type") ?? "";
      this.#showSort();
      this.#live.setQuery(this.#query());
    });
  }

  #headRow() {
    const cells = COLUMNS.map((column) => {
      const content = column.id ? h("a", { href: "#", onclick: (event) => {
        if (!isPlain(event)) return;
        event.preventDefault();
        this.#go({ sort: column.id, order: this.#nextOrder(column), page: null });
      } }, column.title) : column.title;
      const cell = h("th", { scope: "col", class: classes(column) }, content);
      if (column.id) this.#headers.set(column.id, cell);
      return cell;
    });
    const row = h("tr", {}, h("th", { scope: "col", class: "check" }, this.#all), cells);
    this.#showSort();
    return row;
  }

  #sort() {
    const id = this.#parameters.get("sort") ?? "available";
    const column = COLUMNS.find((column) => column.id === id) ?? COLUMNS[1];
    return { id: column.id, order: this.#parameters.get("order") ?? column.first ?? "descending" };
  }

  #nextOrder(column) {
    const { id, order } = this.#sort();
    if (id !== column.id) return column.first ?? "descending";
    return order === "descending" ? "ascending" : "descending";
  }

  #showSort() {
    const { id, order } = this.#sort();
    for (const [key, cell] of this.#headers) {
      setAttribute(cell, "aria-sort", key === id ? order : null);
      const column = COLUMNS.find((column) => column.id === key);
      cell.firstChild.href = this.#address({ sort: key, order: this.#nextOrder(column), page: null });
    }
  }

  #address(changes) {
    const parameters = new URLSearchParams(this.#parameters);
    parameters.delete("create");
    for (const [name, value] of Object.entries(changes)) {
      if (value) parameters.set(name, value);
      else parameters.delete(name);
    }
    const query = parameters.toString();
    return query ? `/queues?${query}` : "/queues";
  }

  #go(changes) {
    const address = this.#address(changes);
    this.#parameters = new URL(address, location.href).searchParams;
    history.pushState(null, "", address);
    this.#showSort();
    this.#live.setQuery(this.#query());
  }

  #query() {
    const parameters = new URLSearchParams(this.#parameters);
    parameters.delete("create");
    const { id, order } = this.#sort();
    parameters.set("sort", id);
    parameters.set("order", order);
    parameters.set("view", "queues");
    return parameters.toString();
  }

  #show({ head, lists }) {
    const rows = lists.queues ?? [];
    const isFiltered = this.#parameters.get("filter") || this.#parameters.get("type");
    setText(this.#summary, isFiltered ? `${count(head.count)} of ${count(head.total)} queues` : counted(head.total, "queue"));
    this.#table.hidden = rows.length === 0;
    this.#empty.hidden = rows.length > 0;
    if (rows.length === 0 && this.#empty.dataset.kind !== (isFiltered ? "filter" : "none")) {
      this.#empty.dataset.kind = isFiltered ? "filter" : "none";
      replace(this.#empty, isFiltered ? h("p", {}, "No queue fits the filter.") : emptyText());
    }
    this.#paging.hidden = head.pages <= 1;
    setText(this.#pages, `Page ${head.page} of ${head.pages}`);
    setAttribute(this.#previous, "href", head.page > 1 ? this.#address({ page: head.page - 1 }) : null);
    setAttribute(this.#next, "href", head.page < head.pages ? this.#address({ page: head.page + 1 }) : null);
    this.#showRows(rows, head);
  }

  #showRows(rows, head) {
    const keys = new Set(rows.map((row) => row.key));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
      this.#selected.delete(key);
    }
    let place = this.#body.firstChild;
    for (const data of rows) {
      let row = this.#rows.get(data.key);
      if (!row) {
        row = this.#newRow(data);
        this.#rows.set(data.key, row);
      }
      row.update(data, head);
      // Rows are moved only where the order differs, so that focus stays.
      if (row.element === place) place = place.nextSibling;
      else this.#body.insertBefore(row.element, place);
    }
    this.#showSelection();
  }

  #newRow(row) {
    const check = h("input", { type: "checkbox", "aria-label": `Select ${row.name}`, onchange: () => {
      check.checked ? this.#selected.add(row.key) : this.#selected.delete(row.key);
      this.#showSelection();
    } });
    check.checked = this.#selected.has(row.key);
    const link = h("a", { class: "name", href: queuePath(row.key) }, row.name);
    const cells = COLUMNS.slice(1).map((column) => h("td", { class: classes(column) }));
    const element = h("tr", {}, h("td", { class: "check" }, check),
      h("th", { scope: "row" }, link, row.is_fifo && h("span", { class: "badge" }, "FIFO"), placeLine(row)), cells);
    let deadLetters = null;
    const update = (now, head) => {
      COLUMNS.slice(1).forEach((column, index) => {
        if (!column.text) return;
        const text = column.text(now, head);
        setText(cells[index], text);
        setAttribute(cells[index], "class", `${classes(column)}${text === "0" || text === "–" ? " zero" : ""}`);
      });
      const wanted = `${now.dead_letter_queue ?? ""} ${now.sources ?? ""}`;
      if (deadLetters !== wanted) {
        deadLetters = wanted;
        replace(cells[COLUMNS.findIndex((column) => column.title === "Dead letters") - 1], deadLetterLinks(now));
      }
    };
    return { element, check, update };
  }

  #showSelection() {
    const count = this.#selected.size;
    this.#purge.disabled = this.#remove.disabled = count === 0;
    setText(this.#purge, count > 1 ? `Purge ${count}` : "Purge");
    setText(this.#remove, count > 1 ? `Delete ${count}` : "Delete");
    this.#all.checked = count > 0 && count === this.#rows.size;
    this.#all.indeterminate = count > 0 && count < this.#rows.size;
  }

  #purgeSelected() {
    endDialog("purge", [...this.#selected], () => this.#clear());
  }

  #deleteSelected() {
    endDialog("delete", [...this.#selected], () => this.#clear());
  }

  #clear() {
    this.#selected.clear();
    for (const row of this.#rows.values()) row.check.checked = false;
    this.#showSelection();
  }
}

function classes(column) {
  return [column.number && "number", column.wide && "narrow-hidden"].filter(Boolean).join(" ");
}

function deadLetterLinks(row) {
  const name = (key) => key.split("/").pop();
  const links = [];
  if (row.dead_letter_queue) links.push(["→ ", h("a", { href: queuePath(row.dead_letter_queue) }, name(row.dead_letter_queue))]);
  if (row.sources) links.push([links.length ? " · " : "", h("a", { href: queuePath(row.key, "dead-letters") }, `of ${counted(row.sources, "queue")}`)]);
  return links;
}

/** Region and account, of a queue that is not where most are. */
function placeLine(place) {
  return !isHere(place) && h("span", { class: "place" }, `${place.region} · ${place.account}`);
}

function emptyText() {
  return [
    h("h2", {}, "No queues yet"),
    h("p", {}, "Create one with the button above, or from a terminal:"),
    cliBlock(command("sqs", "CreateQueue", { QueueName: "letters" }), { open: true }).element,
  ];
}

/**
 * Asks for the name to be typed, then purges or deletes the queues of these keys. One that is refused
 * keeps no other from its turn; trying again is for those that were refused.
 */
export function endDialog(verb, keys, done) {
  const [action, past] = verb === "purge" ? ["PurgeQueue", "purged"] : ["DeleteQueue", "deleted"];
  const isOne = keys.length === 1;
  let places = keys.map((key) => {
    const [region, account, name] = key.split("/");
    return { region, account, name };
  });
  const what = isOne ? places[0].name : `${keys.length} queues`;
  const end = async (place) => {
    try {
      await call("sqs", action, { QueueUrl: queueUrl(place) }, place);
    } catch (error) {
      // Somebody else was faster.
      if (verb === "delete" && error.type === "QueueDoesNotExist") return null;
      // Without an answer, or a session, the others have no chance either.
      if (isOne || !error.type || error.status === 401) throw error;
      return { place, error };
    }
    return null;
  };
  confirmDialog({
    title: `${verb === "purge" ? "Purge" : "Delete"} ${what}`,
    text: verb === "purge" ? "All messages are dropped, those in flight and delayed as well." : `${isOne ? "The queue and all its" : "The queues and all their"} messages are gone for good.`,
    details: isOne ? null : h("ul", { class: "names", tabindex: "0", "aria-label": "Queues" }, places.map((place) => h("li", {}, place.name, placeLine(place)))),
    phrase: isOne ? what : `${verb} ${what}`,
    submit: verb === "purge" ? "Purge" : "Delete",
    command: () => places.map((place) => command("sqs", action, { QueueUrl: queueUrl(place) }, place.region, place)).join("\n"),
    run: async () => {
      const results = [];
      for (const place of places) results.push(await end(place));
      const refused = results.filter(Boolean);
      places = refused.map(({ place }) => place);
      if (refused.length) {
        const reasons = refused.slice(0, MAX_REASONS).map(({ place, error }) => `${place.name}: ${error.message}`);
        throw new Error(`${count(refused.length)} of ${what} could not be ${past}. ${reasons.join(" ")}`);
      }
      toast(`${what} ${isOne ? "is" : "are"} ${past}.`);
      done();
    },
  });
}

function createDialog(done) {
  const name = h("input", { required: true, maxlength: "80", pattern: "[A-Za-z0-9_\\-]+(\\.fifo)?", autocomplete: "off", spellcheck: "false" });
  const type = h("select", {}, h("option", { value: "standard" }, "Standard"), h("option", { value: "fifo" }, "FIFO"));
  const number = (value, min, max) => h("input", { type: "number", value, min, max, required: true });
  const visibility = number(30, 0, 43_200);
  const delay = number(0, 0, 900);
  const retention = number(345_600, 60, 1_209_600);
  const wait = number(0, 0, 20);
  const dead = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "none" });
  const receives = number(5, 1, 1000);
  const content = h("input", { type: "checkbox" });
  const contentField = checkField("Deduplicate by content", content);
  const fullName = () => (type.value === "fifo" && !name.value.endsWith(".fifo") ? `${name.value}.fifo` : name.value);
  const input = () => {
    const attributes = {};
    const put = (key, control, standard) => {
      if (control.value !== String(standard)) attributes[key] = control.value;
    };
    put("VisibilityTimeout", visibility, 30);
    put("DelaySeconds", delay, 0);
    put("MessageRetentionPeriod", retention, 345_600);
    put("ReceiveMessageWaitTimeSeconds", wait, 0);
    if (type.value === "fifo") {
      attributes.FifoQueue = "true";
      if (content.checked) attributes.ContentBasedDeduplication = "true";
    }
    if (dead.value.trim()) {
      const target = dead.value.trim().startsWith("arn:") ? dead.value.trim() : queueArn({ ...data, name: dead.value.trim() });
      attributes.RedrivePolicy = JSON.stringify({ deadLetterTargetArn: target, maxReceiveCount: Number(receives.value) });
    }
    return { QueueName: fullName(), Attributes: Object.keys(attributes).length ? attributes : undefined };
  };
  const { refresh } = formDialog({
    title: "Create queue",
    submit: "Create queue",
    large: true,
    content: [
      h("div", { class: "fields" },
        field("Name", name, { hint: "Letters, digits, - and _; FIFO names end with .fifo." }),
        field("Type", type, { hint: "FIFO keeps the order within a message group." })),
      h("div", { class: "fields" },
        field("Visibility timeout, seconds", visibility, { hint: "0 to 43,200" }),
        field("Delay, seconds", delay, { hint: "0 to 900" }),
        field("Retention, seconds", retention, { hint: "60 to 1,209,600" }),
        field("Receive wait time, seconds", wait, { hint: "0 to 20" })),
      h("div", { class: "fields" },
        field("Dead-letter queue", dead, { hint: "Name or ARN of an existing queue of the same type." }),
        field("Receives before that", receives, { hint: "1 to 1,000" })),
      contentField,
    ],
    command: () => command("sqs", "CreateQueue", input()),
    isReady: () => name.value !== "" && name.validity.valid,
    run: async () => {
      const answer = await call("sqs", "CreateQueue", input());
      const made = answer.QueueUrl.split("/").pop();
      done(keyOfArn(queueArn({ ...data, name: made })));
    },
  });
  const showType = () => {
    contentField.hidden = type.value !== "fifo";
    refresh();
  };
  type.addEventListener("change", showType);
  showType();
}
