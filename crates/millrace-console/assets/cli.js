// The AWS CLI command that does what a form does, as words for a POSIX shell.
//
// Every value is inside one JSON document. As an option of its own, a value that names a file, an address
// or an option is taken for that. Binary attributes are the exception: versions 1 and 2 read them from
// JSON in different ways.

import { copyButton, h, setText } from "./dom.js";
import { data } from "./actions.js";

/** Linux: 128 KiB for one argument. A character has at most three bytes. */
const MAX_ARGUMENT_CHARACTERS = 40_000;

/**
 * `aws … sqs send-message …`, or null if the CLI cannot send this. Members that are undefined, null or
 * not a number are left out, as they are from what the form sends. With `repeat`, the command runs
 * `repeat.count` times, and the word `repeat.mark` in the input stands for the number, from 1 on.
 */
export function command(service, action, input, region = data.region, { account = data.account, repeat } = {}) {
  const binaries = binaryArguments(input.MessageAttributes);
  if (binaries.isRefused) return null;
  const { word, file } = jsonWord(binaries.isSeparate ? { ...input, MessageAttributes: undefined } : input, repeat);
  const words = [`aws ${service} ${kebab(action)}`, `--cli-input-json ${word}`, ...binaries.words, `--endpoint-url ${quote(data.endpoint)}`, `--region ${quote(region)}`];
  // Without credentials on the server, the access key names the account.
  if (!data.is_authenticated && account !== data.account) words.unshift(`AWS_ACCESS_KEY_ID=${quote(account)} AWS_SECRET_ACCESS_KEY=any`);
  const line = words.join(" ");
  const once = binaries.pipe(inFile(file, line.length <= 100 ? line : words.join(" \\\n  ")));
  return repeat ? `for n in $(seq 1 ${repeat.count}); do\n${once} || break\ndone` : once;
}

/** A word that is not in `text`, for `repeat`. */
export function unusedWord(text) {
  let word;
  do word = `n${Math.random().toString(36).slice(2)}`;
  while (text.includes(word));
  return word;
}

/** A word for a shell. */
export function quote(word) {
  if (/^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The JSON as a word; what is too long for an argument as the lines of a `file` and a word that names it. */
function jsonWord(input, repeat) {
  const text = json(input);
  if (text.length <= MAX_ARGUMENT_CHARACTERS) {
    const word = quote(text);
    return { word: repeat ? word.replaceAll(repeat.mark, `'"$n"'`) : word };
  }
  // The CLI decodes files by the locale.
  const ascii = text.replaceAll(/[^\n -~]/g, escape);
  const file = repeat ? `<<END || exit\n${ascii.replaceAll(/[\\$`]/g, "\\$&").replaceAll(repeat.mark, "${n}")}\nEND` : `<<'END' || exit\n${ascii}\nEND`;
  return { word: '"file://$f"', file };
}

/** The command with its file, which the CLI reads twice: a pipe would not do. */
function inFile(file, line) {
  return file ? `(f=$(mktemp) && trap 'rm -f "$f"' EXIT && cat >"$f" ${file}\n${line})` : line;
}

/** JSON in which no character is invisible: terminals take control characters for keys. */
function json(input) {
  const isAbsent = (value) => value === null || (typeof value === "number" && !Number.isFinite(value));
  const replacer = (_, value) => (isAbsent(value) ? undefined : value);
  const line = JSON.stringify(input, replacer);
  const text = line.length <= 60 ? line : JSON.stringify(input, replacer, 2);
  return text.replaceAll(/[\p{C}\p{Z}]/gu, (character) => (character === " " || character === "\n" ? character : escape(character)));
}

/** The character as JSON's escapes. */
function escape(character) {
  return [...Array(character.length).keys()].map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`).join("");
}

/**
 * How message attributes with binary values are given: version 1 takes a string in JSON for the bytes
 * themselves, version 2 for base64. Both read a file's bytes in shorthand syntax, here from a pipe each.
 * What the shorthand cannot say goes into the JSON after all, with an option that version 1 refuses.
 */
function binaryArguments(attributes = {}) {
  const entries = Object.entries(attributes);
  const binaries = entries.map(([, { BinaryValue }]) => BinaryValue).filter((value) => value !== undefined);
  const none = { words: [], pipe: (line) => line };
  if (binaries.length === 0) return none;
  // Decoders differ in what they make of other text; the service refuses it.
  if (!binaries.every((value) => /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value))) return { isRefused: true };
  const isSayable = entries.every(([name, { DataType, StringValue = "" }]) => /^[A-Za-z0-9_.-]+$/.test(name) && !/\\$/.test(DataType) && !/\\$|\p{C}/u.test(StringValue));
  // A shell names descriptors below 10 only.
  if (!isSayable || binaries.length > 7) return { ...none, words: ["--cli-binary-format base64"] };
  let descriptor = 3;
  const said = entries.map(([name, { DataType, StringValue, BinaryValue }]) => {
    const value = BinaryValue === undefined ? `StringValue=${shorthand(StringValue)}` : `BinaryValue@=fileb:///dev/fd/${descriptor++}`;
    return `${name}={DataType=${shorthand(DataType)},${value}}`;
  });
  const pipe = (line) => binaries.reduce((inner, value, index) => `printf %s ${quote(value)} | base64 -d | { ${inner}; } ${index + 3}<&0`, line);
  return { isSeparate: true, words: [`--message-attributes=${quote(said.join(","))}`], pipe };
}

/** A quoted value of the CLI's shorthand syntax. */
function shorthand(value) {
  return `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

function kebab(name) {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1-$2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1-$2").toLowerCase();
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
