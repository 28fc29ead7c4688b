// Log in with an access key and its secret.

import { data } from "./actions.js";
import { field, h, replace } from "./dom.js";

export function show(root) {
  const key = h("input", { name: "access_key", autocomplete: "username", required: true, spellcheck: "false", autocapitalize: "off" });
  const secret = h("input", { name: "secret_key", type: "password", autocomplete: "current-password", required: true });
  const error = h("div", {});
  const submit = h("button", { class: "primary" }, "Log in");
  const form = h("form", { class: "panel" }, h("div", { class: "body" },
    field("Access key", key), field("Secret key", secret, { hint: "The keys that clients sign with." }), error, h("div", { class: "buttons" }, submit)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const response = await fetch("/api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ access_key: key.value.trim(), secret_key: secret.value }),
    });
    if (response.ok) {
      location.assign(next());
      return;
    }
    const { message } = await response.json();
    replace(error, h("p", { class: "notice bad", role: "alert" }, message));
    submit.disabled = false;
    secret.value = "";
    secret.focus();
  });
  replace(root, h("div", { class: "login" }, form));
  key.focus();
  if (data.token) location.assign(next());
}

/** Where to go: a path of ours, never another site. */
function next() {
  const wanted = new URLSearchParams(location.search).get("next") ?? "/";
  const url = new URL(wanted, location.origin);
  return url.origin === location.origin && url.pathname !== "/login" ? url.pathname + url.search : "/";
}
