// Time ranges of charts, and the buttons that select one.

import { h } from "../lib/dom.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

//: Length of each range, its step, how many steps are merged into one, and the interval of
//: refreshes.
export const RANGES = {
  "1h": { label: "1 hour", step: "minute", length: HOUR, everyMs: 15_000 },
  "24h": { label: "24 hours", step: "minute", length: DAY, fold: 5, everyMs: 60_000 },
  "7d": { label: "7 days", step: "hour", length: 7 * DAY, everyMs: 300_000 },
  "90d": { label: "90 days", step: "day", length: 90 * DAY, everyMs: 300_000 },
};
export const DEFAULT_RANGE = "1h";

//: Return *name* if there is such a range, else the default.
export function rangeOf(name) {
  return Object.hasOwn(RANGES, name ?? "") ? name : DEFAULT_RANGE;
}

//: "by minute", "by 5 minutes"
export function stepText({ step, fold = 1 }) {
  return fold === 1 ? `by ${step}` : `by ${fold} ${step}s`;
}

//: Buttons, one of them pressed; onChoose(name) is called when another is chosen.
export function rangeButtons(first, onChoose) {
  const buttons = Object.entries(RANGES).map(([name, { label }]) =>
    h(
      "button",
      {
        type: "button",
        class: "segment",
        "aria-pressed": String(name === first),
        onclick: (event) => {
          for (const one of buttons) {
            one.setAttribute("aria-pressed", String(one === event.currentTarget));
          }
          onChoose(name);
        },
      },
      label,
    ),
  );
  return h("div", { class: "ranges", role: "group", "aria-label": "Time range" }, buttons);
}
