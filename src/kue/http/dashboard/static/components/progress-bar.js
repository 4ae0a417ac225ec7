// Progress bar.

import { h } from "../lib/dom.js";

//: A bar from 0 to 100; null is an unknown progress.
export function progressBar(value, { label = "Progress", text = false } = {}) {
  const isKnown = typeof value === "number" && Number.isFinite(value);
  const share = isKnown ? Math.max(0, Math.min(100, value)) : null;
  const now = isKnown ? { "aria-valuenow": Math.round(share) } : {};
  const inner = h("div", { class: "bar-fill" });
  if (isKnown) inner.style.width = `${share}%`;
  return h(
    "div",
    { class: "bar-line" },
    h(
      "div",
      {
        class: ["bar", isKnown ? "" : "bar-busy"],
        role: "progressbar",
        "aria-label": label,
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        ...now,
      },
      inner,
    ),
    text && isKnown ? h("span", { class: "bar-text" }, `${Math.round(share)}%`) : null,
  );
}
