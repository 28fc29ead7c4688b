// Subscribing queues and addresses to a topic, and confirming.

import { data, toast } from "./actions.js";
import { formDialog } from "./dialog.js";
import { checkField, field, h } from "./dom.js";
import { queuePicker } from "./queue_picker.js";
import { settingFields } from "./subscription.js";
import { sns, snsCommand } from "./sns.js";

export function subscribeDialog(topic, done) {
  const kind = h("select", {}, h("option", { value: "queue" }, "Queue"), !topic.isFifo && h("option", { value: "url" }, "URL"));
  const hint = data.is_authenticated ? "Its policy has to let the topic send." : undefined;
  const queue = queuePicker("Queue", { name: "Endpoint", place: () => topic, fits: (name) => topic.isFifo || !name.endsWith(".fifo"), hint });
  const url = h("input", { name: "Endpoint", required: true, pattern: "https?:/{2}.+", autocomplete: "off", spellcheck: "false", inputmode: "url",
    "data-missing": "A URL is needed.", "data-pattern": "It begins with http: or https:, two slashes and a host." });
  const urlField = field("URL", url, { hint: "It gets a token first, and messages after it has confirmed." });
  const settings = settingFields(topic);
  const isQueue = () => kind.value === "queue";
  const attributes = () => {
    const policy = settings.policy();
    const wanted = {
      ...(settings.isRaw() === "true" && { RawMessageDelivery: "true" }),
      ...(settings.deadLetter() && { RedrivePolicy: settings.redrivePolicy() }),
      ...(policy && { FilterPolicyScope: settings.scope(), FilterPolicy: policy }),
    };
    return Object.keys(wanted).length ? wanted : undefined;
  };
  const input = () => ({
    TopicArn: topic.arn,
    Protocol: isQueue() ? "sqs" : url.value.split(":")[0],
    Endpoint: isQueue() ? queue.arn() : url.value,
    Attributes: attributes(),
    ReturnSubscriptionArn: true,
  });
  const show = () => {
    queue.element.hidden = !isQueue();
    queue.otherField.hidden = !isQueue() || !queue.isOther();
    urlField.hidden = isQueue();
  };
  kind.addEventListener("change", show);
  show();
  formDialog({
    title: `Subscribe to ${topic.name}`,
    submit: "Subscribe",
    large: true,
    content: [h("div", { class: "fields" }, field("What", kind), queue.element, queue.otherField, urlField), settings.element],
    command: () => snsCommand("Subscribe", input(), topic),
    run: async () => {
      await sns("Subscribe", input(), topic);
      toast(isQueue() ? "The queue is subscribed." : "The address has to confirm the subscription.");
      await done();
    },
  });
}

export function confirmationDialog(topic, done) {
  const token = h("textarea", { name: "Token", rows: 3, required: true, spellcheck: "false", "data-missing": "A token is needed." });
  const onlySigned = h("input", { type: "checkbox" });
  const input = () => ({
    TopicArn: topic.arn,
    Token: tokenOf(token.value),
    AuthenticateOnUnsubscribe: onlySigned.checked ? "true" : undefined,
  });
  formDialog({
    title: "Confirm a subscription",
    submit: "Confirm",
    content: [
      field("Token", token, { hint: "Of the message that asked the address to confirm, or its SubscribeURL." }),
      checkField("Links in messages do not end it", onlySigned),
    ],
    command: () => snsCommand("ConfirmSubscription", input(), topic),
    run: async () => {
      await sns("ConfirmSubscription", input(), topic);
      toast("The subscription is confirmed.");
      await done();
    },
  });
}

/** The token of a link, or a token as it is. */
function tokenOf(text) {
  const given = text.trim();
  return /[?&]Token=([^&\s]+)/.exec(given)?.[1] ?? given;
}
