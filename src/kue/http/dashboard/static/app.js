// Entry point: routing, login, the shell around the pages, global shortcuts.

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
const routes = pages.map((page) => ({ page, match: matcher(page.path) }));
const app = document.getElementById("app");
let unmount = () => {};
let frame = null;
//: Actions of the current page, for the command palette.
let actions = [];

async function show() {
  unmount();
  unmount = () => {};
  actions = [];
  if (path() === LOGIN) {
    live.stop();
    frame = null;
  } else if (!(await isLoggedIn())) {
    return;
  }
  const found = findPage();
  const root = h("main", { id: "main", tabindex: -1 });
  if (path() === LOGIN) {
    fill(app, root);
  } else {
    const isFirst = frame === null;
    if (isFirst) {
      frame = shell({ pages, openPalette: openCommands });
      fill(app, frame.node);
    }
    frame.show(root, found?.page);
    // Screen readers announce the new page.
    if (!isFirst) root.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  mount(root, found ?? { page: notFound, params: {} });
}

function findPage() {
  const current = path();
  for (const { page, match } of routes) {
    const params = match(current);
    if (params) return { page, params };
  }
  return null;
}

function mount(root, { page, params }) {
  const cleanups = [];
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
    keys: (map) => cleanups.push(addShortcuts(map, "This page")),
  };
  try {
    const cleanup = page.mount(root, context);
    cleanups.push(() => typeof cleanup === "function" && cleanup());
  } catch (error) {
    report(error);
  }
  unmount = () => cleanups.forEach((cleanup) => cleanup());
  markReady(root);
}

//: Mark the page once its first data is shown: <main data-ready>.
async function markReady(root) {
  await requestsSettled();
  // Some data is requested only when it scrolls into view.
  await painted();
  await requestsSettled();
  root.dataset.ready = "";
}

function painted() {
  return new Promise((resolve) => {
    window.requestAnimationFrame(() => window.setTimeout(resolve));
  });
}

//: Whether a user is logged in; redirects to the login page if not.
async function isLoggedIn() {
  if (me.isKnown) return true;
  try {
    await readMe();
    return true;
  } catch (error) {
    if (error.status === 401) redirectToLogin();
    else unreachable(error);
    return false;
  }
}

function redirectToLogin() {
  if (path() === LOGIN) return;
  me.isKnown = false;
  const next = `${path()}${window.location.search}`;
  const search = next === "/" ? "" : `?next=${encodeURIComponent(next)}`;
  go(`${LOGIN}${search}`, { replace: true });
}

function unreachable(error) {
  const reload = () => window.location.reload();
  fill(
    app,
    h(
      "main",
      { class: "lonely" },
      h("h1", null, error.status === 403 ? "No access" : "No response"),
      h("p", null, error.message),
      h("button", { class: "primary", onclick: reload }, "Try again"),
    ),
  );
}

const notFound = {
  title: "Page not found",
  mount(root) {
    root.append(
      h(
        "div",
        { class: "empty" },
        h("h1", null, "Page not found"),
        h("p", null, "There is nothing at ", h("code", null, path()), "."),
        h("a", { class: "button", href: href("/") }, "Overview"),
      ),
    );
  },
};

function openCommands() {
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
        else openCommands();
      },
    },
    p: {
      label: "Pause or resume updates",
      run: () => live.togglePause(),
    },
  },
  "Everywhere",
);
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (me.isKnown) openCommands();
  }
});

window.addEventListener("kue:unauthorized", redirectToLogin);
window.addEventListener("kue:problem", (event) => toastProblem(event.detail));
window.addEventListener("unhandledrejection", (event) => {
  // Shown on the page instead of in the console.
  event.preventDefault();
  if (!isAbort(event.reason)) report(event.reason);
});

start(show);
