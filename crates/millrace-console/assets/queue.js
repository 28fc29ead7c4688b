// A queue's page: what all tabs share, then the tab.

import { data, queueArn, queueUrl } from "./actions.js";
import { copyButton, h, replace, setText } from "./dom.js";
import { Live } from "./live.js";
import { endDialog } from "./queues.js";
import { hasTyped } from "./typed.js";
import { show as browse } from "./queue_browse.js";
import { show as configuration } from "./queue_configuration.js";
import { show as deadLetters } from "./queue_dead_letters.js";
import { show as overview } from "./queue_overview.js";
import { show as poll } from "./queue_poll.js";
import { show as send } from "./queue_send.js";
import { show as tags } from "./queue_tags.js";

const TABS = { "": overview, browse, poll, send, "dead-letters": deadLetters, configuration, tags };

export function show(root) {
  const { region, account, name } = data.queue;
  const key = `${region}/${account}/${name}`;
  const place = { region, account };
  const queue = { ...data.queue, key, place, url: queueUrl(data.queue), arn: queueArn(data.queue), isFifo: name.endsWith(".fifo") };
  const gone = h("div", { class: "panel empty" }, h("h2", {}, "There is no such queue"),
    h("p", {}, "It was deleted, or never was. ", h("a", { href: "/queues" }, "All queues")));
  if (data.snapshot?.head.is_gone) {
    document.querySelector(".tabs").hidden = true;
    replace(root, gone);
    return;
  }
  showFacts(queue);
  // A narrow window shows some of the tabs.
  document.querySelector(".tabs [aria-current]").scrollIntoView({ block: "nearest", inline: "center" });
  const update = TABS[data.tab](root, queue);
  const query = new URLSearchParams({ view: "queue", region, account, name });
  let isGone = false;
  let isKept = false;
  let isReloading = false;
  const kept = h("p", { class: "notice bad", role: "alert" });
  new Live(query.toString(), (state) => {
    if (state.head.is_gone) {
      isKept ||= !isGone && hasTyped();
      isGone = true;
      replace(document.getElementById("facts"));
      document.querySelector(".tabs").hidden = true;
      if (isKept) keep(root, kept, "The queue was deleted. What you typed is still here. ", h("a", { href: "/queues" }, "All queues"));
      else replace(root, gone);
      return;
    }
    if (!isGone) {
      update?.(state);
      return;
    }
    // It was created again: a queue of its own, of which nothing here is known.
    if (isKept) {
      keep(root, kept, "The queue was deleted and created again. What you typed is still here. ", h("a", { href: location.href }, "Load the page again"));
      return;
    }
    // Once: another reload would begin a slow one anew.
    if (!isReloading) location.reload();
    isReloading = true;
  });
}

/** Says above the page, once, why it does not go on. */
function keep(root, notice, text, link) {
  if (notice.isConnected && notice.firstChild.data === text) return;
  replace(notice, text, link);
  root.before(notice);
}

function showFacts(queue) {
  const purge = h("button", { type: "button", class: "danger small", onclick: () => endDialog("purge", [queue.key], () => {}) }, "Purge");
  const remove = h("button", { type: "button", class: "danger small", onclick: () => endDialog("delete", [queue.key], () => location.assign("/queues")) }, "Delete");
  const type = h("span", { class: "badge" });
  setText(type, queue.isFifo ? "FIFO" : "Standard");
  replace(document.getElementById("facts"), type, h("code", {}, queue.arn), copyButton(queue.arn, "Copy ARN"),
    h("span", { class: "actions buttons" }, purge, remove));
}
