// Shortcuts: one key, or g and another. Not while something is typed or a dialog is open.

import { h, uniqueId } from "./dom.js";

const PLACES = { o: ["/", "Overview"], q: ["/queues", "Queues"], t: ["/topics", "Topics"], d: ["/domains", "Domains"], m: ["/metrics", "Metrics"], a: ["/alarms", "Alarms"], s: ["/server", "Server"] };

let isWaiting = false;

export function startKeyboard() {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (isWaiting && PLACES[event.key]) location.assign(PLACES[event.key][0]);
    isWaiting = event.key === "g";
    if (event.key === "/") {
      const filter = document.querySelector("[data-shortcut='/']");
      if (filter) {
        event.preventDefault();
        filter.focus();
        filter.select();
      }
    }
    if (event.key === "c") document.querySelector("[data-shortcut='c']")?.click();
    if (event.key === "p") document.getElementById("pause")?.click();
    if (event.key === "?") showHelp();
  });
  document.getElementById("help")?.addEventListener("click", showHelp);
}

function showHelp() {
  const keys = (...names) => names.flatMap((name) => [h("kbd", {}, name), " "]);
  const lines = [
    [keys("/"), "Go to the page's filter or search"],
    ...Object.entries(PLACES).map(([key, [, title]]) => [keys("g", key), title]),
    [keys("c"), "Create a queue, a topic, a subscription, a domain, an item or an alarm, on its page"],
    [keys("p"), "Pause or resume live figures"],
    [keys("?"), "This help"],
    [keys("Esc"), "Close a dialog"],
  ];
  const heading = h("h2", { id: uniqueId("help") }, "Keyboard shortcuts");
  const close = h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { "aria-labelledby": heading.id },
    h("header", {}, heading),
    h("div", { class: "content" }, h("dl", { class: "shortcuts" }, lines.map(([key, text]) => [h("dt", {}, key), h("dd", {}, text)]))),
    h("footer", {}, close));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
