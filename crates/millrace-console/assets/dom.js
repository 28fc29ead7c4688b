// Elements from data. Text is always text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `onclick` and the like are listeners; null, undefined and false are left out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets an element's text if it differs: what did not change is not touched. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Sets or removes an attribute if it differs. */
export function setAttribute(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

let nextId = 1;

/** An id that no other element of the page has. */
export function uniqueId(hint) {
  return `${hint}-${nextId++}`;
}

/**
 * A labelled control: label, control, what is wrong with it, hint. `beside` is another control on its line. The hint is
 * tied to the control.
 */
export function field(label, control, { hint, wide, beside } = {}) {
  control.id ||= uniqueId("field");
  const note = hint && h("span", { class: "hint", id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: wide ? "field wide" : "field" }, h("label", { for: control.id }, label),
    beside ? h("div", { class: "with-unit" }, control, beside) : control,
    h("span", { class: "error", role: "alert", hidden: true }), note);
}

export function checkField(label, control) {
  control.id ||= uniqueId("field");
  return h("div", { class: "check-field" }, control, h("label", { for: control.id }, label));
}

export function panel(title, { end, id } = {}, ...content) {
  const heading = h("h2", { id: id ?? uniqueId("panel") }, title);
  return h("section", { class: "panel", "aria-labelledby": heading.id },
    h("header", {}, heading, end && h("div", { class: "end buttons" }, end)), ...content);
}

/** The options, and the value if another client chose it: a browser would take the first instead. */
export function withValue(options, value) {
  return options.some(([id]) => String(id) === String(value)) ? options : [...options, [value, String(value)]];
}

/**
 * Fills a control and returns what reads it: controls change line breaks, so a text that nobody
 * edits stays as it was.
 */
export function keepText(control, text) {
  control.value = text;
  const shown = control.value;
  return () => (control.value === shown ? text : control.value);
}

/** A button that copies a text and says so. */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "small plain" }, label);
  button.addEventListener("click", async () => {
    const isCopied = await copy(typeof text === "function" ? text() : text, button);
    button.textContent = isCopied ? "Copied" : "Cannot copy";
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}

/** Whether the clipboard has the text. */
async function copy(text, button) {
  // Pages that came over plain HTTP from another machine have no navigator.clipboard.
  if (!navigator.clipboard) return copySelected(text, button);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text, button);
  }
}

/** Copies by way of a selection, beside the button: outside of an open dialog nothing can be selected. */
function copySelected(text, button) {
  const area = h("textarea", { class: "visually-hidden", readonly: true });
  area.value = text;
  // An area's own text has other line breaks.
  area.addEventListener("copy", (event) => {
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  });
  button.after(area);
  area.focus();
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  button.focus();
  return isCopied;
}

/** A choice of few: buttons of which one is pressed. */
export function segments(label, options, chosen, onchoose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === buttons[options.findIndex(([v]) => v === value)]));
      onchoose(value);
    } }, text));
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

/** Whether a click on a link wants it here, and not in a tab or window of its own. */
export function isPlain(click) {
  return !click.ctrlKey && !click.metaKey && !click.shiftKey;
}
