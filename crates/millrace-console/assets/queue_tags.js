// Tags and policy.

import { call, errorNotice, toast } from "./actions.js";
import { cliBlock, command } from "./cli.js";
import { formDialog } from "./dialog.js";
import { field, h, panel, replace, setText } from "./dom.js";
import { onSubmit } from "./form.js";
import { pretty } from "./json.js";
import { dataTable } from "./table.js";

export function show(root, queue) {
  const tags = h("div", {});
  const policy = h("div", {});
  replace(root, h("div", { class: "columns" }, tags, policy));
  loadTags(tags, queue);
  loadPolicy(policy, queue);
}

async function loadTags(element, queue) {
  try {
    const { Tags: tags = {} } = await call("sqs", "ListQueueTags", { QueueUrl: queue.url }, queue.place);
    replace(element, tagPanel(queue, tags, async () => {
      await loadTags(element, queue);
      // What had the focus is gone, and another tag often follows.
      element.querySelector("input")?.focus();
    }));
  } catch (error) {
    replace(element, errorNotice(error));
  }
}

function tagPanel(queue, tags, reload) {
  const key = h("input", { maxlength: 128, required: true, autocomplete: "off", "data-missing": "A tag needs a key." });
  const value = h("input", { maxlength: 256, autocomplete: "off" });
  const errors = h("div", {});
  const cli = cliBlock();
  const input = () => ({ QueueUrl: queue.url, Tags: { [key.value]: value.value } });
  const form = h("form", {}, h("div", { class: "fields" }, field("Key", key), field("Value", value)), cli.element, errors,
    h("div", { class: "buttons" }, h("button", { class: "primary" }, "Set tag")));
  const refresh = () => cli.update(key.value ? command("sqs", "TagQueue", input(), queue.region, queue) : null);
  form.addEventListener("input", refresh);
  onSubmit(form, errors, async () => {
    await call("sqs", "TagQueue", input(), queue.place);
    toast("Tag set.");
    await reload();
  });
  refresh();
  const entries = Object.entries(tags).sort(([a], [b]) => a.localeCompare(b));
  const table = dataTable("Tags", [["Key", "name"], ["Value", "wide"], ["Actions", "actions"]]);
  table.body.append(...entries.map(([name, text]) => table.row([name, text,
    h("button", { type: "button", class: "small danger", "aria-label": `Remove tag ${name}`, onclick: () => removeDialog(queue, name, reload) }, "Remove")])));
  return panel("Tags", {}, entries.length ? table.frame : h("p", { class: "empty" }, "No tags."), h("div", { class: "body" }, form));
}

/** Asks first: without, the second click of two would meet the button of the tag that moved up. */
function removeDialog(queue, name, reload) {
  const input = { QueueUrl: queue.url, TagKeys: [name] };
  const { dialog } = formDialog({
    title: "Remove tag",
    submit: "Remove",
    danger: true,
    content: h("p", {}, "The queue loses the tag ", h("b", {}, name), " and its value."),
    command: () => command("sqs", "UntagQueue", input, queue.region, queue),
    run: async () => {
      await call("sqs", "UntagQueue", input, queue.place);
      toast("Tag removed.");
      dialog.addEventListener("close", reload);
    },
  });
}

async function loadPolicy(element, queue) {
  try {
    const { Attributes: attributes = {} } = await call("sqs", "GetQueueAttributes", { QueueUrl: queue.url, AttributeNames: ["Policy"] }, queue.place);
    replace(element, policyPanel(queue, attributes.Policy ?? "", () => loadPolicy(element, queue)));
  } catch (error) {
    replace(element, errorNotice(error));
  }
}

function policyPanel(queue, policy, reload) {
  const text = h("textarea", { name: "Policy", rows: 14, spellcheck: "false", placeholder: "No policy: only the queue's own account may use it." });
  text.value = pretty(policy).text;
  const errors = h("div", {});
  const cli = cliBlock();
  const submit = h("button", { class: "primary" }, "Save policy");
  const state = h("span", { class: "quiet" });
  text.rule = () => {
    try {
      if (text.value.trim()) JSON.parse(text.value);
      return "";
    } catch (error) {
      return `This is not JSON: ${error.message}`;
    }
  };
  const input = () => {
    let compact = text.value.trim();
    try {
      compact = compact && JSON.stringify(JSON.parse(compact));
    } catch {
      // The service says what is wrong with it.
    }
    return { QueueUrl: queue.url, Attributes: { Policy: compact } };
  };
  const refresh = () => {
    const isChanged = text.value.trim() !== pretty(policy).text.trim();
    submit.disabled = !isChanged;
    setText(state, isChanged ? "" : "Nothing has changed.");
    cli.update(isChanged ? command("sqs", "SetQueueAttributes", input(), queue.region, queue) : null);
  };
  const form = h("form", {}, field("Policy, JSON", text, { hint: "Lets other accounts use the queue. Empty: none." }), cli.element, errors, h("div", { class: "buttons" }, submit, state));
  form.addEventListener("input", refresh);
  onSubmit(form, errors, async () => {
    await call("sqs", "SetQueueAttributes", input(), queue.place);
    toast("Policy saved.");
    await reload();
  });
  refresh();
  return panel("Policy", {}, h("div", { class: "body" }, form));
}
