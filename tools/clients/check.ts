// A client made by openapi-typescript and openapi-fetch adds, reads and cancels a job.

import createClient from "openapi-fetch";
import type { paths } from "./api.js";

declare const process: { argv: string[]; exit(code: number): never };

const [, , baseUrl, token] = process.argv;
const headers = { Authorization: `Bearer ${token}` };
const client = createClient<paths>({ baseUrl, headers });

const added = await client.POST("/jobs", {
  body: { type: "email", data: { to: "ann" }, priority: "high" },
});
if (!added.data) throw new Error(JSON.stringify(added.error));
const path = { job_id: added.data.id };
const shown = await client.GET("/jobs/{job_id}", { params: { path } });
// The body of a cancellation is optional: it is left out.
const ended = await client.POST("/jobs/{job_id}/cancel", { params: { path } });
const bare = await createClient<paths>({ baseUrl }).GET("/jobs/{job_id}", {
  params: { path },
});

const right = [
  shown.data?.type === "email",
  shown.data?.state === "waiting",
  ended.response.status === 200,
  bare.error?.status === 401,
];
console.log(`typescript: ${right.join(" ")}`);
process.exit(right.every(Boolean) ? 0 : 1);
