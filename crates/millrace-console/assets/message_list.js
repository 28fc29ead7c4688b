// The messages that a page shows: their ages and states, true by the second, and what is done with several.

import { post } from "./actions.js";
import { h, replace, setText } from "./dom.js";
import { count } from "./format.js";

/** As many the server looks at in one request. */
const MAX_LOOKED_AT = 1000;

/**
 * A list of MessageItems. `nameOf(message)` is how the server finds one: its place, or a receipt handle.
 * `onDelete(items)` asks and deletes; `onChange(length)` is called when messages come or go.
 */
export class MessageList {
  #queue;
  #nameOf;
  #items = [];
  #list = h("ul", { class: "messages" });
  #all = h("input", { type: "checkbox", "aria-label": "Select all" });
  #remove;
  #selected = h("span", { class: "quiet", role: "status" });
  #bar;
  #isAsking = false;

  constructor(queue, { nameOf, onDelete }) {
    this.#queue = queue;
    this.#nameOf = nameOf;
    this.#remove = h("button", { type: "button", class: "small danger", disabled: true, onclick: () => onDelete(this.#chosen()) }, "Delete");
    this.#all.addEventListener("change", () => {
      for (const item of this.#items) item.check.checked = this.#all.checked && !item.isGone;
      this.showSelection();
    });
    this.#bar = h("div", { class: "selection", hidden: true }, h("span", { class: "pick" }, this.#all), this.#remove, this.#selected);
    this.element = h("div", {}, this.#bar, this.#list);
  }

  get length() {
    return this.#items.length;
  }

  add(item) {
    this.#items.push(item);
    this.#list.append(item.element);
    this.showSelection();
  }

  addFirst(item) {
    this.#items.unshift(item);
    this.#list.prepend(item.element);
    this.showSelection();
  }

  remove(items) {
    const gone = new Set(items);
    this.#items = this.#items.filter((item) => !gone.has(item));
    gone.forEach((item) => item.element.remove());
    this.showSelection();
  }

  clear() {
    this.#items = [];
    replace(this.#list);
    this.showSelection();
  }

  showSelection() {
    const chosen = this.#chosen().length;
    const there = this.#items.filter((item) => !item.isGone).length;
    this.#bar.hidden = this.#items.length === 0;
    this.#remove.disabled = chosen === 0;
    setText(this.#remove, chosen > 1 ? `Delete ${count(chosen)}` : "Delete");
    setText(this.#selected, chosen > 0 ? `${count(chosen)} of ${count(this.#items.length)} selected` : "");
    this.#all.checked = chosen > 0 && chosen === there;
    this.#all.indeterminate = chosen > 0 && chosen < there;
  }

  /** Shows ages as of now, and asks what has become of the messages. */
  async tick(now) {
    for (const item of this.#items) item.tick(now);
    const asked = this.#items.filter((item) => !item.isGone).slice(0, MAX_LOOKED_AT);
    if (this.#isAsking || asked.length === 0) return;
    this.#isAsking = true;
    try {
      const { messages } = await lookAt("states", this.#queue, asked.map(({ message }) => this.#nameOf(message)));
      asked.forEach((item, index) => item.become(messages[index]));
      this.showSelection();
    } catch {
      // Asked again in a second; that the server is away is said at the top.
    }
    this.#isAsking = false;
  }

  #chosen() {
    return this.#items.filter(({ check }) => check.checked);
  }
}

/** What the server says of messages: "states", or "handles" to delete them by. */
export function lookAt(what, { region, account, name }, messages) {
  return post(`/api/${what}?${new URLSearchParams({ region, account, name })}`, { messages });
}
