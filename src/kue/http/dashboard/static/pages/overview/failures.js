// The jobs that failed last, on the first page.

import { keyed } from "../../components/keyed.js";
import { h } from "../../lib/dom.js";
import { timeAgo } from "../../lib/format.js";
import { href } from "../../lib/router.js";

//: Return {node, update(jobs)}.
export function failures() {
  const list = h("ol", { class: "failures" });
  const none = h("p", { class: "faint" }, "No job has failed.");
  const key = ({ id, failed_at: at }) => `${id}:${at}`;
  const show = keyed(list, key, failure);

  function update(jobs) {
    none.hidden = jobs.length > 0;
    list.hidden = jobs.length === 0;
    show(jobs);
  }

  return { node: h("div", null, none, list), update };
}

function failure(job) {
  const { kind = "", message = "" } = job.error ?? {};
  const node = h(
    "li",
    { class: "failure" },
    h("a", { href: href(`/jobs/${job.id}`) }, `#${job.id}`),
    h("span", { class: "failure-type" }, job.type),
    h("span", { class: "failure-when" }, timeAgo(job.failed_at ?? job.ended_at)),
    h("span", { class: "failure-text" }, kind ? h("b", null, kind) : null, " ", message),
  );
  return { node, update: () => {} };
}
