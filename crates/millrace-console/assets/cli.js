// The AWS CLI command that does what a form does.

import { copyButton, h, setText } from "./dom.js";
import { data } from "./actions.js";

/** `aws … sqs send-message …`; options that are undefined are left out. */
export function command(service, action, input, region = data.region) {
  const words = [`aws ${service} ${kebab(action)}`];
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined || value === null) continue;
    words.push(`--${kebab(name)} ${argument(value)}`);
  }
  words.push(`--endpoint-url ${quote(data.endpoint)}`, `--region ${quote(region)}`);
  const line = words.join(" ");
  return line.length <= 100 ? line : words.join(" \\\n  ");
}

function argument(value) {
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.map(quote).join(" ");
  return quote(typeof value === "object" ? JSON.stringify(value) : String(value));
}

function kebab(name) {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1-$2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1-$2").toLowerCase();
}

/** A word for a shell. */
function quote(word) {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A block that shows a command. `update(text)` changes it; null hides it. */
export function cliBlock(text = null, { open = false, label = "AWS CLI" } = {}) {
  const code = h("code");
  const pre = h("pre", { tabindex: "0", "aria-label": `${label} command` }, code);
  const row = h("div", { class: "copy-row" }, copyButton(() => code.textContent));
  const element = h("details", { class: "cli", open }, h("summary", {}, label), pre, row);
  const update = (next) => {
    element.hidden = next === null;
    setText(code, next ?? "");
  };
  update(text);
  return { element, update };
}
