// The queues: filter, sort, page through, create, purge, delete. What is shown is in the address.

import { call, data, keyOfArn, queueArn, queuePath, queueUrl, toast } from "./actions.js";
import { cliBlock, command } from "./cli.js";
import { confirmDialog, formDialog } from "./dialog.js";
import { checkField, field, h, isPlain, replace, setAttribute, setText } from "./dom.js";
import { durationField } from "./form.js";
import { age, count, counted, day, rate } from "./format.js";
import { Live } from "./live.js";
import { isHere, placeField, places } from "./places.js";
import { queuePicker } from "./queue_picker.js";
import { dataTable, headCell } from "./table.js";

const COLUMNS = [
  { id: "name", title: "Name", kind: "name", first: "ascending" },
  { id: "region", title: "Region", kind: "nowrap", first: "ascending", text: (row) => row.region },
  { id: "available", title: "Available", kind: "number", text: (row) => count(row.available) },
  { id: "in_flight", title: "In flight", kind: "number", text: (row) => count(row.in_flight) },
  { id: "delayed", title: "Delayed", kind: "number", text: (row) => count(row.delayed) },
  { id: "oldest", title: "Oldest", kind: "number", text: (row, head) => age(row.oldest, head.now) },
  { id: "sent", title: "Sent/s", kind: "number", text: (row) => rate(row.sent) },
  { id: "deleted", title: "Deleted/s", kind: "number", text: (row) => rate(row.deleted) },
  { id: null, title: "Dead letters" },
  { id: "created", title: "Created", kind: "number", text: (row) => day(row.created) },
];
const DEFAULT_SORT = COLUMNS.find(({ id }) => id === "available");
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
  #headers = new Map();
  #live;

  constructor(root) {
    this.#filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name", "data-shortcut": "/", autocomplete: "off", spellcheck: "false" });
    this.#filter.value = this.#parameters.get("filter") ?? "";
    this.#type = h("select", { "aria-label": "Type" }, TYPES.map(([value, title]) => h("option", { value }, title)));
    this.#type.value = this.#parameters.get("type") ?? "";
    this.#region = h("select", { "aria-label": "Region", hidden: true });
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
    const columns = [["Select", "check"], ...COLUMNS.map(({ title, kind }) => [title, kind])];
    this.#table = dataTable("Queues", columns, { head: this.#headRow(), class: "sortable" });
    replace(root,
      h("div", { class: "toolbar" }, h("div", { class: "grow" }, this.#filter), this.#type, this.#region, this.#summary,
        h("div", { class: "end" }, this.#purge, this.#remove, create)),
      h("div", { class: "panel" }, this.#table.frame, this.#empty, this.#paging));
    this.#listen();
    this.#live = new Live(this.#query(), (state) => this.#show(state));
  }

  #filter; #type; #region; #all; #purge; #remove; #summary; #previous; #next; #pages; #paging; #empty; #table;

  async create() {
    // Without an answer there is the configured region.
    const options = await places().catch(() => [{ region: data.region, account: data.account }]);
    createDialog(options, (key) => {
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
    this.#region.addEventListener("change", () => this.#go({ region: this.#region.value, page: null }));
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
      const cell = headCell(column.title, column.kind, content);
      if (column.id) this.#headers.set(column.id, cell);
      return cell;
    });
    const row = h("tr", { role: "row" }, headCell("Select", "check", this.#all), cells);
    this.#showSort();
    return row;
  }

  #sort() {
    const id = this.#parameters.get("sort") ?? "available";
    const column = COLUMNS.find((column) => column.id === id) ?? DEFAULT_SORT;
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
    const isFiltered = this.#parameters.get("filter") || this.#parameters.get("type") || this.#parameters.get("region");
    this.#showRegions(head.regions ?? []);
    setText(this.#summary, isFiltered ? `${count(head.count)} of ${count(head.total)} queues` : counted(head.total, "queue"));
    this.#table.frame.hidden = rows.length === 0;
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

  /** The filter of regions, where there is more than one. */
  #showRegions(regions) {
    const chosen = this.#parameters.get("region") ?? "";
    const wanted = chosen === "" || regions.includes(chosen) ? regions : [...regions, chosen];
    this.#region.hidden = wanted.length < 2 && chosen === "";
    if (this.#region.dataset.regions !== wanted.join(" ")) {
      this.#region.dataset.regions = wanted.join(" ");
      replace(this.#region, h("option", { value: "" }, "All regions"), wanted.map((region) => h("option", { value: region }, region)));
    }
    if (this.#region.value !== chosen && document.activeElement !== this.#region) this.#region.value = chosen;
  }

  #showRows(rows, head) {
    const keys = new Set(rows.map((row) => row.key));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
      this.#selected.delete(key);
    }
    let place = this.#table.body.firstChild;
    for (const data of rows) {
      let row = this.#rows.get(data.key);
      if (!row) {
        row = this.#newRow(data);
        this.#rows.set(data.key, row);
      }
      row.update(data, head);
      // Rows are moved only where the order differs, so that focus stays.
      if (row.element === place) place = place.nextSibling;
      else this.#table.body.insertBefore(row.element, place);
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
    const type = h("span", { class: "badge", hidden: true });
    const name = [link, row.is_fifo && h("span", { class: "badge" }, "FIFO"), type, row.account !== data.account && h("span", { class: "place" }, row.account)];
    const element = this.#table.row([check, name, ...COLUMNS.slice(1).map(() => "")]);
    const cells = [...element.children].slice(2);
    let deadLetters = null;
    const update = (now, head) => {
      COLUMNS.slice(1).forEach((column, index) => {
        if (!column.text) return;
        const text = column.text(now, head);
        setText(cells[index], text);
        cells[index].classList.toggle("zero", text === "0" || text === "–");
      });
      type.hidden = !now.push_type;
      setText(type, now.push_type ?? "");
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
    details: h("div", {},
      isOne ? null : h("ul", { class: "names", tabindex: "0", "aria-label": "Queues" }, places.map((place) => h("li", {}, place.name, placeLine(place)))),
      verb === "delete" ? sourcesNotice(places) : null),
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

/** A warning, shown once it is known that other queues send their dead letters to one of these. */
function sourcesNotice(places) {
  const notice = h("p", { class: "notice warn", hidden: true });
  const asked = places.slice(0, MAX_REASONS);
  const sources = (place) => call("sqs", "ListDeadLetterSourceQueues", { QueueUrl: queueUrl(place) }, place).then((answer) => answer.queueUrls?.length ?? 0, () => 0);
  Promise.all(asked.map(sources)).then((counts) => {
    const used = asked.filter((_, index) => counts[index]).map((place) => place.name);
    if (!used.length) return;
    notice.textContent = `Other queues send their dead letters to ${used.join(", ")}. Without it their messages stay where they are, however often they are received.`;
    notice.hidden = false;
  });
  return notice;
}

/** A form for a queue in one of `options`. */
function createDialog(options, done) {
  const place = placeField(options);
  const name = h("input", { name: "QueueName", required: true, maxlength: "80", pattern: "[A-Za-z0-9_\\-]+(\\.fifo)?", autocomplete: "off", spellcheck: "false",
    "data-missing": "A queue needs a name.", "data-pattern": "Letters, digits, - and _ only; .fifo at the end at most." });
  const type = h("select", {}, h("option", { value: "standard" }, "Standard"), h("option", { value: "fifo" }, "FIFO"));
  const durations = [
    durationField("Visibility timeout", { name: "VisibilityTimeout", value: 30, max: 43_200 }),
    durationField("Delay", { name: "DelaySeconds", value: 0, max: 900 }),
    durationField("Retention", { name: "MessageRetentionPeriod", value: 345_600, min: 60, max: 1_209_600 }),
    durationField("Receive wait time", { name: "ReceiveMessageWaitTimeSeconds", value: 0, max: 20 }),
  ];
  const usual = durations.map((duration) => duration.seconds());
  const dead = queuePicker("Dead-letter queue", { name: "RedrivePolicy", place: place.value, none: "None", fits: (name) => name.endsWith(".fifo") === (type.value === "fifo"), hint: "Takes what was received too often. Of the same type and region." });
  const receives = h("input", { type: "number", value: 5, min: 1, max: 1000, required: true });
  const receivesField = field("Receives before that", receives, { hint: "1 to 1,000" });
  const content = h("input", { type: "checkbox" });
  const contentField = checkField("Deduplicate by content", content);
  const fullName = () => (type.value === "fifo" && !name.value.endsWith(".fifo") ? `${name.value}.fifo` : name.value);
  const input = () => {
    const attributes = {};
    durations.forEach(({ input, seconds }, index) => {
      if (Number.isInteger(seconds()) && seconds() !== usual[index]) attributes[input.name] = String(seconds());
    });
    if (type.value === "fifo") {
      attributes.FifoQueue = "true";
      if (content.checked) attributes.ContentBasedDeduplication = "true";
    }
    if (dead.arn()) attributes.RedrivePolicy = JSON.stringify({ deadLetterTargetArn: dead.arn(), maxReceiveCount: Number(receives.value) });
    return { QueueName: fullName(), Attributes: Object.keys(attributes).length ? attributes : undefined };
  };
  const { dialog } = formDialog({
    title: "Create queue",
    submit: "Create queue",
    large: true,
    content: [
      h("div", { class: "fields" },
        field("Name", name, { hint: "Letters, digits, - and _; FIFO names end with .fifo." }),
        field("Type", type, { hint: "FIFO keeps the order within a message group." }),
        place.element),
      h("div", { class: "fields" }, durations.map(({ element }) => element)),
      h("div", { class: "fields" }, dead.element, dead.otherField, receivesField),
      contentField,
    ],
    command: () => command("sqs", "CreateQueue", input(), place.value().region, place.value()),
    run: async () => {
      const answer = await call("sqs", "CreateQueue", input(), place.value());
      const made = answer.QueueUrl.split("/").pop();
      done(keyOfArn(queueArn({ ...place.value(), name: made })));
    },
  });
  const show = () => {
    contentField.hidden = type.value !== "fifo";
    receivesField.hidden = dead.list.value === "";
  };
  const relist = () => dead.load();
  type.addEventListener("change", relist);
  place.select.addEventListener("change", relist);
  dialog.addEventListener("change", show);
  show();
}
