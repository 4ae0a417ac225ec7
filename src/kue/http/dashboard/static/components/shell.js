// App shell: navigation, connection state, theme and logout around every page.

import { api } from "../lib/api.js";
import { version } from "../lib/config.js";
import { fill, h } from "../lib/dom.js";
import { time, timeAgo } from "../lib/format.js";
import { live } from "../lib/live.js";
import { can, me } from "../lib/me.js";
import { href } from "../lib/router.js";
import { icon } from "./icon.js";
import { showShortcuts } from "./shortcut-help.js";
import { nextTheme, themeName } from "./theme.js";
import { toastProblem } from "./toast.js";

//: Label and explanation of each state of the connection.
const CONNECTION = {
  live: ["Live", "The page updates as things happen"],
  paused: ["Paused", "The page does not update"],
  away: ["Connecting", "Waiting for the server to respond"],
  lost: ["No connection", "The server or its store does not respond"],
  polling: ["Polling", "The event stream is blocked; the page updates every few seconds"],
};

//: Pages in the bottom bar on phones; the others are behind "More".
const FIRST = 4;

//: Returns {node, show(main, page)}.
export function shell({ pages, openPalette }) {
  const links = pages
    .filter((page) => page.nav && can(page.nav.needs ?? "read"))
    .sort((one, other) => one.nav.order - other.nav.order)
    .map((page) => ({ page, node: link(page) }));
  const items = links.map((one) => h("li", null, one.node));
  const more = moreLinks(items.slice(FIRST));
  const list = h("ul", null, items.slice(0, FIRST), more.node);
  const menu = h("nav", { class: "nav", "aria-label": "Dashboard" }, list);
  const search = h(
    "button",
    { class: "search-button", onclick: openPalette },
    icon("search"),
    h("span", null, "Search"),
    h("kbd", null, isMac() ? "⌘K" : "Ctrl K"),
  );
  const side = h(
    "header",
    { class: "side" },
    h("div", { class: "brand" }, brand(), badge()),
    search,
    menu,
    h("div", { class: "side-foot" }, connection(), buttons()),
  );
  const slot = h("div", { class: "slot" });
  const lost = lostBanner(slot);
  const skip = h("a", { class: "skip", href: "#main" }, "Skip to content");
  const node = h("div", { class: "shell" }, skip, side, slot);

  function show(main, page) {
    const top = page && `/${page.path.split("/")[1]}`;
    for (const one of links) {
      const isHere = one.page.path === page?.path || one.page.path === top;
      if (isHere) one.node.setAttribute("aria-current", "page");
      else one.node.removeAttribute("aria-current");
    }
    more.close();
    fill(slot, lost, readOnly(), main);
  }

  return { node, show };
}

function link({ path, nav }) {
  return h("a", { href: href(path) }, icon(nav.icon), h("span", null, nav.label));
}

//: The links that do not fit on phones, behind a button; {node, close()}.
function moreLinks(items) {
  const list = h("ul", { id: "more-pages" }, items);
  const props = { "aria-expanded": "false", "aria-controls": list.id, onclick: toggle };
  const button = h("button", props, icon("more"), h("span", null, "More"));
  const node = h("li", { class: "nav-more", onkeydown: onKeydown }, button, list);

  function open(isOpen) {
    button.setAttribute("aria-expanded", String(isOpen));
    node.classList.toggle("is-open", isOpen);
    if (isOpen) document.addEventListener("pointerdown", onPointerdown);
    else document.removeEventListener("pointerdown", onPointerdown);
  }

  function toggle() {
    open(!node.classList.contains("is-open"));
  }

  function onPointerdown(event) {
    if (!node.contains(event.target)) open(false);
  }

  function onKeydown(event) {
    if (event.key !== "Escape") return;
    open(false);
    button.focus();
  }

  function close() {
    open(false);
    button.classList.toggle("is-here", list.querySelector("[aria-current]") !== null);
  }

  return { node, close };
}

function brand() {
  return h(
    "a",
    { class: "brand-name", href: href("/"), title: `Kue ${version}` },
    "Kue",
  );
}

function badge() {
  if (!me.badge?.text) return null;
  return h(
    "span",
    { class: "badge", dataset: { tone: me.badge.tone ?? "info" } },
    me.badge.text,
  );
}

function readOnly() {
  if (!me.read_only) return null;
  const text = "Read-only: this dashboard shows everything and changes nothing.";
  return h("div", { class: "banner", role: "note" }, icon("lock"), text);
}

//: A notice while the connection is lost; *slot* is greyed out in the meantime.
function lostBanner(slot) {
  const text = h("span", { role: "alert" });
  const length = h("span", { class: "nowrap" });
  const node = h("div", { class: "banner banner-lost", hidden: true }, icon("warning"), text, length);
  live.onState(() => {
    const at = live.lostAt;
    node.hidden = at === null;
    slot.classList.toggle("is-stale", at !== null);
    const what = live.isStoreUp ? "the server" : "the store: the server cannot reach it";
    const words = `Connection lost to ${what}. Showing data from ${time(at)}; reconnecting…`;
    fill(text, at !== null && words);
    // Outside the alert: screen readers would announce it every second.
    fill(length, at !== null && timeAgo(at));
  });
  return node;
}

function connection() {
  const text = h("span");
  const node = h(
    "button",
    { class: "connection", onclick: () => live.togglePause() },
    h("span", { class: "dot" }),
    text,
  );
  // A listener on every page keeps the stream open, so that the state shown is true.
  live.on(() => {}, { kinds: ["lagged"] });
  live.onState((state) => {
    const [word, title] = CONNECTION[state];
    node.dataset.live = state;
    node.title = title;
    node.setAttribute(
      "aria-label",
      `${word}: ${title}. Press to ${live.isPaused ? "resume" : "pause"}`,
    );
    fill(text, word);
  });
  return node;
}

function buttons() {
  const theme = h("button", { class: "plain", onclick: nextTheme });
  function name() {
    const now = themeName();
    const label = `Theme: ${now}`;
    theme.title = label;
    theme.setAttribute("aria-label", label);
    fill(theme, icon({ light: "sun", dark: "moon", system: "auto" }[now]));
  }
  name();
  window.addEventListener("kue:theme", name);
  const help = h(
    "button",
    {
      class: "plain",
      title: "Keyboard shortcuts (?)",
      "aria-label": "Show keyboard shortcuts",
      onclick: showShortcuts,
    },
    h("span", { class: "question" }, "?"),
  );
  return h(
    "div",
    { class: "side-buttons" },
    userName(),
    h("span", { class: "side-tools" }, theme, help, logoutButton()),
  );
}

function userName() {
  if (!me.can_log_out) return null;
  const title = `${me.name}, ${me.role}`;
  return h("span", { class: "who", title }, icon("person"), h("span", null, me.name));
}

function logoutButton() {
  if (!me.can_log_out) return null;
  async function logout() {
    try {
      await api.post("/logout");
      window.location.assign(href("/login"));
    } catch (error) {
      toastProblem(error);
    }
  }
  const props = {
    class: "plain",
    title: "Log out",
    "aria-label": "Log out",
    onclick: logout,
  };
  return h("button", props, icon("leave"));
}

function isMac() {
  return /Mac|iPhone|iPad/.test(navigator.userAgent);
}
