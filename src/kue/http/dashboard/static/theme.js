// Apply the saved theme before the first paint.
(() => {
  let chosen = null;
  try {
    chosen = window.localStorage.getItem("kue.theme");
  } catch {
    // No storage: use the system's theme.
  }
  if (chosen === "light" || chosen === "dark")
    document.documentElement.dataset.theme = chosen;
})();
