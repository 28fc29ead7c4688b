// Regions and accounts: actions of CloudWatch, SimpleDB and SNS each know one.

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

/**
 * A choice of the configured place, those that have something (`having`: "domains" or "topics"), and the one that the
 * address names. What is chosen is put into the address of the page at `path`, then `changed` is called.
 */
export async function choosePlace(having, path, changed) {
  const address = new URLSearchParams(location.search);
  const found = (await read("/api/places", { having })).filter((each) => !isHere(each));
  const here = { region: data.region, account: data.account };
  const wanted = { region: address.get("region") ?? data.region, account: address.get("account") ?? data.account };
  const options = [here, ...found];
  if (!options.some((each) => isSame(each, wanted))) options.push(wanted);
  const place = placeField(options, wanted);
  place.element.classList.add("inline");
  place.select.addEventListener("change", () => {
    history.replaceState(null, "", isHere(place.value()) ? path : `${path}?${new URLSearchParams(place.value())}`);
    changed();
  });
  return place;
}
