// A choice of one of the queues that are there; another can be named.

import { call, queueArn } from "./actions.js";
import { field, h, replace } from "./dom.js";

/** Queues that are listed; beyond, a queue is named. */
const MAX_LISTED = 1000;
const OTHER = "\n";

/**
 * Fields for a queue of `place`: a list, and a name or ARN for one that is not in it. `none` is the title of choosing
 * no queue; `fits(name)` says which queues are offered. `name()` is a name or an ARN, `arn()` an ARN, or ""; `isOther()` if
 * the queue is named.
 */
export function queuePicker(label, { name, place, value = "", none, fits = () => true, hint, missing }) {
  const list = h("select", { name, required: none === undefined, "data-missing": missing ?? "Choose a queue." });
  const other = h("input", { autocomplete: "off", spellcheck: "false", required: true, "data-missing": "The name of a queue, or its ARN." });
  const otherField = field("Name or ARN", other);
  const element = field(label, list, { hint });
  let wanted = isOfPlace(value, place()) ? value.split(":").pop() : value;

  const show = (names) => {
    const known = names.includes(wanted) || wanted === "" ? names : [wanted, ...names];
    replace(list,
      h("option", { value: "" }, none ?? "Choose a queue"),
      known.map((name) => h("option", { value: name, selected: name === wanted }, name)),
      h("option", { value: OTHER }, "Another queue…"));
    otherField.hidden = list.value !== OTHER;
  };
  const load = async () => {
    try {
      const { QueueUrls: urls = [] } = await call("sqs", "ListQueues", { MaxResults: MAX_LISTED }, place());
      if (list.value !== OTHER) wanted = list.value || wanted;
      show(urls.map((url) => url.split("/").pop()).filter(fits).sort((a, b) => a.localeCompare(b)));
    } catch {
      // One that is named can still be chosen.
    }
  };
  list.addEventListener("change", () => {
    wanted = list.value === OTHER ? "" : list.value;
    otherField.hidden = list.value !== OTHER;
  });
  const chosen = () => (list.value === OTHER ? other.value.trim() : list.value);
  const arn = () => (chosen() === "" || chosen().startsWith("arn:") ? chosen() : queueArn({ ...place(), name: chosen() }));
  show([]);
  load();
  return { element, otherField, list, name: chosen, arn, isOther: () => list.value === OTHER, load };
}

/** Whether an ARN is of the place, so that its name alone means the queue. */
function isOfPlace(arn, { region, account }) {
  const [, , , itsRegion, itsAccount] = arn.split(":");
  return itsRegion === region && itsAccount === account;
}
