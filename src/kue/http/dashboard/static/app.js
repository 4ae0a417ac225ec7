// The frame around the pages: navigation, who is there, whether it is live.

import { openPalette } from "./components/command-palette.js";
import { shell } from "./components/shell.js";
import { showShortcuts } from "./components/shortcut-help.js";
import { toastProblem } from "./components/toast.js";
import { api, isAbort, report, requestsSettled } from "./lib/api.js";
import { fill, h } from "./lib/dom.js";
import { live, refresher } from "./lib/live.js";
import { can, me, readMe } from "./lib/me.js";
import { go, href, matcher, path, query, setQuery, start } from "./lib/router.js";
import { addShortcuts } from "./lib/shortcuts.js";
import { pages } from "./pages/index.js";

const LOGIN = "/login";
const known = pages.map((page) => ({ page, match: matcher(page.path) }));
const app = document.getElementById("app");
let leave = () => {};
let frame = null;
//: What the page that is shown can do, for the palette.
let actions = [];

async function show() {
  leave();
  leave = () => {};
  actions = [];
  if (path() === LOGIN) {
    live.stop();
    frame = null;
  } else if (!(await isAdmitted())) {
    return;
  }
  const found = find();
  const root = h("main", { id: "main", tabindex: -1 });
  if (path() === LOGIN) {
    fill(app, root);
  } else {
    const isFirst = frame === null;
    if (isFirst) {
      frame = shell({ pages, openPalette: palette });
      fill(app, frame.node);
    }
    frame.show(root, found?.page);
    // Whoever hears the page instead of seeing it is told that it is another one.
    if (!isFirst) root.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  mount(root, found ?? { page: missing, params: {} });
}

function find() {
  const given = path();
  for (const { page, match } of known) {
    const params = match(given);
    if (params) return { page, params };
  }
  return null;
}

function mount(root, { page, params }) {
  const ends = [];
  const setTitle = (title) => (document.title = title ? `${title} · Kue` : "Kue");
  setTitle(page.title);
  const context = {
    params,
    query: query(),
    me,
    can,
    api,
    live,
    refresher,
    go,
    href,
    setQuery,
    setTitle,
    actions: (list) => (actions = list),
    keys: (map) => ends.push(addShortcuts(map, "This page")),
  };
  try {
    const cleanup = page.mount(root, context);
    ends.push(() => typeof cleanup === "function" && cleanup());
  } catch (error) {
    report(error);
  }
  leave = () => ends.forEach((end) => end());
  ready(root);
}

//: Mark the page that shows what it first asked for: <main data-ready>.
async function ready(root) {
  await requestsSettled();
  // Some things are asked for only when they come into sight.
  await painted();
  await requestsSettled();
  root.dataset.ready = "";
}

function painted() {
  return new Promise((resolve) => {
    window.requestAnimationFrame(() => window.setTimeout(resolve));
  });
}

//: Whether someone is logged in; if not, they are sent to say who they are.
async function isAdmitted() {
  if (me.isKnown) return true;
  try {
    await readMe();
    return true;
  } catch (error) {
    if (error.status === 401) toLogin();
    else unreachable(error);
    return false;
  }
}

function toLogin() {
  if (path() === LOGIN) return;
  me.isKnown = false;
  const next = `${path()}${window.location.search}`;
  const rest = next === "/" ? "" : `?next=${encodeURIComponent(next)}`;
  go(`${LOGIN}${rest}`, { replace: true });
}

function unreachable(error) {
  const again = () => window.location.reload();
  fill(
    app,
    h(
      "main",
      { class: "lonely" },
      h("h1", null, error.status === 403 ? "No access" : "No answer"),
      h("p", null, error.message),
      h("button", { class: "primary", onclick: again }, "Try again"),
    ),
  );
}

const missing = {
  title: "No such page",
  mount(root) {
    root.append(
      h(
        "div",
        { class: "empty" },
        h("h1", null, "No such page"),
        h("p", null, "There is nothing at ", h("code", null, path()), "."),
        h("a", { class: "button", href: href("/") }, "Overview"),
      ),
    );
  },
};

function palette() {
  openPalette({ pages, actions });
}

const nav = pages.filter((page) => page.nav && !page.path.includes(":"));
addShortcuts(
  Object.fromEntries(
    nav
      .filter((page) => page.nav.key)
      .map((page) => [
        `g ${page.nav.key}`,
        { label: `Go to ${page.nav.label}`, run: () => go(page.path) },
      ]),
  ),
  "Go",
);
addShortcuts(
  {
    "?": { label: "Show keyboard shortcuts", run: showShortcuts },
    "/": {
      label: "Search",
      run: () => {
        const field = document.querySelector("main [data-search]");
        if (field) field.focus();
        else palette();
      },
    },
    p: {
      label: "Pause or resume updates",
      run: () => live.hold(!live.isHeld),
    },
  },
  "Everywhere",
);
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (me.isKnown) palette();
  }
});

window.addEventListener("kue:stranger", toLogin);
window.addEventListener("kue:problem", (event) => toastProblem(event.detail));
window.addEventListener("unhandledrejection", (event) => {
  // Told to whoever looks instead of to the console.
  event.preventDefault();
  if (!isAbort(event.reason)) report(event.reason);
});

start(show);
