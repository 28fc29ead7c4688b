// Fields for a filter policy, with a box to try it in: the server says what a subscription would do.

import { post } from "./actions.js";
import { field, h, keepText, setAttribute, setText } from "./dom.js";
import { say } from "./form.js";
import { pretty } from "./json.js";
import { TOPIC_TYPES, attributeFields } from "./message_attributes.js";

const SCOPES = [["MessageAttributes", "Message attributes"], ["MessageBody", "Message"]];
/** From the last key to the question: nobody reads faster. */
const PAUSE_MS = 150;

/** `policy()` is the policy's text, empty if all messages match; `scope()` is what it looks at. */
export function filterFields({ FilterPolicy = "", FilterPolicyScope = "MessageAttributes" } = {}) {
  const control = h("textarea", { name: "FilterPolicy", rows: 4, spellcheck: "false", placeholder: '{"colour": ["red"]}' });
  const policy = keepText(control, pretty(FilterPolicy).text);
  const scope = h("select", { name: "FilterPolicyScope" }, SCOPES.map(([id, title]) => h("option", { value: id, selected: id === FilterPolicyScope }, title)));
  const message = h("textarea", { rows: 2, spellcheck: "false" });
  const attributes = attributeFields("Attributes to try", () => schedule(), { types: TOPIC_TYPES, isNameNeeded: false });
  const outcome = h("p", { role: "status" });
  // The last policy that was refused, and why.
  let refused = { question: "", problem: "" };
  let timer;
  let turns = 0;

  const question = () => `${scope.value}\n${control.value}`;
  const value = () => (control.value.trim() ? policy().trim() : "");
  const tell = (text, kind) => {
    setText(outcome, text);
    setAttribute(outcome, "class", kind ? `notice ${kind}` : "quiet");
  };
  const attempt = async () => {
    // The dialog may be closed by now.
    if (!control.isConnected) return;
    const turn = ++turns;
    const asked = question();
    try {
      const answer = await post("/api/filter", { policy: value(), scope: scope.value, message: message.value, attributes: attributes.value() });
      if (turn !== turns) return;
      refused = { question: asked, problem: answer.problem ?? "" };
      say(control, refused.problem);
      tell(...outcomeOf(answer, scope.value, value() === ""));
    } catch (error) {
      if (turn === turns) tell(error.message);
    }
  };
  const schedule = () => {
    clearTimeout(timer);
    timer = setTimeout(attempt, PAUSE_MS);
  };
  control.rule = () => (refused.question === question() ? refused.problem : "");
  const element = h("div", {},
    h("div", { class: "fields" },
      field("Filter policy", control, { wide: true, hint: "JSON. Empty: all messages." }),
      field("It looks at the", scope)),
    h("fieldset", { class: "trial" }, h("legend", {}, "Try it"), field("Message to try", message), attributes.element, outcome));
  element.addEventListener("input", schedule);
  element.addEventListener("change", schedule);
  schedule();
  return { element, policy: value, scope: () => scope.value };
}

/** The text and kind of a notice. */
function outcomeOf({ problem, matches, is_readable: isReadable }, scope, isEmpty) {
  if (problem) return ["SNS refuses this policy."];
  if (isEmpty) return ["Without a policy all messages match."];
  if (matches) return ["This message matches.", "good"];
  if (isReadable) return ["This message does not match: the subscription does not get it.", "warn"];
  const reason = scope === "MessageBody" ? "it is not a JSON object" : "an attribute of type String.Array is not an array of JSON";
  return [`This message matches no policy: ${reason}.`, "warn"];
}
