// Prefix that the dashboard is mounted under, and version; the server writes both into
// the page.

export const prefix = document.documentElement.dataset.prefix ?? "";
export const version = document.documentElement.dataset.version ?? "";
