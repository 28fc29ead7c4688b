// Regions and accounts: CloudWatch's actions each know one.

import { data, read } from "./actions.js";
import { field, h } from "./dom.js";

/** Where something is measured, the configured place included: `[{ region, account }]`. */
export async function places() {
  const found = await read("/api/places");
  return found.some(isHere) ? found : [{ region: data.region, account: data.account }, ...found];
}

export function isSame(one, other) {
  return one.region === other.region && one.account === other.account;
}

/** Whether a place is the configured one. */
export function isHere(place) {
  return isSame(place, data);
}

export function placeName({ region, account }) {
  return account === data.account ? region : `${region} · ${account}`;
}

/** A choice of one of `options`: `value()` is chosen. `element` is hidden if there is nothing to choose. */
export function placeField(options, chosen = options.find(isHere) ?? options[0]) {
  const select = h("select", {}, options.map((place) => h("option", { selected: isSame(place, chosen) }, placeName(place))));
  const element = field("Region", select);
  element.hidden = options.length < 2;
  return { element, select, value: () => options[select.selectedIndex] };
}
