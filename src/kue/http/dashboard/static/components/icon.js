// Icons: strokes on a 16 px grid, in the colour of the text.

import { svg } from "../lib/dom.js";

const PATHS = {
  // Pages.
  overview: "M2 9h3l2-5 3 9 2-4h2",
  queues: "M2 4h12M2 8h12M2 12h8",
  jobs: "M3 2.5h10v11H3zM5.5 6h5M5.5 9h3",
  errors: "M8 2.2 14.2 13H1.8zM8 6.4v3M8 11.2v.1",
  schedules: "M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.5V5M10.5 2.5V5M5.5 10h.1M8 10h.1M10.5 10h.1",
  batches: "M2.5 9.5h5v4h-5zM8.5 9.5h5v4h-5zM5.5 3.5h5v4h-5z",
  limits: "M2.5 12.5a5.8 5.8 0 1 1 11 0M8 11.5 10.8 6.8M4 12.5h8",
  workers:
    "M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14",
  bus: "M2 8h12M4 8V4.5M8 8v3.5M12 8V4.5M3 2.5h2v2H3zM7 11.5h2v2H7zM11 2.5h2v2h-2z",
  metrics: "M2 13.5h12M4 11V8M8 11V3M12 11V6",
  audit: "M4 2h6l3 3v9H4zM10 2v3h3M6.5 8h4M6.5 11h4",
  settings: "M2 5h7M12 5h2M2 11h2M7 11h7M9 3.5h3v3H9zM4 9.5h3v3H4z",
  api: "M5.5 4 2 8l3.5 4M10.5 4 14 8l-3.5 4",
  page: "M3.5 2h9v12h-9z",
  // Actions.
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.3 10.3 14 14",
  copy: "M6 6h7.5v7.5H6zM10 3.5V2.5H2.5V10H4",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  more: "M3 8h.1M8 8h.1M13 8h.1",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4 6 8l4 4",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8z",
  run: "M9 1.8 3.8 9H8l-1 5.2L12.2 7H8z",
  skip: "M3.5 3.8v8.4L9.5 8zM12.2 3.8v8.4",
  stop: "M4 4h8v8H4z",
  trash: "M3 4.5h10M6.5 4V2.5h3V4M4.5 4.5l.6 9h5.8l.6-9",
  edit: "M3 13l.6-3L10.5 3 13 5.5 6 12.4zM9.2 4.3l2.5 2.5",
  filter: "M2 3.5h12L9.5 8.7v4.3L6.5 11.5V8.7z",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  download: "M8 2.5v8M4.8 7.5 8 10.7l3.2-3.2M3 13.5h10",
  star: "M8 2.2l1.8 3.7 4 .6-2.9 2.8.7 4L8 11.4l-3.6 1.9.7-4L2.2 6.5l4-.6z",
  clock: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 5v3.2l2.2 1.4",
  link: "M6.5 9.5l3-3M7 4.5l1.2-1.2a3 3 0 0 1 4.3 4.3L11.3 8.8M9 11.5l-1.2 1.2a3 3 0 0 1-4.3-4.3l1.2-1.2",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5",
  auto: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 2.2v11.6",
  person:
    "M8 2.5a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4M2.8 13.8c.5-2.6 2.5-4 5.2-4s4.7 1.4 5.2 4",
  leave: "M9.5 2.5h-6v11h6M7 8h7M11.5 5.5 14 8l-2.5 2.5",
  key: "M5 7.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M7.2 8.8 13.5 2.5M10.5 5.5l2 2",
  info: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 7.5v3.7M8 5v.1",
  warning: "M8 2.2 14.2 13H1.8zM8 6.4v3M8 11.2v.1",
  lock: "M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  // States.
  waiting: "M4 3h8M4 13h8M5 3v2l3 3-3 3v2M11 3v2L8 8l3 3v2",
  active: "M5 3.2v9.6L12.5 8z",
  delayed: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M8 5v3.2l2.2 1.4",
  blocked: "M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  complete: "M3 8.5 6.5 12 13 4.5",
  failed: "M4 4l8 8M12 4l-8 8",
  cancelled: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M4 12 12 4",
};

//: A decorative icon, hidden from screen readers.
export function icon(name) {
  const path = svg("path", { d: PATHS[name] ?? PATHS.page });
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
    path,
  );
}
