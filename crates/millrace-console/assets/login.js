// Log in with an access key and its secret.

import { ActionError, ask, data, errorNotice } from "./actions.js";
import { field, h, replace } from "./dom.js";

export function show(root) {
  const { form, key } = loginForm(enter);
  replace(root, h("div", { class: "login" }, form));
  key.focus();
  if (data.token) enter();
  else enterIfLoggedIn();
}

/** The form, and its first field. `done` is called after a login, and may throw. */
export function loginForm(done) {
  const key = h("input", { name: "access_key", autocomplete: "username", required: true, spellcheck: "false", autocapitalize: "off" });
  const secret = h("input", { name: "secret_key", type: "password", autocomplete: "current-password", required: true });
  const error = h("div", {});
  const submit = h("button", { class: "primary" }, "Log in");
  const form = h("form", { class: "panel" }, h("div", { class: "body" },
    field("Access key", key), field("Secret key", secret, { hint: "The keys that clients sign with." }), error, h("div", { class: "buttons" }, submit)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    replace(error);
    try {
      await logIn({ access_key: key.value.trim(), secret_key: secret.value });
      await done();
    } catch (failure) {
      replace(error, errorNotice(failure));
      submit.disabled = false;
      if (failure.status) secret.value = "";
      secret.focus();
    }
  });
  return { form, key };
}

/** Who follows a link from another site comes without the cookie; requests of this page have it. */
async function enterIfLoggedIn() {
  const response = await fetch("/api/session").catch(() => null);
  if (response?.ok) enter();
}

/** In place of this page, which would only lead forth again who goes back to it. */
function enter() {
  location.replace(next());
}

async function logIn(keys) {
  const response = await ask("/api/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(keys),
  });
  if (!response.ok) throw new ActionError(response.status, "", (await response.json()).message);
}

/** Where to go: an address of ours, never another site's. */
function next() {
  try {
    const url = new URL(new URLSearchParams(location.search).get("next") ?? "/", location.origin);
    // Whole: a path may begin with two slashes, which alone would name a site.
    if (url.origin === location.origin && url.pathname !== "/login") return url.href;
  } catch {
    // What is no address leads nowhere.
  }
  return "/";
}
