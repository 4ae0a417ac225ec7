// Saved views: filters that someone gave a name, kept in this browser.

const KEY = "kue.views";
const MOST = 30;

//: Those that come with the dashboard.
export const READY_MADE = [
  { name: "Failed in the last hour", search: "state=failed&since=1h" },
  { name: "Running now", search: "state=active" },
  { name: "Critical and waiting", search: "state=waiting&priority=critical" },
];

export function savedViews() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isView) : [];
  } catch {
    return [];
  }
}

//: Keep a view; another of the same name gives way.
export function saveView(name, search) {
  keep([...savedViews().filter((view) => view.name !== name), { name, search }].slice(-MOST));
}

export function forgetView(name) {
  keep(savedViews().filter((view) => view.name !== name));
}

//: The part of a query that a view is made of: no page of it.
export function searchOf(query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (name === "cursor") continue;
    for (const one of [value].flat()) search.append(name, one);
  }
  return search.toString();
}

function isView(view) {
  return typeof view?.name === "string" && typeof view?.search === "string";
}

function keep(views) {
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    // Nothing may be kept; the address can still be.
  }
}
