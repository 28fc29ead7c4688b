// What every page begins with; then the page's own module.

import { data, toast } from "./actions.js";
import { startKeyboard } from "./keyboard.js";
import { show as alarms } from "./alarms.js";
import { show as domain } from "./domain.js";
import { show as domains } from "./domains.js";
import { show as login } from "./login.js";
import { show as metrics } from "./metrics.js";
import { show as missing } from "./missing.js";
import { show as overview } from "./overview.js";
import { show as queue } from "./queue.js";
import { show as queues } from "./queues.js";
import { show as server } from "./server.js";
import { logOut, startSession } from "./session.js";
import { show as topic } from "./topic.js";
import { show as topics } from "./topics.js";
import { startTyped } from "./typed.js";

const PAGES = { alarms, domain, domains, login, metrics, missing, overview, queue, queues, server, topic, topics };
const THEMES = ["auto", "light", "dark"];
const THEME_NAMES = { auto: "as the system", light: "light", dark: "dark" };

function startTheme() {
  const button = document.getElementById("theme");
  if (!button) return;
  const describe = () => {
    button.setAttribute("aria-label", `Colours: ${THEME_NAMES[document.documentElement.dataset.theme]}`);
    button.title = button.getAttribute("aria-label");
  };
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    root.dataset.theme = next;
    document.cookie = `millrace_theme=${next}; path=/; max-age=31536000; samesite=strict`;
    describe();
  });
  describe();
}

function startLogout() {
  document.getElementById("logout")?.addEventListener("click", async () => {
    try {
      await logOut();
    } catch (error) {
      toast(`You are still logged in: ${error.message}`);
    }
  });
}

startTheme();
startLogout();
startSession();
startTyped();
startKeyboard();
PAGES[data.page](document.getElementById("root"));
