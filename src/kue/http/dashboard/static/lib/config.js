// Where the dashboard is mounted; the server writes it into the page.

export const prefix = document.documentElement.dataset.prefix ?? "";
export const version = document.documentElement.dataset.version ?? "";
