// Theme: light, dark or the system's.

const NAMES = ["system", "light", "dark"];
const KEY = "kue.theme";

export function themeName() {
  return document.documentElement.dataset.theme ?? "system";
}

export function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    if (name === "system") window.localStorage.removeItem(KEY);
    else window.localStorage.setItem(KEY, name);
  } catch {
    // No storage: the theme is kept until the page is left.
  }
  window.dispatchEvent(new CustomEvent("kue:theme"));
}

export function nextTheme() {
  setTheme(NAMES[(NAMES.indexOf(themeName()) + 1) % NAMES.length]);
}
