// JSON as people read it, each token as it was written: a number that was parsed may be another,
// and of two members with the same name one would be gone.

/** Deeper values are indented no further: a short text of brackets would become a long one of spaces. */
const MAX_INDENTS = 20;

/** `{ text, kind }`: JSON indented, everything else as it is. */
export function pretty(body) {
  const start = body.trimStart()[0];
  if (start === "{" || start === "[") {
    try {
      JSON.parse(body);
      return { text: indented(body), kind: "JSON" };
    } catch {
      // Not JSON after all.
    }
  }
  return { text: body, kind: "Text" };
}

/** Valid JSON with a line for each value. Only white space between tokens changes. */
function indented(json) {
  const parts = [];
  let depth = 0;
  let last = "";
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g)) {
    const isFirst = last === "{" || last === "[";
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth--;
    // What is empty, first and end at once, stays on its line.
    if (last === "," || isFirst !== isEnd) parts.push("\n", "  ".repeat(Math.min(depth, MAX_INDENTS)));
    else if (last === ":") parts.push(" ");
    parts.push(token);
    if (token === "{" || token === "[") depth++;
    last = token;
  }
  return parts.join("");
}
