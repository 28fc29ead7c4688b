// Browse: messages as they are, without receiving them.

import { data, errorNotice, queuePath, read, toast } from "./actions.js";
import { cliBlock, quote } from "./cli.js";
import { h, replace, segments, setText } from "./dom.js";
import { count } from "./format.js";
import { isCut, messageItem } from "./message.js";

const STATES = [["all", "All"], ["available", "Available"], ["in_flight", "In flight"], ["delayed", "Delayed"]];

export function show(root, queue) {
  const address = new URLSearchParams(location.search);
  const search = h("input", { type: "search", placeholder: "Search bodies, attributes, ids, groups", "aria-label": "Search messages", "data-shortcut": "/", autocomplete: "off", spellcheck: "false" });
  search.value = address.get("search") ?? "";
  let state = STATES.some(([id]) => id === address.get("state")) ? address.get("state") : "all";
  let now = data.snapshot.head.now;
  let cursor = null;
  let request = null;

  const list = h("ul", { class: "messages" });
  const empty = h("p", { class: "empty", hidden: true });
  const summary = h("span", { class: "quiet", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const errors = h("div", {});
  const place = { region: queue.region, account: queue.account, name: queue.name };
  let shown = 0;
  let searched = 0;

  const load = async () => {
    request?.abort();
    request = new AbortController();
    more.disabled = true;
    errors.replaceChildren();
    try {
      const page = await read("/api/browse", { ...place, state, search: search.value.trim() || undefined, cursor }, request.signal);
      for (const message of page.messages) list.append(item(message));
      cursor = page.next;
      shown += page.messages.length;
      searched += page.searched;
      showEnd();
    } catch (error) {
      if (error.name !== "AbortError") errors.replaceChildren(errorNotice(error));
    }
    more.disabled = false;
  };
  const showEnd = () => {
    const term = search.value.trim();
    more.hidden = cursor === null;
    setText(more, term ? "Search on" : "Show more");
    empty.hidden = shown > 0 || cursor !== null;
    setText(empty, term ? `No message contains “${term}”.` : "No messages here.");
    setText(summary, term ? `${count(shown)} found in ${count(searched)} messages${cursor ? " so far" : ""}` : `${count(shown)} shown${cursor ? ", there are more" : ""}`);
  };
  const whole = ({ slot, seq, id }) => read("/api/message", { ...place, slot, seq, id });
  const item = (message) => messageItem(message, {
    now,
    search: search.value.trim(),
    whole: () => whole(message),
    actions: (message) => h("button", { type: "button", class: "small", onclick: async () => {
      try {
        const all = isCut(message) ? await whole(message) : message;
        if (all) sendAgain(queue, all);
        else toast("The message has left the queue.");
      } catch (error) {
        toast(`The message cannot be read: ${error.message}`);
      }
    } }, "Send a copy…"),
  });
  const restart = () => {
    cursor = null;
    shown = 0;
    searched = 0;
    list.replaceChildren();
    const query = new URLSearchParams();
    if (state !== "all") query.set("state", state);
    if (search.value.trim()) query.set("search", search.value.trim());
    history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
    load();
  };

  const choice = segments("State", STATES, state, (next) => {
    state = next;
    restart();
  });
  let timer;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(restart, 250);
  });
  const refresh = h("button", { type: "button", onclick: restart }, "Refresh");
  replace(root,
    h("p", { class: "quiet" }, "Looking changes nothing: no receive is counted, no visibility timeout begins. Oldest first; in flight and delayed alone by the time they come back."),
    h("div", { class: "toolbar" }, choice, h("div", { class: "grow" }, search), summary, h("div", { class: "end" }, refresh)),
    errors,
    h("div", { class: "panel" }, list, empty, h("div", { class: "paging" }, more)),
    cliBlock(`curl ${quote(`${data.endpoint}/_aws/sqs/messages/${queue.key}?ShowInvisible=true&ShowDelayed=true`)}`, { label: "curl (the AWS CLI has no such command)" }).element);
  restart();
  return ({ head }) => {
    now = head.now;
  };
}

/** Opens the form with a message's content. It may be large, so it goes through the tab's storage. */
function sendAgain(queue, message) {
  sessionStorage.setItem("millrace-copy", JSON.stringify({ body: message.body, attributes: message.attributes, group: message.group }));
  location.assign(`${queuePath(queue.key, "send")}?copy`);
}
