// One message in a list: a line that opens to all that is known of it.

import { errorNotice } from "./actions.js";
import { copyButton, h, replace, setAttribute, setText } from "./dom.js";
import { bytes, count, dateTime, duration } from "./format.js";
import { pretty } from "./json.js";
import { dataTable } from "./table.js";

const STATES = { available: "Available", in_flight: "In flight", delayed: "Delayed", gone: "Gone" };
/** Characters that are not seen, or seen as a space; some turn the text around them. */
const HIDDEN = /(?![ \t\n\r])[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}]/gu;
/** Emoji of several parts are joined by one of them. */
const JOINED_EMOJI = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F]\u200D/gu;
/** Of a text with marks; what comes behind is shown without. */
const MAX_PARTS = 400;

/**
 * `message` as /api/browse has it. `actions(message)` makes buttons; `whole()` fetches the message
 * when only its beginning is there. Times are seen from the server's time, which `tick` brings.
 */
export class MessageItem {
  #badge = h("span", { class: "badge" });
  #age = h("span", { class: "when" });
  #details;
  #facts = h("dl", { class: "definition" });
  #now;
  #shown;

  constructor(message, { now, search = "", actions, whole, highlight = search, onselect }) {
    this.message = message;
    this.#now = now;
    this.#shown = message;
    this.check = h("input", { type: "checkbox", "aria-label": `Select message ${message.id}`, onchange: onselect });
    const summary = h("summary", {}, h("span", {}, this.#badge), h("span", { class: "preview" }, marked(preview(message.body), highlight)), this.#age);
    this.#details = h("details", {}, summary);
    let isFilled = false;
    this.#details.addEventListener("toggle", () => {
      if (!this.#details.open || isFilled) return;
      isFilled = true;
      this.#details.append(this.#detail({ highlight, actions, whole }));
    });
    this.element = h("li", { class: "message", "data-id": message.id }, h("span", { class: "pick" }, this.check), this.#details);
    this.#showState();
    this.tick(now);
  }

  get isGone() {
    return this.message.state === "gone";
  }

  /** Shows ages as of now. */
  tick(now) {
    this.#now = now;
    setText(this.#age, `${bytes(this.message.size)} · ${duration(now - this.message.sent)} ago`);
    if (this.#details.open) this.#showFacts();
  }

  /** Shows what has become of the message; null if it has left the queue. */
  become(found) {
    Object.assign(this.message, found ?? { state: "gone", deadline: null });
    Object.assign(this.#shown, found ?? { state: "gone", deadline: null });
    this.#showState();
  }

  #showState() {
    const { state } = this.message;
    setText(this.#badge, STATES[state] ?? state);
    setAttribute(this.#badge, "class", `badge ${state}`);
    this.element.classList.toggle("gone", this.isGone);
    this.check.disabled = this.isGone;
    if (this.isGone) this.check.checked = false;
    if (this.#details.open) this.#showFacts();
  }

  /** Values stay the elements that they are while they are the same: they may be selected. */
  #showFacts() {
    const entries = facts(this.#shown, this.#now).filter(([, value]) => value);
    const labels = entries.map(([label]) => label).join();
    if (this.#facts.dataset.labels !== labels) {
      this.#facts.dataset.labels = labels;
      replace(this.#facts, entries.map(([label]) => [h("dt", {}, label), h("dd", {})]));
    }
    entries.forEach(([, value], index) => setText(this.#facts.children[2 * index + 1], value));
  }

  #detail({ highlight, actions, whole }) {
    const element = h("div", { class: "detail" });
    const errors = h("div", {});
    const showAll = async ({ target: button }) => {
      button.disabled = true;
      errors.replaceChildren();
      try {
        const all = await whole();
        if (all) {
          show(all);
          // The button that had the focus is gone.
          element.querySelector("pre").focus();
        } else button.replaceWith(h("span", { class: "quiet" }, "The message has left the queue."));
      } catch (error) {
        errors.replaceChildren(errorNotice(error));
        button.disabled = false;
      }
    };
    const show = (shown) => {
      this.#shown = shown;
      const formatted = shown.is_cut ? { text: shown.body, kind: "Text" } : pretty(shown.body);
      const label = shown.is_cut ? `Show all ${bytes(shown.size)}` : "Show all of the attributes";
      replace(element,
        h("div", {},
          h("div", { class: "buttons" }, h("h2", { class: "sub" }, `Body, ${formatted.kind}`), copyButton(() => shown.body),
            isCut(shown) && whole && h("button", { type: "button", class: "small", onclick: showAll }, label)),
          errors,
          h("pre", { tabindex: "0", "aria-label": "Message body" }, marked(formatted.text, highlight))),
        attributeTable(shown.attributes),
        this.#facts,
        actions && h("div", { class: "buttons" }, actions(this)));
      this.#showFacts();
    };
    show(this.message);
    return element;
  }
}

/** Whether a list has only the beginning of the body or of an attribute. */
export function isCut({ is_cut, attributes = [] }) {
  return is_cut || attributes.some((attribute) => attribute.is_cut);
}

/** The beginning of a body on one line, or what to say where there would be nothing to see. */
function preview(body) {
  if (body === "") return "(empty)";
  const line = body.slice(0, 300).replaceAll(/\s+/g, " ");
  return line.replaceAll(HIDDEN, "").trim() ? line : "(blank)";
}

/** Which characters of a text are not seen, each once. */
function hidden(text) {
  const found = new Set(text.replaceAll(JOINED_EMOJI, "").match(HIDDEN));
  return [...found].map((character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(", ");
}

function facts(message, now) {
  const remaining = message.deadline && `${duration(message.deadline - now)} left, until ${dateTime(message.deadline)}`;
  return [
    ["Message id", message.id],
    ["Sent", `${dateTime(message.sent)}, ${duration(now - message.sent)} ago`],
    ["Receive count", count(message.receive_count)],
    ["First received", message.first_received && dateTime(message.first_received)],
    ["Visibility timeout", message.state === "in_flight" && remaining],
    ["Delay", message.state === "delayed" && remaining],
    ["Invisible in the body", hidden(message.body)],
    ["Message group", message.group],
    ["Deduplication id", message.deduplication_id],
    ["Sequence number", message.sequence_number],
    ["Dead-lettered from", message.source],
    ["Sender", message.sender],
    ["Trace header", message.trace_header],
  ];
}

function attributeTable(attributes) {
  if (!attributes?.length) return null;
  const table = dataTable("Message attributes", [["Name", "name"], ["Type"], ["Value", "wide"]]);
  table.body.append(...attributes.map(({ name, type, value, is_cut }) => table.row([name, type, h("code", {}, is_cut ? `${value}…` : value)])));
  return h("div", {}, h("h2", { class: "sub" }, "Message attributes"), table.frame);
}

/** The text with what was searched for marked, in any case. */
function marked(text, search) {
  if (!search) return text;
  const parts = [];
  let from = 0;
  // Not by a lower-cased copy: that may be longer, and its places are others.
  const wanted = new RegExp(search.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu");
  for (const { 0: found, index } of text.matchAll(wanted)) {
    parts.push(text.slice(from, index), h("mark", {}, found));
    from = index + found.length;
    if (parts.length >= MAX_PARTS) break;
  }
  return [...parts, text.slice(from)];
}
