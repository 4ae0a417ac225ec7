// All pages.  To add one, write a module in this folder and list it here.

import { page as api } from "./api.js";
import { page as audit } from "./audit.js";
import { page as batches } from "./batches.js";
import { page as bus } from "./bus.js";
import { page as errors } from "./errors.js";
import { page as flow } from "./flow.js";
import { page as job } from "./job.js";
import { page as jobs } from "./jobs.js";
import { page as limit } from "./limit.js";
import { page as limits } from "./limits.js";
import { page as login } from "./login.js";
import { page as metrics } from "./metrics.js";
import { page as overview } from "./overview.js";
import { page as queue } from "./queue.js";
import { page as queues } from "./queues.js";
import { page as schedule } from "./schedule.js";
import { page as schedules } from "./schedules.js";
import { page as settings } from "./settings.js";
import { page as workers } from "./workers.js";

export const pages = [
  overview,
  queues,
  queue,
  jobs,
  job,
  errors,
  batches,
  flow,
  schedules,
  schedule,
  limits,
  limit,
  workers,
  bus,
  metrics,
  audit,
  settings,
  api,
  login,
];
