// Code that adds a similar job: Python, command line, cURL.

import { codeSample } from "../../components/empty-state.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";

//: Options that are written only when they differ from the default.
const OPTIONS = [
  { name: "queue", of: (job) => (job.name === job.type ? null : job.type) },
  { name: "priority", of: (job) => job.priority },
  { name: "delay", of: (job) => seconds(job.delay) },
  { name: "attempts", of: attemptsOf, usual: 1 },
  { name: "max_exceptions", of: (job) => job.max_exceptions },
  { name: "retry_until", of: retryTime },
  { name: "backoff", of: (job) => job.backoff },
  { name: "timeout", of: (job) => seconds(job.timeout) },
  { name: "soft_timeout", of: (job) => seconds(job.soft_timeout) },
  { name: "max_stalls", of: (job) => job.max_stalls, isZeroUsual: false },
  { name: "ttl", of: (job) => seconds(job.ttl) },
  { name: "expires", of: (job) => seconds(job.expires) },
  { name: "unique", of: (job) => job.unique },
  { name: "unique_for", of: (job) => seconds(job.unique_for) },
  { name: "unique_until", of: (job) => job.unique_until, usual: "end" },
  { name: "unique_at_most", of: (job) => seconds(job.unique_at_most) },
  { name: "group", of: (job) => job.group },
  { name: "limited_by", of: (job) => ifAny(job.limited_by) },
  { name: "tags", of: (job) => (job.tags?.length ? job.tags : null) },
  { name: "after", of: (job) => (job.after?.length ? job.after : null) },
  {
    name: "on_parent_failure",
    of: (job) => (job.after?.length ? job.on_parent_failure : null),
    usual: "block",
  },
];
//: Options that the command line does not have.
const MORE_OPTIONS = [
  { name: "remove_on_complete", of: (job) => job.remove_on_complete || null },
  { name: "retention", of: (job) => seconds(job.retention) },
  {
    name: "delivery",
    of: (job) => job.delivery,
    usual: "at-least-once",
  },
  { name: "meta", of: (job) => ifAny(job.meta) },
];

//: The body of POST /jobs that adds a similar job.
export function asBody(job) {
  const body = { type: job.name };
  if (job.data !== null && job.data !== undefined) body.data = job.data;
  return { ...body, ...optionsOf(job, [...OPTIONS, ...MORE_OPTIONS]) };
}

function asPython(job) {
  const rest = Object.entries(optionsOf(job, [...OPTIONS, ...MORE_OPTIONS])).map(
    ([name, value]) => `    ${name}=${python(value)},`,
  );
  const lines = [`    ${python(job.name)},`];
  if (job.data !== null && job.data !== undefined) {
    lines.push(`    ${python(job.data)},`);
  }
  return ["job = await q.enqueue(", ...lines, ...rest, ")"].join("\n");
}

function asCommand(job) {
  const positional = [quoted(job.name)];
  if (job.data !== null && job.data !== undefined) {
    positional.push(quoted(JSON.stringify(job.data)));
  }
  const options = [];
  for (const [name, value] of Object.entries(optionsOf(job, OPTIONS))) {
    if (name === "tags") {
      options.push(...value.map((tag) => `--tag ${quoted(tag)}`));
      continue;
    }
    if (name === "after") {
      options.push(...value.map((id) => `--after ${id}`));
      continue;
    }
    if (name === "limited_by") {
      const limits = Object.entries(value).map(([limit, key]) => (key ? `${limit}=${key}` : limit));
      options.push(...limits.map((one) => `--limited-by ${quoted(one)}`));
      continue;
    }
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    options.push(`--${name.replaceAll("_", "-")}=${quoted(text)}`);
  }
  // A type or a number that starts with "-" would be parsed as an option.
  const needsSeparator = positional.some((word) => /^'?-/.test(word));
  const all = needsSeparator ? [...options, "--", ...positional] : [...positional, ...options];
  return ["kue job add", ...all].join(" ");
}

function asCurl(job, url) {
  return [
    `curl ${quoted(url)} \\`,
    "  -H 'Content-Type: application/json' \\",
    `  -d ${quoted(JSON.stringify(asBody(job)))}`,
  ].join("\n");
}

function optionsOf(job, options) {
  const found = {};
  for (const { name, of, usual, isZeroUsual = true } of options) {
    const value = of(job);
    if (value === null || value === undefined || (isZeroUsual && value === 0)) continue;
    if (value !== usual) found[name] = value;
  }
  return found;
}

function ifAny(mapping) {
  return Object.keys(mapping ?? {}).length ? mapping : null;
}

function seconds(ms) {
  return ms === null || ms === undefined ? null : ms / 1000;
}

function attemptsOf(job) {
  return job.max_attempts === 0 ? "unlimited" : job.max_attempts;
}

//: A similar job may be retried for as long, not until the same moment.
function retryTime({ retry_until: until, created_at: created }) {
  return until > created ? `${seconds(until - created)}s` : null;
}

//: A JSON value as a Python literal.
function python(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  const parts = Object.entries(value).map(
    ([key, inner]) => `${JSON.stringify(key)}: ${python(inner)}`,
  );
  return `{${parts.join(", ")}}`;
}

//: A word quoted for the shell.
function quoted(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", "'\\''")}'`;
}

// -- the panel --------------------------------------------------------------------

const LANGUAGES = [
  ["Python", asPython],
  ["Command line", asCommand],
  ["cURL", (job) => asCurl(job, new URL(api.url("/jobs"), window.location.href).href)],
];

//: Return {node, show(job)}.
export function codeView() {
  let shown = null;
  let language = 0;
  const body = h("div");
  const buttons = LANGUAGES.map(([name], number) =>
    h("button", { type: "button", onclick: () => choose(number) }, name),
  );
  const node = h(
    "div",
    { class: "code-view" },
    h("div", { class: "segments", role: "group", "aria-label": "Language" }, buttons),
    body,
  );

  function choose(number) {
    language = number;
    draw();
  }

  function draw() {
    buttons.forEach((button, number) =>
      button.setAttribute("aria-pressed", String(number === language)),
    );
    fill(body, codeSample(LANGUAGES[language][1](shown)));
  }

  function show(job) {
    shown = job;
    draw();
  }

  return { node, show };
}
