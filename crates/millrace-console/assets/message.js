// One message in a list: a line that opens to all that is known of it.

import { errorNotice } from "./actions.js";
import { copyButton, h, replace } from "./dom.js";
import { bytes, count, dateTime, duration } from "./format.js";
import { pretty } from "./json.js";

const STATES = { available: "Available", in_flight: "In flight", delayed: "Delayed" };
/** Characters that are not seen, or seen as a space; some turn the text around them. */
const HIDDEN = /(?![ \t\n\r])[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}]/gu;
/** Emoji of several parts are joined by one of them. */
const JOINED_EMOJI = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F]\u200D/gu;
/** Of a text with marks; what comes behind is shown without. */
const MAX_PARTS = 400;

/**
 * `message` as /api/browse has it. `actions(message)` makes buttons; `whole()` fetches the message
 * when only its beginning is there. Times are seen from the server's `now`.
 */
export function messageItem(message, { now, search = "", actions, whole, highlight = search }) {
  const summary = h("summary", {},
    h("span", {}, h("span", { class: `badge ${message.state}` }, STATES[message.state] ?? message.state)),
    h("span", { class: "preview" }, marked(preview(message.body), highlight)),
    h("span", { class: "when" }, `${bytes(message.size)} · ${duration(now - message.sent)} ago`));
  const details = h("details", {}, summary);
  let isFilled = false;
  details.addEventListener("toggle", () => {
    if (!details.open || isFilled) return;
    isFilled = true;
    details.append(detail(message, { now, highlight, actions, whole }));
  });
  return h("li", { class: "message", "data-id": message.id }, details);
}

/** Whether a list has only the beginning of the body or of an attribute. */
export function isCut({ is_cut, attributes = [] }) {
  return is_cut || attributes.some((attribute) => attribute.is_cut);
}

function detail(message, { now, highlight, actions, whole }) {
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
    const formatted = shown.is_cut ? { text: shown.body, kind: "Text" } : pretty(shown.body);
    const label = shown.is_cut ? `Show all ${bytes(shown.size)}` : "Show all of the attributes";
    replace(element,
      h("div", {},
        h("div", { class: "buttons" }, h("h2", { class: "sub" }, `Body, ${formatted.kind}`), copyButton(() => shown.body),
          isCut(shown) && whole && h("button", { type: "button", class: "small", onclick: showAll }, label)),
        errors,
        h("pre", { tabindex: "0", "aria-label": "Message body" }, marked(formatted.text, highlight))),
      attributeTable(shown.attributes),
      h("dl", { class: "definition" }, facts(shown, now).filter(([, value]) => value).map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)])),
      actions && h("div", { class: "buttons" }, actions(shown)));
  };
  show(message);
  return element;
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
  return h("div", { class: "table-frame", tabindex: "0" }, h("table", {},
    h("caption", {}, h("h2", { class: "sub" }, "Message attributes")),
    h("thead", {}, h("tr", {}, ["Name", "Type", "Value"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, attributes.map(({ name, type, value, is_cut }) =>
      h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, type), h("td", {}, h("code", {}, is_cut ? `${value}…` : value)))))));
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
