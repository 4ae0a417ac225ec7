// REST API client, relative to where the dashboard is mounted.

import { prefix } from "./config.js";

const BASE = `${prefix}/api/v1`;

//: Error of a request (problem details, RFC 9457); status 0 when there was no response.
class Problem extends Error {
  constructor({ status = 0, title = "", detail = "", field = "", request_id = "" }) {
    super(detail || title || "the server does not respond");
    this.name = "Problem";
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.field = field;
    this.requestId = request_id;
  }

  //: Not found, or a route that only newer servers have.
  get isMissing() {
    return this.status === 404 || this.status === 405;
  }
}

//: Requests in flight.
const pending = new Set();

export const api = {
  url,
  get: (path, params, { signal } = {}) =>
    request("GET", url(path, params), undefined, signal),
  post: (path, body, { signal } = {}) => request("POST", url(path), body, signal),
  put: (path, body) => request("PUT", url(path), body),
  patch: (path, body) => request("PATCH", url(path), body),
  delete: (path, body) => request("DELETE", url(path), body),
};

//: Encode a name as one segment of a path; names may contain any character.  Browsers
//: resolve "." and "..", even encoded; encoded twice they match nothing that exists.
export function pathSegment(name) {
  if (name === "." || name === "..") return "%252E".repeat(name.length);
  return encodeURIComponent(name);
}

//: Whether *error* only means that the request was cancelled.
export function isAbort(error) {
  return error?.name === "AbortError";
}

//: Arrays become repeated parameters; empty values are left out.
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

//: Wait for all requests, including those that the responses trigger.
export async function requestsSettled() {
  while (pending.size) {
    await Promise.allSettled(pending);
    // Let the callers handle their responses first.
    await new Promise((resolve) => window.setTimeout(resolve));
  }
}

function request(...args) {
  const response = send(...args);
  pending.add(response);
  const done = () => pending.delete(response);
  response.then(done, done);
  return response;
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
    throw new Problem({ title: "No response", detail: "the server does not respond" });
  }
  if (!response.ok) throw await problem(response);
  if (response.status === 204) return null;
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  return isJson ? response.json() : response.text();
}

async function problem(response) {
  let details = {};
  try {
    details = await response.json();
  } catch {
    // Not JSON: from a proxy, perhaps.
  }
  const error = new Problem({
    title: response.statusText,
    ...details,
    status: response.status,
  });
  const isLoginRequest = response.url.endsWith("/login") || response.url.endsWith("/me");
  if (response.status === 401 && !isLoginRequest) {
    window.dispatchEvent(new CustomEvent("kue:unauthorized"));
  }
  return error;
}

//: Show the user an error that nothing else handles.
export function report(error) {
  if (isAbort(error) || error?.status === 401) return;
  window.dispatchEvent(new CustomEvent("kue:problem", { detail: error }));
}
