// Figures that move: one stream of server-sent events for the tab, with what to do without it.

import { data, read } from "./actions.js";
import { clock } from "./format.js";
import { setText } from "./dom.js";

/** No event for so long means that what is shown is old. */
const STALE_MS = 5000;
const POLL_MS = 5000;
/** What charts show at most. */
const HISTORY_MS = 5 * 60_000;
/** How long a browser without a stream waits until it tries one again. */
const RETRY_MS = 15_000;

/**
 * Shows a view and keeps it up to date. `show(state, isNew)` is called with `{ head, lists, history }`;
 * `isNew` means that everything may have changed.
 */
export class Live {
  #query;
  #show;
  #state = { head: {}, lists: {}, history: [] };
  #source = null;
  #lastId = "";
  #lastEventAt = Date.now();
  #isPaused = false;
  #status = "";
  #poll = null;
  #retryAt = 0;

  constructor(query, show) {
    this.#query = query;
    this.#show = show;
    if (data.snapshot) this.#apply(data.snapshot, true);
    const pause = document.getElementById("pause");
    pause.hidden = false;
    pause.addEventListener("click", () => {
      this.#isPaused = !this.#isPaused;
      setText(pause, this.#isPaused ? "Resume" : "Pause");
      this.#isPaused ? this.#close("paused") : this.#open();
    });
    document.addEventListener("visibilitychange", () => this.#attend());
    addEventListener("pagehide", () => this.#rest());
    addEventListener("pageshow", (event) => event.persisted && this.#attend());
    setInterval(() => this.#check(), 1000);
    this.#open();
  }

  get state() {
    return this.#state;
  }

  /** Looks at something else, or at the same from scratch. */
  setQuery(query) {
    this.#query = query;
    this.#lastId = "";
    if (!this.#isPaused) this.#open();
    else this.#fetch();
  }

  #attend() {
    if (document.hidden) this.#rest();
    else if (!this.#isPaused && !this.#source) this.#open();
  }

  /** Until the page is looked at again. */
  #rest() {
    if (!this.#isPaused) this.#close("reconnecting");
  }

  #open() {
    this.#source?.close();
    clearInterval(this.#poll);
    this.#poll = null;
    const last = this.#lastId ? `&last=${encodeURIComponent(this.#lastId)}` : "";
    const source = new EventSource(`/events?${this.#query}${last}`);
    this.#source = source;
    source.addEventListener("snapshot", (event) => this.#receive(event, true));
    source.addEventListener("delta", (event) => this.#receive(event, false));
    source.addEventListener("error", () => {
      if (this.#source !== source) return;
      // One try follows another; what is shown stays as old as it is.
      if (this.#status !== "stale") this.#setStatus("reconnecting");
      if (source.readyState === EventSource.CLOSED) this.#fallBack();
    });
  }

  #close(status) {
    this.#source?.close();
    this.#source = null;
    clearInterval(this.#poll);
    this.#poll = null;
    this.#setStatus(status);
  }

  #receive(event, isNew) {
    this.#lastEventAt = Date.now();
    this.#lastId = event.lastEventId;
    this.#setStatus("live");
    this.#apply(JSON.parse(event.data), isNew);
  }

  /** The server answered, but not with a stream: it needs a login, or has too many streams. */
  #fallBack() {
    this.#source = null;
    this.#retryAt = Date.now() + RETRY_MS;
    this.#poll ??= setInterval(() => this.#fetch(), POLL_MS);
    this.#fetch();
  }

  async #fetch() {
    try {
      this.#apply(await read(`/api/snapshot?${this.#query}`), true);
      this.#lastEventAt = Date.now();
      if (!this.#isPaused) this.#setStatus("polling");
    } catch {
      // Asked for again, or the way to the login has begun.
    }
    if (!this.#isPaused && Date.now() > this.#retryAt) this.#open();
  }

  #check() {
    if (this.#isPaused || document.hidden) return;
    if (Date.now() - this.#lastEventAt > STALE_MS && !this.#poll) this.#setStatus("stale");
  }

  #apply(change, isNew) {
    const state = this.#state;
    if (isNew) {
      state.head = change.head;
      state.lists = change.lists;
      state.history = change.history ?? [];
      if (change.id) this.#lastId = change.id;
    } else {
      Object.assign(state.head, change.head);
      for (const [name, list] of Object.entries(change.lists)) state.lists[name] = merged(state.lists[name] ?? [], list);
      const { now, available, in_flight, delayed, sent, received, deleted } = state.head;
      const last = state.history.at(-1);
      if (sent !== undefined && sent !== null && !(last && last[0] >= now)) {
        state.history.push([now, available, in_flight, delayed, sent, received, deleted]);
        while (state.history[0][0] < now - HISTORY_MS) state.history.shift();
      }
    }
    showInAlarm(state.head.in_alarm ?? 0);
    this.#show(state, isNew);
  }

  #setStatus(status) {
    if (this.#status === status) return;
    this.#status = status;
    const texts = {
      live: "Live",
      paused: "Paused",
      reconnecting: "Reconnecting",
      polling: "Every 5 s",
      stale: `Stale since ${clock(this.#lastEventAt)}`,
    };
    const element = document.getElementById("live");
    element.dataset.state = status;
    setText(element, texts[status]);
  }
}

/** How many alarms are in alarm, beside the name of their page. */
export function showInAlarm(number) {
  const badge = document.getElementById("in-alarm");
  if (!badge) return;
  badge.hidden = number === 0;
  setText(badge.firstElementChild, number);
}

/** Rows with changes applied, in the order given or as they were. */
function merged(rows, { rows: changed = [], order }) {
  const byKey = new Map(rows.map((row) => [row.key, row]));
  for (const change of changed) {
    const row = byKey.get(change.key);
    if (row) Object.assign(row, change);
    else byKey.set(change.key, change);
  }
  return order ? order.map((key) => byKey.get(key)).filter(Boolean) : rows;
}
