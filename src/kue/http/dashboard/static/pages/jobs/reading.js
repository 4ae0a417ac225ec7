// Pages of jobs: those that match may lie far apart, so one page may take several looks.

import { api } from "../../lib/api.js";

export const PAGE = 50;
//: Looks for one page, after which whoever waits is told how far it is.
const LOOKS = 5;
const PATIENCE_MS = 200;

//: Read one page: {jobs, cursor, isPart}; *isPart* when it is short and there is more.
export async function readPage(params, signal) {
  const began = Date.now();
  const jobs = [];
  let cursor = params.cursor;
  for (let look = 0; look < LOOKS; look += 1) {
    const limit = PAGE - jobs.length;
    const found = await api.get("/jobs", { ...params, cursor, limit }, { signal });
    jobs.push(...found.jobs);
    cursor = found.cursor;
    const isOver = cursor === null || jobs.length >= PAGE;
    if (isOver || Date.now() - began > PATIENCE_MS) break;
  }
  return { jobs, cursor, isPart: cursor !== null && jobs.length < PAGE };
}

//: How many jobs are in each state: of one type, or of all.
export async function readCounts(type, signal) {
  if (!type) return (await api.get("/stats", null, { signal })).counts;
  try {
    const path = `/queues/${encodeURIComponent(type)}`;
    return (await api.get(path, null, { signal })).counts;
  } catch (problem) {
    // A type that nobody has heard of has no jobs.
    if (problem.status === 404) return {};
    throw problem;
  }
}
