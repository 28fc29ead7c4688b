// Topics of SNS: what there is in a region, creating and deleting.

import { errorNotice, toast } from "./actions.js";
import { cliBlock } from "./cli.js";
import { confirmDialog, formDialog } from "./dialog.js";
import { checkField, field, h, replace, setText } from "./dom.js";
import { count, counted } from "./format.js";
import { choosePlace, placeName } from "./places.js";
import { listTopics, sns, snsCommand, topicAttributes, topicOf, topicPath } from "./sns.js";
import { dataTable } from "./table.js";
import { textOf } from "./xml.js";

export function show(root) {
  const errors = h("div", {});
  const table = dataTable("Topics", [["Name", "name"], ["Subscriptions", "number"], ["Pending", "number"], ["Actions", "actions"]]);
  const empty = h("div", { class: "empty" }, h("h2", {}, "No topics here yet"),
    h("p", {}, "What is published to a topic of SNS goes to all its subscriptions: queues, and addresses on the web."),
    cliBlock(snsCommand("CreateTopic", { Name: "prices" }), { open: true }).element);
  const summary = h("span", { class: "quiet", role: "status" });
  const more = h("button", { type: "button", class: "small", onclick: () => load(next) }, "More topics");
  const paging = h("div", { class: "paging", hidden: true }, h("span", { class: "end" }, more));
  const create = h("button", { type: "button", class: "primary", "data-shortcut": "c", disabled: true, onclick: () => createDialog(place.value(), (topic) => location.assign(topicPath(topic))) }, "Create topic");
  let place;
  let next;
  // Answers for a region that is not shown any more are dropped.
  let turns = 0;

  const load = async (token) => {
    const turn = ++turns;
    more.disabled = true;
    try {
      const found = await listTopics(place.value(), token);
      const rows = await Promise.all(found.topics.map((topic) => rowOf(table, topic, () => load())));
      if (turn !== turns) return;
      next = found.next;
      replace(errors);
      replace(table.body, token ? [...table.body.children] : [], rows);
      const shown = table.body.children.length;
      table.frame.hidden = shown === 0;
      empty.hidden = shown > 0;
      paging.hidden = next === undefined;
      setText(summary, shown ? `${counted(shown, "topic")}${next ? " shown" : ""}` : "");
    } catch (error) {
      if (turn === turns) replace(errors, errorNotice(error));
    }
    more.disabled = false;
  };
  const start = async () => {
    place = await choosePlace("topics", "/topics", () => load());
    create.disabled = false;
    summary.before(place.element);
    await load();
  };
  table.frame.hidden = empty.hidden = true;
  replace(root, h("div", { class: "toolbar" }, summary, h("div", { class: "end" }, create)), errors, h("div", { class: "panel" }, table.frame, empty, paging));
  start().catch((error) => replace(errors, errorNotice(error)));
}

async function rowOf(table, topic, reload) {
  // One that was deleted meanwhile has no figures.
  const attributes = await topicAttributes(topic).catch(() => ({}));
  const figure = (name) => count(attributes[name] && Number(attributes[name]));
  return table.row([
    [h("a", { class: "name", href: topicPath(topic) }, topic.name), topic.isFifo && h("span", { class: "badge" }, "FIFO")],
    figure("SubscriptionsConfirmed"), figure("SubscriptionsPending"),
    h("button", { type: "button", class: "small danger", "aria-label": `Delete ${topic.name}`, onclick: () => deleteTopicDialog(topic, reload) }, "Delete"),
  ]);
}

export function deleteTopicDialog(topic, done) {
  const input = { TopicArn: topic.arn };
  confirmDialog({
    title: `Delete ${topic.name}`,
    text: "The topic and all its subscriptions are gone for good. Queues keep what they have got.",
    phrase: topic.name,
    submit: "Delete",
    command: () => snsCommand("DeleteTopic", input, topic),
    run: async () => {
      await sns("DeleteTopic", input, topic);
      toast(`${topic.name} is deleted.`);
      done();
    },
  });
}

function createDialog(place, done) {
  const name = h("input", { name: "Name", required: true, maxlength: 256, pattern: "[A-Za-z0-9_\\-]+(\\.fifo)?", autocomplete: "off", spellcheck: "false",
    "data-missing": "A topic needs a name.", "data-pattern": "Letters, digits, - and _ only; .fifo at the end at most." });
  const type = h("select", {}, h("option", { value: "standard" }, "Standard"), h("option", { value: "fifo" }, "FIFO"));
  const display = h("input", { name: "DisplayName", maxlength: 100, autocomplete: "off" });
  const content = h("input", { type: "checkbox" });
  const contentField = checkField("Deduplicate by content", content);
  const isFifo = () => type.value === "fifo";
  const fullName = () => (isFifo() && !name.value.endsWith(".fifo") ? `${name.value}.fifo` : name.value);
  name.rule = () => {
    if (!isFifo() && name.value.endsWith(".fifo")) return "Only names of FIFO topics end with .fifo.";
    return fullName().length > 256 ? `At most 256 characters; with .fifo these are ${fullName().length}.` : "";
  };
  const input = () => {
    const attributes = {
      ...(display.value && { DisplayName: display.value }),
      ...(isFifo() && { FifoTopic: "true", ContentBasedDeduplication: String(content.checked) }),
    };
    return { Name: fullName(), Attributes: Object.keys(attributes).length ? attributes : undefined };
  };
  const showFifo = () => {
    contentField.hidden = !isFifo();
  };
  type.addEventListener("change", showFifo);
  showFifo();
  formDialog({
    title: `Create topic in ${placeName(place)}`,
    submit: "Create topic",
    content: [
      h("div", { class: "fields" },
        field("Name", name, { hint: "Letters, digits, - and _; FIFO names end with .fifo." }),
        field("Type", type, { hint: "FIFO keeps the order within a message group; its subscriptions are queues." }),
        field("Display name (optional)", display)),
      contentField,
    ],
    command: () => snsCommand("CreateTopic", input(), place),
    run: async () => done(topicOf(textOf(await sns("CreateTopic", input(), place), "TopicArn"))),
  });
}
