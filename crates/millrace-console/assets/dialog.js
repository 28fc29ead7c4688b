// Dialogs: forms that do one thing, and confirmations that are typed.

import { cliBlock } from "./cli.js";
import { h, field, uniqueId } from "./dom.js";
import { onSubmit } from "./form.js";

/**
 * Opens a form in a modal dialog. `run` does what it is for and may throw; the dialog closes when
 * it is done. `command()` gives the CLI command for what is filled in, or null.
 */
export function formDialog({ title, content, submit, danger, run, command, isReady, large }) {
  const heading = h("h2", { id: uniqueId("dialog") }, title);
  const errors = h("div", {});
  const cli = command && cliBlock(command());
  const button = h("button", { class: danger ? "primary danger" : "primary" }, submit);
  let isRunning = false;
  const form = h("form", { method: "dialog" },
    h("header", {}, heading),
    h("div", { class: "content" }, content, cli?.element, errors),
    h("footer", {}, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), button));
  const dialog = h("dialog", { class: large ? "large" : null, "aria-labelledby": heading.id }, form);
  const refresh = () => {
    cli?.update(command());
    button.disabled = isRunning || (isReady ? !isReady() : false);
  };
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  onSubmit(form, errors, async () => {
    if (button.disabled) return;
    isRunning = true;
    refresh();
    try {
      await run();
      dialog.close();
    } finally {
      isRunning = false;
      refresh();
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  refresh();
  dialog.showModal();
  return { dialog, refresh };
}

/**
 * As formDialog, and `phrase` must be typed, as the page shows it, before the button works. `details`
 * stand below the text.
 */
export function confirmDialog({ phrase, text, details, ...rest }) {
  const input = h("input", { autocomplete: "off", spellcheck: "false", autocapitalize: "off", autofocus: true });
  const content = [
    h("p", {}, text),
    details,
    field(["Type ", h("bdi", {}, phrase), " to confirm"], input),
    h("p", {}),
  ];
  return formDialog({ ...rest, content, danger: true, isReady: () => shown(input.value) === shown(phrase) });
}

/** A text as pages show it: no spaces around it, and runs of them as one. */
function shown(text) {
  return text.trim().replaceAll(/\s+/g, " ");
}
