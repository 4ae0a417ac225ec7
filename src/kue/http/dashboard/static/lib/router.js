// Router: the address holds which page is shown, with its filters and options.

import { prefix } from "./config.js";

let listener = () => {};
//: The current address, without its fragment.
let shown = "";

//: The address of a page, with the prefix of the mount.
export function href(path) {
  return `${prefix}${path}`;
}

//: The path of the current page, without the prefix; still encoded.
export function path() {
  const whole = window.location.pathname;
  const rest = whole.startsWith(prefix) ? whole.slice(prefix.length) : whole;
  return rest || "/";
}

//: The query parameters, by name; repeated names become arrays.
export function query() {
  const found = {};
  for (const [name, value] of new URLSearchParams(window.location.search)) {
    found[name] = name in found ? [found[name], value].flat() : value;
  }
  return found;
}

//: Write *changes* into the query; null or "" removes.  The page is not mounted again.
export function setQuery(changes, { replace = true } = {}) {
  const search = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(changes)) {
    search.delete(name);
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "") search.append(name, one);
    }
  }
  const text = search.toString();
  const address = `${window.location.pathname}${text ? `?${text}` : ""}`;
  const method = replace ? "replaceState" : "pushState";
  window.history[method](null, "", address);
  shown = here();
}

//: Go to another page: a path below the mount, with or without a query.
export function go(target, { replace = false } = {}) {
  const method = replace ? "replaceState" : "pushState";
  window.history[method](null, "", href(target));
  show();
}

//: Call *fn* now and whenever the page changes.
export function start(fn) {
  listener = fn;
  // Also fired for another fragment of the same page.
  window.addEventListener("popstate", () => here() !== shown && show());
  document.addEventListener("click", openLink);
  show();
}

function show() {
  shown = here();
  listener();
}

function here() {
  return `${window.location.pathname}${window.location.search}`;
}

//: Open links inside the mount without reloading the page.
function openLink(event) {
  const link = event.target.closest?.("a[href]");
  const isPlain = !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || event.defaultPrevented || event.button !== 0 || !isPlain) return;
  if (link.target || link.hasAttribute("download") || link.dataset.outside) return;
  const { origin, pathname, search, hash } = new URL(link.href);
  const isOurs = pathname === prefix || pathname.startsWith(`${prefix}/`);
  const isData = /^\/(api\/.|assets\/|kue|vertx-kue)/.test(
    pathname.slice(prefix.length),
  );
  if (origin !== window.location.origin || !isOurs || isData) return;
  // The browser handles fragments of the same page.
  if (hash && pathname === window.location.pathname) return;
  event.preventDefault();
  go(`${pathname.slice(prefix.length) || "/"}${search}`);
}

//: Return a function that returns the parameters of a path such as /jobs/:id, or null.
export function matcher(pattern) {
  const names = [];
  const source = pattern
    .split("/")
    .map((piece, index, pieces) => {
      if (!piece.startsWith(":")) return piece;
      names.push(piece.slice(1));
      // A proxy may have decoded a slash in a name: the last one takes the rest.
      return index === pieces.length - 1 ? "(.+)" : "([^/]+)";
    })
    .join("/");
  const wanted = new RegExp(`^${source}/?$`);
  return (given) => {
    const found = wanted.exec(given);
    if (!found) return null;
    return Object.fromEntries(
      names.map((name, index) => [name, decode(found[index + 1])]),
    );
  };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
