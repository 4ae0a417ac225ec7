// Pages of jobs: matches may lie far apart, so one page may take several requests.

import { api, pathSegment } from "../../lib/api.js";

const PAGE = 50;
//: Milliseconds after which a search that goes on is shown.
const PATIENCE_MS = 300;

//: Read one page: {jobs, cursor, isPart}; *isPart* when it is short and there is more.
//:
//: onPart(page) is called while the search goes on with what it found so far; it returns
//: whether to go on.
export async function readPage(params, signal, onPart) {
  const began = Date.now();
  const jobs = [];
  let cursor = params.cursor;
  for (;;) {
    const limit = PAGE - jobs.length;
    const found = await api.get("/jobs", { ...params, cursor, limit }, { signal });
    jobs.push(...found.jobs);
    cursor = found.cursor;
    const isPart = cursor !== null && jobs.length < PAGE;
    const page = { jobs: [...jobs], cursor, isPart };
    const isLong = Date.now() - began > PATIENCE_MS;
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
    // A type that nobody has heard of has no jobs.
    if (problem.status === 404) return {};
    throw problem;
  }
}
