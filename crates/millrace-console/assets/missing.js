// What an address shows that is no page's.

import { h, replace } from "./dom.js";

export function show(root) {
  replace(root, h("div", { class: "panel empty" }, h("p", {}, "Nothing is at this address. ", h("a", { href: "/queues" }, "All queues"))));
}
