// SimpleDB's actions: a form to the service, XML back, and the AWS CLI command that does the same.

import { call, data } from "./actions.js";
import { command } from "./cli.js";
import { childOf, textOf } from "./xml.js";

/** Calls an action with the members that AWS's SDKs have. Resolves to an XML document. */
export function simpledb(action, input, place) {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) {
    if (Array.isArray(value)) value.forEach((attribute, index) => addAttribute(form, attribute, index + 1));
    else if (value !== undefined) form.append(name, value);
  }
  return call("simpledb", action, form, place);
}

function addAttribute(form, attribute, number) {
  for (const [name, value] of Object.entries(attribute)) form.append(`Attribute.${number}.${name}`, value);
}

export function simpledbCommand(action, input, place = data) {
  return command("sdb", action, input, place.region, place);
}

/** The size of a domain. */
export async function figuresOf({ name, ...place }) {
  const answer = await simpledb("DomainMetadata", { DomainName: name }, place);
  const figure = (tag) => Number(textOf(answer, tag) ?? 0);
  return {
    items: figure("ItemCount"),
    names: figure("AttributeNameCount"),
    values: figure("AttributeValueCount"),
    bytes: figure("ItemNamesSizeBytes") + figure("AttributeNamesSizeBytes") + figure("AttributeValuesSizeBytes"),
  };
}

/** The items of an answer: `[{ name, attributes }]`. */
export function itemsOf(answer) {
  return [...answer.querySelectorAll("Item")].map((item) => ({ name: decoded(childOf(item, "Name")), attributes: attributesOf(item) }));
}

/** Names with their values: a Map of arrays. */
export function attributesOf(element) {
  const attributes = new Map();
  for (const attribute of element.querySelectorAll("Attribute")) {
    const name = decoded(childOf(attribute, "Name"));
    attributes.set(name, [...(attributes.get(name) ?? []), decoded(childOf(attribute, "Value"))]);
  }
  return attributes;
}

/** A text; what XML cannot carry comes as base64. */
function decoded(element) {
  if (element.getAttribute("encoding") !== "base64") return element.textContent;
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

export function domainPath({ region, account, name }) {
  return `/domains/${[region, account, name].map(encodeURIComponent).join("/")}`;
}
