// The states of a job: each with a hue, a shape and its name, so never by colour alone.

import { h } from "../lib/dom.js";
import { icon } from "./icon.js";

export const STATES = [
  "waiting",
  "active",
  "delayed",
  "blocked",
  "complete",
  "failed",
  "cancelled",
];
//: Those that have ended.
export const FINAL = ["complete", "failed", "cancelled"];

//: A badge such as the lists show.
export function stateBadge(state) {
  const name = STATES.includes(state) ? state : "unknown";
  return h(
    "span",
    { class: "state", dataset: { state: name } },
    icon(name),
    String(state),
  );
}
