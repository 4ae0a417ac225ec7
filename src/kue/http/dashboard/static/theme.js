// Before anything is painted: the theme that was chosen, if one was.
(() => {
  let chosen = null;
  try {
    chosen = window.localStorage.getItem("kue.theme");
  } catch {
    // No storage here; the system's theme it is.
  }
  if (chosen === "light" || chosen === "dark")
    document.documentElement.dataset.theme = chosen;
})();
