// Limits in words: marks, and links from jobs.

import { h } from "../../lib/dom.js";
import { timeAgo } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { badge } from "../queues/badges.js";
import { limitPath } from "./actions.js";

//: The marks of a limit, as nodes.
export function limitMarks({ is_changed: isChanged, declared }) {
  return [
    isChanged && badge("warn", "changed at run time", `Programs declare ${declared.words}`),
    declared === null && badge("", "set at run time", "No program declares it"),
  ].filter(Boolean);
}

//: A link to a limit, followed by the key.
export function limitLink(name, key = "") {
  const link = h("a", { href: href(limitPath(name)) }, name);
  return key ? h("span", null, link, ` of ${key}`) : link;
}

//: "Held: waits for limit 'stripe', 5 running", with a link to the limit, and until when.
export function heldNote({ held, held_until: until, limited_by: limits }) {
  const name = Object.keys(limits).find((one) => held.startsWith(`waits for limit '${one}'`));
  return h(
    "p",
    { class: "job-note" },
    `Held: ${held}`,
    until !== null && ["; it may start ", timeAgo(until)],
    name !== undefined && [" · ", h("a", { href: href(limitPath(name)) }, `Limit ${name}`)],
  );
}
