// The REST API, relative to where the dashboard is mounted.

import { prefix } from "./config.js";

const BASE = `${prefix}/api/v1`;

//: Why a request was not answered as hoped; status 0 when there was no answer at all.
class Problem extends Error {
  constructor({ status = 0, title = "", detail = "", field = "", request_id = "" }) {
    super(detail || title || "the server does not answer");
    this.name = "Problem";
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.field = field;
    this.requestId = request_id;
  }

  //: Nothing is there, or nothing yet: routes and things of newer servers.
  get isMissing() {
    return this.status === 404 || this.status === 405;
  }
}

//: Requests on their way.
const asked = new Set();

export const api = {
  url,
  get: (path, params, { signal } = {}) =>
    ask("GET", url(path, params), undefined, signal),
  post: (path, body, { signal } = {}) => ask("POST", url(path), body, signal),
  put: (path, body) => ask("PUT", url(path), body),
  patch: (path, body) => ask("PATCH", url(path), body),
  delete: (path, body) => ask("DELETE", url(path), body),
};

//: One part of a path: names may contain anything.  Browsers take "." and ".." for
//: steps in the path, even encoded; encoded twice they name nothing that exists.
export function pathSegment(name) {
  if (name === "." || name === "..") return "%252E".repeat(name.length);
  return encodeURIComponent(name);
}

//: Whether *error* only says that nobody waits for the answer any more.
export function isAbort(error) {
  return error?.name === "AbortError";
}

//: Arrays are repeated, what is empty is left out.
function url(path, params = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "") search.append(name, one);
    }
  }
  const query = search.toString();
  return `${BASE}${path}${query ? `?${query}` : ""}`;
}

//: Wait until all that was asked is answered, and what the answers led to ask.
export async function requestsSettled() {
  while (asked.size) {
    await Promise.allSettled(asked);
    // Whoever waits for an answer has it by then.
    await new Promise((resolve) => window.setTimeout(resolve));
  }
}

function ask(...request) {
  const answer = send(...request);
  asked.add(answer);
  const done = () => asked.delete(answer);
  answer.then(done, done);
  return answer;
}

async function send(method, address, body, signal) {
  const options = { method, signal, headers: { Accept: "application/json" } };
  if (body !== undefined && body !== null) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Problem({ title: "No answer", detail: "the server does not answer" });
  }
  if (!response.ok) throw await problem(response);
  if (response.status === 204) return null;
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  return isJson ? response.json() : response.text();
}

async function problem(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    // Not from us: a proxy, perhaps.
  }
  const found = new Problem({
    title: response.statusText,
    ...told,
    status: response.status,
  });
  const isLogin = response.url.endsWith("/login") || response.url.endsWith("/me");
  if (response.status === 401 && !isLogin) {
    window.dispatchEvent(new CustomEvent("kue:stranger"));
  }
  return found;
}

//: Tell whoever looks at the page of an error that nothing else takes care of.
export function report(error) {
  if (isAbort(error) || error?.status === 401) return;
  window.dispatchEvent(new CustomEvent("kue:problem", { detail: error }));
}
