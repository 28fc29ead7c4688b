// JSON as people read it, each token as it was written: a number that was parsed may be another,
// and of two members with the same name one would be gone.

/** Deeper values are indented no further: a short text of brackets would become a long one of spaces. */
const MAX_INDENTS = 20;
/** Laying out more of them keeps a browser busy for seconds; a message may make half a million. */
const MAX_LINES = 50_000;

/** `{ text, kind }`: JSON indented, unless that makes too many lines; everything else as it is. */
export function pretty(body) {
  const start = body.trimStart()[0];
  if (start === "{" || start === "[") {
    try {
      JSON.parse(body);
      const text = indented(body);
      return text === null ? { text: body, kind: "JSON, too long to indent" } : { text, kind: "JSON" };
    } catch {
      // Not JSON after all.
    }
  }
  return { text: body, kind: "Text" };
}

/** Valid JSON with a line for each value, or null. Only white space between tokens changes. */
function indented(json) {
  const parts = [];
  let depth = 0;
  let lines = 1;
  let last = "";
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g)) {
    const isFirst = last === "{" || last === "[";
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth--;
    // What is empty, first and end at once, stays on its line.
    if (last === "," || isFirst !== isEnd) {
      if (++lines > MAX_LINES) return null;
      parts.push("\n", "  ".repeat(Math.min(depth, MAX_INDENTS)));
    } else if (last === ":") parts.push(" ");
    parts.push(token);
    if (token === "{" || token === "[") depth++;
    last = token;
  }
  return parts.join("");
}
