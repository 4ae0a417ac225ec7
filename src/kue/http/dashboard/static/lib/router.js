// The address is the state: which page, and what it shows.

import { prefix } from "./config.js";

let listener = () => {};
//: The address that is shown, without the place on the page.
let shown = "";

//: The address of a page below the mount.
export function href(path) {
  return `${prefix}${path}`;
}

//: The path of the page that is shown, without the mount; still encoded.
export function path() {
  const whole = window.location.pathname;
  const rest = whole.startsWith(prefix) ? whole.slice(prefix.length) : whole;
  return rest || "/";
}

//: What stands after the question mark, by name; repeated names become arrays.
export function query() {
  const found = {};
  for (const [name, value] of new URLSearchParams(window.location.search)) {
    found[name] = name in found ? [found[name], value].flat() : value;
  }
  return found;
}

//: Write *changes* into the address; null or "" removes.  The page is not mounted anew.
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
  const act = replace ? "replaceState" : "pushState";
  window.history[act](null, "", address);
  shown = here();
}

//: Show another page: a path below the mount, with or without a query.
export function go(target, { replace = false } = {}) {
  const act = replace ? "replaceState" : "pushState";
  window.history[act](null, "", href(target));
  show();
}

//: Call *fn* now and whenever another page is to be shown.
export function start(fn) {
  listener = fn;
  // Told of another place on the same page, too.
  window.addEventListener("popstate", () => here() !== shown && show());
  document.addEventListener("click", follow);
  show();
}

function show() {
  shown = here();
  listener();
}

function here() {
  return `${window.location.pathname}${window.location.search}`;
}

//: Links inside the mount do not load the page anew.
function follow(event) {
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
  // A place on this very page is the browser's business.
  if (hash && pathname === window.location.pathname) return;
  event.preventDefault();
  go(`${pathname.slice(prefix.length) || "/"}${search}`);
}

//: Make a function that gives the parameters in a path such as /jobs/:id, or null.
export function matcher(pattern) {
  const names = [];
  const source = pattern
    .split("/")
    .map((piece, index, pieces) => {
      if (!piece.startsWith(":")) return piece;
      names.push(piece.slice(1));
      // A proxy may have decoded a slash in a name: the last takes the rest.
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
