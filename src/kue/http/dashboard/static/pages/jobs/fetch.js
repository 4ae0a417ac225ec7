// Read pages and counts of jobs; with rare matches one page may take several requests.

import { api, pathSegment } from "../../lib/api.js";

const PAGE = 50;
//: Milliseconds after which the results of a running search are shown.
const PARTIAL_MS = 300;

//: Read one page: {jobs, cursor, isPart, lookedAt, total}; *isPart* when it is short and
//: there is more.  A search has looked at so many of all jobs; a plain list has neither.
//:
//: onPart(page) is called during the search with the jobs found so far; it returns
//: whether to continue.
export async function readPage(params, signal, onPart) {
  const began = Date.now();
  const jobs = [];
  let cursor = params.cursor;
  let lookedAt = 0;
  for (;;) {
    const limit = PAGE - jobs.length;
    const found = await api.get("/jobs", { ...params, cursor, limit }, { signal });
    jobs.push(...found.jobs);
    cursor = found.cursor;
    lookedAt += found.looked_at ?? 0;
    const isPart = cursor !== null && jobs.length < PAGE;
    const page = { jobs: [...jobs], cursor, isPart, lookedAt, total: found.total };
    const isLong = Date.now() - began > PARTIAL_MS;
    if (!isPart || (isLong && !onPart(page))) return page;
  }
}

//: How many jobs are in each state: of one type, or of all.
export async function readCounts(type, signal) {
  if (!type) return (await api.get("/stats", null, { signal })).counts;
  try {
    const path = `/queues/${pathSegment(type)}`;
    return (await api.get(path, null, { signal })).counts;
  } catch (problem) {
    // An unknown type has no jobs.
    if (problem.status === 404) return {};
    throw problem;
  }
}
