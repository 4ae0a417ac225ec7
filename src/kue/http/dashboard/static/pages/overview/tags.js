// Monitored tags on the overview: how many of the newest jobs have each.

import { keyedList } from "../../components/keyed-list.js";
import { panel } from "../../components/panel.js";
import { api } from "../../lib/api.js";
import { h, setText } from "../../lib/dom.js";
import { number, plural } from "../../lib/format.js";
import { href } from "../../lib/router.js";

//: Return {node, read(signal)}; the panel is hidden while no tag is monitored.
export function monitoredTags() {
  const list = h("ol", { class: "lines" });
  const show = keyedList(list, ({ tag }) => tag, tagLine);
  const node = panel("Monitored tags", {}, list);
  node.hidden = true;

  async function read(signal) {
    const tags = await api.get("/tags", null, { signal });
    node.hidden = tags.length === 0;
    show(tags);
  }

  return { node, read };
}

function tagLine({ tag }) {
  const jobs = h("span");
  const failed = h("span", { class: "bad" });
  const path = href(`/jobs?${new URLSearchParams({ tag })}`);
  const node = h("li", null, h("a", { href: path }, tag), jobs, failed);

  function update(one) {
    setText(jobs, plural(one.jobs, "job"));
    setText(failed, one.failed > 0 ? `${number(one.failed)} failed` : "");
  }

  return { node, update };
}
