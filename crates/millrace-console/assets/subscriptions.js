// A topic's subscriptions.

import { errorNotice, keyOfArn, queuePath } from "./actions.js";
import { h, panel, replace, setText } from "./dom.js";
import { count, counted } from "./format.js";
import { deadLetterArn, endpointName, listSubscriptions } from "./sns.js";
import { confirmationDialog, subscribeDialog } from "./subscribe.js";
import { editDialog, unsubscribeDialog } from "./subscription.js";
import { dataTable } from "./table.js";

const COLUMNS = [["Endpoint", "name"], ["Protocol"], ["State"], ["Delivery"], ["Filter", "wide"], ["Dead-letter queue", "wide"], ["Delivered", "number"], ["Failed", "number"], ["Actions", "actions"]];

/** The panel; `load()` reads the list. `changed` is called after each change, and shows all that the page has. */
export function subscriptionPanel(topic, changed) {
  const table = dataTable("Subscriptions", COLUMNS);
  const empty = h("p", { class: "empty", hidden: true }, "No subscriptions: what is published goes nowhere.");
  const errors = h("div", {});
  const summary = h("span", { class: "quiet", role: "status" });
  const more = h("button", { type: "button", class: "small", onclick: () => load(next) }, "More subscriptions");
  const paging = h("div", { class: "paging", hidden: true }, summary, h("span", { class: "end" }, more));
  const buttons = [
    !topic.isFifo && h("button", { type: "button", class: "small", onclick: () => confirmationDialog(topic, changed) }, "Confirm…"),
    h("button", { type: "button", class: "small", "data-shortcut": "c", onclick: () => subscribeDialog(topic, changed) }, "Subscribe"),
  ];
  let next;
  let turns = 0;

  const load = async (token) => {
    const turn = ++turns;
    more.disabled = true;
    try {
      const found = await listSubscriptions(topic, token);
      if (turn !== turns) return;
      next = found.next;
      replace(errors);
      replace(table.body, token ? [...table.body.children] : [], found.subscriptions.map(rowOf));
      const shown = table.body.children.length;
      table.frame.hidden = shown === 0;
      empty.hidden = shown > 0;
      paging.hidden = next === undefined;
      setText(summary, `${counted(shown, "subscription")} shown`);
    } catch (error) {
      if (turn === turns) replace(errors, errorNotice(error));
    }
    more.disabled = false;
  };
  const edit = async (subscription) => {
    replace(errors);
    try {
      await editDialog(topic, subscription, changed);
    } catch (error) {
      replace(errors, errorNotice(error));
    }
  };
  const rowOf = (subscription) => {
    const { arn, protocol, endpoint, attributes, counts } = subscription;
    const dead = deadLetterArn(attributes.RedrivePolicy);
    return table.row([
      h("span", { class: "name" }, protocol === "sqs" ? queueLink(topic, endpoint) : endpoint),
      protocol,
      arn ? h("span", { class: "badge ok" }, "Confirmed") : h("span", { class: "badge delayed" }, "Pending"),
      arn && (attributes.RawMessageDelivery === "true" ? "Raw" : "Envelope"),
      attributes.FilterPolicy && [h("code", {}, attributes.FilterPolicy), attributes.FilterPolicyScope === "MessageBody" && h("span", { class: "place" }, "on the message")],
      dead && queueLink(topic, dead),
      count(counts?.delivered), count(counts?.failed),
      // One that nobody has confirmed cannot be named.
      arn && h("div", { class: "buttons" },
        h("button", { type: "button", class: "small", "aria-label": `Edit ${endpointName(subscription)}`, onclick: () => edit(subscription) }, "Edit"),
        h("button", { type: "button", class: "small danger", "aria-label": `Unsubscribe ${endpointName(subscription)}`, onclick: () => unsubscribeDialog(topic, subscription, changed) }, "Unsubscribe")),
    ]);
  };
  table.frame.hidden = true;
  const element = panel("Subscriptions", { end: [h("span", { class: "quiet" }, "Counts are since the server's start"), ...buttons] }, errors, table.frame, empty, paging);
  return { element, load };
}

/** A link to a queue's page; its place is said if it is not the topic's. */
function queueLink(topic, arn) {
  const key = keyOfArn(arn);
  const [region, account, name] = key.split("/");
  const isElsewhere = region !== topic.region || account !== topic.account;
  return [h("a", { href: queuePath(key) }, name), isElsewhere && h("span", { class: "place" }, `${region} · ${account}`)];
}
