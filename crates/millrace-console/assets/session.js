// How a session ends: the page goes to the login, or, where that would lose what was typed, the login
// comes over the page.

import { ask, data, read, whenSessionEnds } from "./actions.js";
import { h, setText, uniqueId } from "./dom.js";
import { loginForm } from "./login.js";
import { hasTyped } from "./typed.js";

let isLeaving = false;
let isAsking = false;

export function startSession() {
  // The browser may show a page again that it has kept.
  addEventListener("pageshow", () => { isLeaving = false; });
  whenSessionEnds(() => {
    if (isLeaving || isAsking) return;
    hasTyped() ? askHere() : toLogin();
  });
}

/** Once: with the session all that the page asks for is refused, and a second way there stops the first. */
function toLogin() {
  isLeaving = true;
  location.replace(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
}

/** Hides the page, which may be left alone, until somebody has logged in. */
function askHere() {
  isAsking = true;
  const heading = h("h2", { id: uniqueId("login") }, "The session has ended");
  const { form, key } = loginForm(async () => {
    const { token, account, name } = await read("/api/session");
    if (account !== data.account) {
      // Others' queues: nothing that was typed is for them.
      location.reload();
      return;
    }
    data.token = token;
    setText(document.querySelector(".who"), name);
    dialog.close();
  });
  const dialog = h("dialog", { class: "over", "aria-labelledby": heading.id },
    h("header", {}, heading), h("div", { class: "content login" }, h("p", {}, "What you typed is kept. Log in to go on."), form));
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.addEventListener("close", () => {
    dialog.remove();
    isAsking = false;
  });
  document.body.append(dialog);
  dialog.showModal();
  key.focus();
}

/** Ends the session, and with it that of other pages. */
export async function logOut() {
  isLeaving = true;
  try {
    await ask("/api/logout", { method: "POST" });
    location.assign("/login");
  } catch (error) {
    isLeaving = false;
    throw error;
  }
}
