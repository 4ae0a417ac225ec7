// Jobs as files to take away: JSON with everything, CSV with the columns that are shown.

import { h } from "../../lib/dom.js";

export function saveJson(jobs) {
  save("jobs.json", "application/json", `${JSON.stringify(jobs, null, 2)}\n`);
}

export function saveCsv(jobs, columns) {
  save("jobs.csv", "text/csv", asCsv(jobs, columns));
}

export function asCsv(jobs, columns) {
  const rows = [
    columns.map((column) => column.key),
    ...jobs.map((job) => columns.map((column) => column.text(job))),
  ];
  return rows.map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

//: Spreadsheets take text that begins like a formula for one; data of jobs is not ours.
function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
