// Details of a job: options, times and worker.

import { copyButton } from "../../components/clipboard.js";
import { pathSegment } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { duration, timeAgo } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { priorityName } from "../jobs/columns.js";
import { limitLink } from "../limits/words.js";

//: A list of [name, value] pairs.
export function factList(facts) {
  return h(
    "dl",
    { class: "facts" },
    facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

//: The details of a job, as [name, value] pairs; defaults are left out.
export function detailsOf(job) {
  const facts = [
    ...taskAndQueue(job),
    ["Priority", priorityOf(job.priority)],
    ["Attempts", attemptCount(job)],
    ["Released", job.releases ? `${job.releases}, not counted as attempts` : null],
    ["Stalls", job.stalls || null],
    ["Worker", job.worker && jobsWith({ worker: job.worker }, job.worker)],
    ["Created", timeAgo(job.created_at)],
    ["Due", isEndless(job) ? null : job.promote_at && timeAgo(job.promote_at)],
    ["Started", job.started_at && timeAgo(job.started_at)],
    ["Ended", job.ended_at && timeAgo(job.ended_at)],
    ["Last run took", job.duration === null ? null : duration(job.duration)],
    ["Must start by", job.expires_at && timeAgo(job.expires_at)],
    ...optionsOf(job),
    ["Address", addressView(job.address_id)],
  ];
  return facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
}

function taskAndQueue({ name, type }) {
  const queue = link(`/queues/${pathSegment(type)}`, type);
  if (name === type) return [["Type", queue]];
  return [
    ["Type", name],
    ["Queue", queue],
  ];
}

//: Whether it waits for a signal without a timeout: its time is a hundred years ahead.
export function isEndless({ pending }) {
  return Boolean(pending) && pending.until === null;
}

//: What adding a job does while another has its unique key, if not what it usually does.
const CONFLICTS = { reject: "it is rejected", replace: "it replaces the other" };

//: Options of a job, or of the jobs of a schedule; empty ones are to be left out.
export function optionsOf(job) {
  return [
    ["Tags", job.tags.length ? job.tags.map((tag) => tagLink(job, tag)) : null],
    ["Group", job.group && jobsWith({ type: job.type, group: job.group }, job.group)],
    ["Limited by", limitsOf(job)],
    ["Unique key", job.unique],
    ["Unique for", job.unique_for ? duration(job.unique_for) : null],
    ["Unique until", job.unique_until === "start" ? "it starts" : null],
    ["Unique at most for", job.unique_at_most ? duration(job.unique_at_most) : null],
    ["If its key is taken", CONFLICTS[job.on_conflict] ?? null],
    ["Debounced for", job.debounce ? duration(job.debounce) : null],
    ["Debounced at most for", job.debounce_max ? duration(job.debounce_max) : null],
    ["Backoff", job.backoff && backoffText(job.backoff)],
    ["Fails after", job.max_exceptions ? `${job.max_exceptions} errors` : null],
    ["Retried until", job.retry_until && timeAgo(job.retry_until)],
    ["Timeout", job.timeout ? duration(job.timeout) : null],
    ["Asked to stop after", job.soft_timeout ? duration(job.soft_timeout) : null],
    ["Survives lost workers", job.max_stalls],
    ["Must report within", job.ttl ? duration(job.ttl) : null],
    ["Kept for", job.retention === null ? null : duration(job.retention)],
    ["Removed when complete", job.remove_on_complete ? "yes" : null],
    ["Delivery", job.delivery === "at-least-once" ? null : job.delivery],
    ...Object.entries(job.meta).map(([name, value]) => [`meta ${name}`, value]),
  ];
}

//: The limits that a job counts against, each with a link.
function limitsOf({ limited_by: limits }) {
  const found = Object.entries(limits);
  return found.length ? found.map(([name, key]) => h("div", null, limitLink(name, key))) : null;
}

function attemptCount(job) {
  if (!job.max_attempts) return `${job.attempts}, unlimited`;
  const left = job.max_attempts - job.attempts;
  const count = `${job.attempts} of ${job.max_attempts}`;
  if (["complete", "cancelled"].includes(job.state) || left <= 0) return count;
  return `${count}, ${left} left`;
}

export function priorityOf(priority) {
  const name = priorityName(priority);
  return name === String(priority) ? name : `${name} (${priority})`;
}

function link(path, text) {
  return h("a", { href: href(path) }, text);
}

function jobsWith(filters, text) {
  return link(`/jobs?${new URLSearchParams(filters)}`, text);
}

function tagLink(job, tag) {
  const search = new URLSearchParams({ tag });
  return h("a", { class: "tag", href: href(`/jobs?${search}`) }, tag);
}

function addressView(address) {
  const copy = copyButton(address, "Copy the address");
  return h("span", { class: "address" }, h("code", null, address), copy);
}

function backoffText(backoff) {
  const { type, delay, max, delays, name, jitter } = backoff;
  const scatter = jitter ? `, jitter ${Math.round(jitter * 100)}%` : "";
  switch (type) {
    case "exponential":
      return `doubling from ${duration(delay)}${max ? ` to ${duration(max)}` : ""}${scatter}`;
    case "list":
      return delays.map((one) => duration(one)).join(", then ");
    case "named":
      return `strategy ${name}`;
    default:
      return `${duration(delay)}${scatter}`;
  }
}
