// What fails in a queue, the most frequent first.

import { keyed } from "../../components/keyed.js";
import { panel } from "../../components/panel.js";
import { write } from "../../components/tile.js";
import { api } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { number } from "../../lib/format.js";
import { href } from "../../lib/router.js";

const SHOWN = 5;

//: Return {node, read(signal)}.
export function errors(type) {
  const list = h("ol", { class: "failures" });
  const none = h("p", { class: "faint" }, "No job has failed.");
  const show = keyed(list, ({ kind, message }) => `${kind}:${message}`, entry);
  const path = href(`/errors?${new URLSearchParams({ type })}`);
  const all = h("a", { class: "more", href: path }, "All errors");

  async function read(signal) {
    let groups = [];
    try {
      ({ groups } = await api.get("/errors", { type, limit: SHOWN }, { signal }));
    } catch (error) {
      // A queue that is only set up has had no job yet.
      if (!error.isMissing) throw error;
    }
    none.hidden = groups.length > 0;
    show(groups);
  }

  return { node: panel("Errors", { aside: all }, none, list), read };
}

function entry({ kind, message, job_id: id }) {
  const count = h("span", { class: "failure-when" });
  const title = id ? h("a", { href: href(`/jobs/${id}`) }, kind) : kind;
  const node = h(
    "li",
    { class: "failure" },
    h("b", null, title),
    count,
    h("span", { class: "failure-text" }, message),
  );
  return { node, update: (group) => write(count, `${number(group.count)} ×`) };
}
