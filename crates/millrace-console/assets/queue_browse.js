// Browse: messages as they are, without receiving them.

import { data, errorNotice, queuePath, read, toast } from "./actions.js";
import { cliBlock, quote } from "./cli.js";
import { h, replace, segments, setText } from "./dom.js";
import { count, counted } from "./format.js";
import { MessageItem, isCut } from "./message.js";
import { deleteDialog, download, moveDialog } from "./message_actions.js";
import { MessageList, lookAt } from "./message_list.js";

/** A search goes on by itself until it has found so many more, or all. */
const FOUND_AT_ONCE = 200;
const NOT_DELETABLE = "Of a FIFO queue, only what is in flight can be deleted or moved: receive it with Poll.";
const STATES = [["all", "All"], ["available", "Available"], ["in_flight", "In flight"], ["delayed", "Delayed"]];

export function show(root, queue) {
  const address = new URLSearchParams(location.search);
  const search = h("input", { type: "search", placeholder: "Search bodies, attributes, ids, groups", "aria-label": "Search messages", "data-shortcut": "/", autocomplete: "off", spellcheck: "false" });
  search.value = address.get("search") ?? "";
  let state = STATES.some(([id]) => id === address.get("state")) ? address.get("state") : "all";
  let now = data.snapshot.head.now;
  let cursor = null;
  let request = null;

  const place = { region: queue.region, account: queue.account, name: queue.name };
  const placeOf = ({ slot, seq }) => ({ slot, seq });
  const errors = h("div", {});
  const list = new MessageList(place, { nameOf: placeOf, onDelete: (items) => remove(items) });
  const empty = h("p", { class: "empty", hidden: true });
  const summary = h("span", { class: "quiet", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const stop = h("button", { type: "button", hidden: true, onclick: () => request?.abort() }, "Stop");
  let shown = 0;
  let searched = 0;

  const load = async () => {
    request?.abort();
    const mine = new AbortController();
    request = mine;
    const term = search.value.trim();
    const wanted = shown + FOUND_AT_ONCE;
    more.hidden = true;
    stop.hidden = !term;
    errors.replaceChildren();
    try {
      do {
        const page = await read("/api/browse", { ...place, state, search: term || undefined, cursor }, mine.signal);
        if (mine.signal.aborted) break;
        for (const message of page.messages) list.add(item(message));
        cursor = page.next;
        shown += page.messages.length;
        searched += page.searched;
        showEnd();
      } while (term && cursor !== null && shown < wanted);
    } catch (error) {
      if (error.name !== "AbortError") errors.replaceChildren(errorNotice(error));
    }
    // Another look may have begun meanwhile.
    if (request !== mine) return;
    request = null;
    stop.hidden = true;
    showEnd();
  };
  const showEnd = () => {
    const term = search.value.trim();
    more.hidden = cursor === null || request !== null;
    setText(more, term ? "Search on" : "Show more");
    empty.hidden = shown > 0 || cursor !== null;
    setText(empty, term ? `No message contains “${term}”.` : "No messages here.");
    setText(summary, term ? `${count(shown)} found in ${count(searched)} messages${cursor ? " so far" : ""}` : `${count(shown)} shown${cursor ? ", there are more" : ""}`);
  };
  const readWhole = ({ slot, seq, id }) => read("/api/message", { ...place, slot, seq, id });
  /** Runs what an action does with the whole message, and its handle if it needs one. */
  const act = async (message, run, handleOf) => {
    try {
      const whole = isCut(message) ? await readWhole(message) : message;
      if (whole) run(whole, await handleOf?.());
      else toast("The message has left the queue.");
    } catch (error) {
      toast(error.type === undefined ? error.message : `The message cannot be read: ${error.message}`);
    }
  };
  const handlesOf = async (messages) => {
    const { handles } = await lookAt("handles", place, messages.map(placeOf));
    if (messages.length === 1 && handles[0] === null) throw new Error(messages[0].state === "gone" ? "The message has left the queue." : NOT_DELETABLE);
    return handles;
  };
  const remove = async (items) => {
    try {
      const handles = await handlesOf(items.map(({ message }) => message));
      const there = items.filter((_, index) => handles[index] !== null);
      if (there.length === 0) throw new Error(NOT_DELETABLE);
      const inFlight = there.filter(({ message }) => message.state === "in_flight").length;
      const left = items.length - there.length;
      const warning = [inFlight && `${counted(inFlight, "message")} ${inFlight === 1 ? "is" : "are"} in flight: the consumer goes on working.`, left && `${counted(left, "message")} cannot be deleted. ${NOT_DELETABLE}`].filter(Boolean).join(" ");
      deleteDialog(queue, handles.filter((handle) => handle !== null), { warning, done: (indexes) => indexes.forEach((index) => list.remove([there[index]])) });
    } catch (error) {
      toast(error.message);
    }
  };
  const item = (message) => new MessageItem(message, {
    now,
    search: search.value.trim(),
    onselect: () => list.showSelection(),
    whole: () => readWhole(message),
    actions: (item) => [
      h("button", { type: "button", class: "small", onclick: () => act(message, (whole) => sendAgain(queue, whole)) }, "Send a copy…"),
      h("button", { type: "button", class: "small", onclick: () => act(message, (whole, handle) => moveDialog(queue, whole, handle, () => list.remove([item])), async () => (await handlesOf([message]))[0]) }, "Move…"),
      h("button", { type: "button", class: "small", onclick: () => act(message, (whole) => download(whole)) }, "Download"),
      h("button", { type: "button", class: "small danger", onclick: () => remove([item]) }, "Delete…"),
    ],
  });
  const restart = () => {
    cursor = null;
    shown = 0;
    searched = 0;
    list.clear();
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
    h("div", { class: "panel" }, list.element, empty, h("div", { class: "paging" }, more, stop)),
    cliBlock(`curl ${quote(`${data.endpoint}/_aws/sqs/messages/${queue.key}?ShowInvisible=true&ShowDelayed=true`)}`, { label: "curl (the AWS CLI has no such command)" }).element);
  restart();
  return ({ head }) => {
    now = head.now;
    list.tick(now);
  };
}

/** Opens the form with a message's content. It may be large, so it goes through the tab's storage. */
function sendAgain(queue, message) {
  sessionStorage.setItem("millrace-copy", JSON.stringify({ body: message.body, attributes: message.attributes, group: message.group }));
  location.assign(`${queuePath(queue.key, "send")}?copy`);
}
