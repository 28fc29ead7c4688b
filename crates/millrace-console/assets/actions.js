// Actions of the services, in the name of this session; and what the server told this page.

import { h } from "./dom.js";

export const data = JSON.parse(document.getElementById("data").textContent);

/** The service refused. `type` is the error's name, for instance QueueDoesNotExist. */
export class ActionError extends Error {
  constructor(status, type, message) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

/**
 * Calls `service` ("sqs", "cloudwatch", "simpledb" or "sns"); resolves to the answer's members. SimpleDB and SNS take
 * forms and answer with XML: see simpledb.js and sns.js.
 */
export async function call(service, action, input, { region = data.region, account = data.account, signal } = {}) {
  return post(`/api/call/${service}/${action}?${new URLSearchParams({ region, account })}`, input, signal);
}

/** Posts JSON, or a form if the input is one, to a path of the console's own, with the session's token. */
export async function post(path, input, signal) {
  const isForm = input instanceof URLSearchParams;
  const send = () => ask(path, {
    method: "POST",
    headers: { "Content-Type": isForm ? "application/x-www-form-urlencoded" : "application/json", "X-CSRF-Token": data.token },
    body: isForm ? String(input) : JSON.stringify(input),
    signal,
  });
  let response = await send();
  if (response.status === 403 && (await typeOf(response.clone())) === "InvalidToken") {
    // The server was restarted: its tokens are new.
    data.token = (await read("/api/session")).token;
    response = await send();
  }
  return answerOf(response);
}

/** Reads a path of the console's own. */
export async function read(path, parameters = {}, signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null));
  return answerOf(await ask(`${path}${path.includes("?") ? "&" : "?"}${query}`, { signal }));
}

/** As fetch; browsers say no more than "Failed to fetch" of a server that is away. */
export async function ask(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ActionError(0, "", "The server gives no answer.");
  }
}

async function answerOf(response) {
  if (response.status === 401) {
    sessionEnds();
    throw new ActionError(401, "NotLoggedIn", "The session has ended.");
  }
  const text = await response.text();
  let answer = {};
  try {
    answer = response.headers.get("Content-Type")?.startsWith("text/xml") ? xmlAnswer(text, response.ok) : text ? JSON.parse(text) : {};
  } catch {
    answer = { message: text };
  }
  if (response.ok) return answer;
  const type = (answer.__type ?? "").split("#").pop();
  throw new ActionError(response.status, type, answer.message ?? answer.Message ?? `HTTP ${response.status}`);
}

/** An answer in XML as a document, an error as those in JSON are. */
function xmlAnswer(text, isOk) {
  const answer = new DOMParser().parseFromString(text, "text/xml");
  const textOf = (tag) => answer.querySelector(tag)?.textContent;
  return isOk ? answer : { __type: textOf("Code"), message: textOf("Message") };
}

async function typeOf(response) {
  try {
    return (await response.json()).__type;
  } catch {
    return "";
  }
}

let sessionEnds = () => {};

/** `handler` is called when a request is refused because the session has ended. */
export function whenSessionEnds(handler) {
  sessionEnds = handler;
}

/** Where clients reach a queue. */
export function queueUrl({ account, name }) {
  return `${data.endpoint}/${account}/${name}`;
}

/** Of regions whose ARNs are not of the partition `aws`, by how they begin. */
const PARTITIONS = {
  "cn-": "aws-cn",
  "us-gov-": "aws-us-gov",
  "us-iso-": "aws-iso",
  "us-isob-": "aws-iso-b",
  "eu-isoe-": "aws-iso-e",
  "us-isof-": "aws-iso-f",
  "eusc-": "aws-eusc",
};

/** The ARN of what has that name in a service: "sqs" or "sns". */
export function arnOf(service, { region, account, name }) {
  const other = Object.keys(PARTITIONS).find((prefix) => region.startsWith(prefix));
  return `arn:${PARTITIONS[other] ?? "aws"}:${service}:${region}:${account}:${name}`;
}

export function queueArn(queue) {
  return arnOf("sqs", queue);
}

/** The page of a queue; a key is `region/account/name`. */
export function queuePath(key, tab = "") {
  const path = key.split("/").map(encodeURIComponent).join("/");
  return `/queues/${path}${tab && `/${tab}`}`;
}

export function keyOfArn(arn) {
  const [, , , region, account, name] = arn.split(":");
  return `${region}/${account}/${name}`;
}

const toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
document.body.append(toasts);

/** Says for a few seconds that something was done. */
export function toast(text) {
  const note = h("div", { class: "toast" }, text);
  toasts.append(note);
  setTimeout(() => note.remove(), 6000);
}

/** An error as a notice that is read out. */
export function errorNotice(error) {
  const type = error.type ? `${error.type}: ` : "";
  return h("p", { class: "notice bad", role: "alert" }, `${type}${error.message}`);
}
