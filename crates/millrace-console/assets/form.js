// Forms: what is wrong is said at the field, in one style, in our words; what else refuses, below the fields.

import { errorNotice } from "./actions.js";
import { field, h, replace, setAttribute, setText, uniqueId } from "./dom.js";
import { count } from "./format.js";

const UNITS = [["second", 1], ["minute", 60], ["hour", 3600], ["day", 86_400]];

/**
 * Lets a form check itself: a field once it is left, all when it is submitted. `run` does what the form is for and
 * may throw; what the service refuses is shown at the field that it names, else in `errors`.
 */
export function onSubmit(form, errors, run) {
  form.noValidate = true;
  form.addEventListener("focusout", ({ target }) => isTouched(target) && check(target));
  for (const event of ["input", "change"]) {
    form.addEventListener(event, ({ target }) => {
      target.isTouched = true;
      // What was wrong is looked at again at once; what is being typed is not judged yet.
      if (target.getAttribute("aria-invalid")) check(target);
    });
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    replace(errors);
    if (!isComplete(form)) return;
    try {
      await run();
    } catch (error) {
      refuse(form, errors, error);
    }
  });
}

/** Whether nothing is wrong; else the first field that is has the focus. */
export function isComplete(form) {
  const wrong = [...form.elements].filter((control) => !check(control));
  wrong[0]?.focus();
  return wrong.length === 0;
}

/** Shows why something was refused: at the field whose name the reason has, or in `errors`. */
export function refuse(form, errors, error) {
  const named = [...form.elements].filter((control) => control.name && new RegExp(`\\b${control.name}\\b`).test(error.message));
  if (named.length !== 1 || isOut(named[0])) {
    replace(errors, errorNotice(error));
    return;
  }
  say(named[0], error.message);
  named[0].focus();
}

function isTouched(control) {
  return control.isTouched && control.form;
}

/** Whether a field is right; says at the field why not. */
function check(control) {
  if (isOut(control)) return true;
  const reason = reasonOf(control);
  say(control, reason);
  return reason === "";
}

/** Whether a control takes no part: buttons, units, and what the form hides for now. */
function isOut(control) {
  return ["BUTTON", "FIELDSET"].includes(control.tagName) || control.matches(".with-unit > :not(:first-child)") || control.closest("[hidden]") !== null;
}

/** Says at a field why it is wrong; "" takes it back. */
export function say(control, reason) {
  const place = control.closest(".field, .attribute")?.querySelector(".error");
  // Several controls may share a place: one that is right takes nothing back that another has said.
  if (!place || (reason === "" && place.owner && place.owner !== control)) return;
  place.owner = reason ? control : null;
  setAttribute(control, "aria-invalid", reason ? "true" : null);
  place.id ||= uniqueId("error");
  setAttribute(control, "aria-errormessage", reason ? place.id : null);
  setText(place, reason);
  place.hidden = reason === "";
}

/** A control's own rule, then those of its attributes. */
function reasonOf(control) {
  const { validity, value } = control;
  if (validity.badInput) return "This is not a number.";
  if (validity.valueMissing) return control.dataset.missing ?? "This is needed.";
  const own = control.rule?.();
  if (own) return own;
  if (value === "") return "";
  if (validity.patternMismatch) return control.dataset.pattern ?? "This has characters that are not allowed.";
  const { min, max } = control;
  if (validity.rangeUnderflow || validity.rangeOverflow || validity.stepMismatch) {
    if (min !== "" && max !== "") return `A whole number from ${count(Number(min))} to ${count(Number(max))}, not ${value}.`;
    return "A whole number.";
  }
  if (control.maxLength > 0 && value.length > control.maxLength) return `At most ${count(control.maxLength)} characters; these are ${count(value.length)}.`;
  return "";
}

/**
 * A field for a duration: a number and its unit. `seconds()` is NaN while it is no number, and undefined while it is
 * empty, which only a `placeholder` allows.
 */
export function durationField(label, { name, value, min = 0, max, placeholder, hint }) {
  const units = UNITS.filter(([, size]) => size <= max);
  const usual = units.findLast(([, size]) => value > 0 && value % size === 0) ?? units[0];
  const number = h("input", { name, type: "number", step: "any", min: 0, required: placeholder === undefined, placeholder });
  if (value !== undefined && value !== "") number.value = value / usual[1];
  const unit = h("select", { "aria-label": "Unit" }, units.map(([title, size]) => h("option", { value: size, selected: size === usual[1] }, `${title}s`)));
  const seconds = () => (number.value === "" ? (number.validity.badInput ? NaN : undefined) : Math.round(Number(number.value) * Number(unit.value) * 1e6) / 1e6);
  const range = `${words(min)} to ${words(max)}`;
  number.rule = () => {
    const wanted = seconds();
    if (wanted === undefined) return "";
    if (!Number.isInteger(wanted)) return "Whole seconds only.";
    return wanted < min || wanted > max ? `${range}, not ${words(wanted)}.` : "";
  };
  unit.addEventListener("change", () => number.getAttribute("aria-invalid") && check(number));
  const element = field(label, number, { hint: hint ? `${range}. ${hint}` : range, beside: unit });
  return { element, input: number, seconds };
}

/** 345600 → "4 days", 90 → "90 seconds": in the largest unit that has no rest. */
function words(seconds) {
  const [title, size] = UNITS.findLast(([, size]) => seconds > 0 && seconds % size === 0) ?? UNITS[0];
  const number = seconds / size;
  return `${count(number)} ${number === 1 ? title : `${title}s`}`;
}
