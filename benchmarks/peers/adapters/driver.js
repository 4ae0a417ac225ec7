// The same arguments, clock and files as the Python adapters: see tally.py and pace.py.
'use strict';

const fs = require('fs');
const path = require('path');

const FOLDER = process.env.BENCH_FOLDER;
const JOBS = Number(process.env.BENCH_JOBS);
const HEADER = 24;
const BULK = 1000;
const TOGETHER = 100;
const NAP_MS = 5;
const LOOK_MS = 0.3;
const IDLE_MS = 5;
const PATIENCE_MS = 30000;
// Writing at each job would distort the measurement.
const FLUSH_MS = 10;

const now = () => process.hrtime.bigint();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const secondsSince = (began) => Number(now() - began) / 1e9;

// -- tally of runs ----------------------------------------------------------

let tally = null;

function openTally() {
  const file = fs.openSync(path.join(FOLDER, `ran.${process.pid}`), 'w');
  const bytes = Buffer.alloc(HEADER + JOBS);
  const flush = () => {
    bytes.writeBigUInt64LE(tally.runs, 0);
    bytes.writeBigUInt64LE(tally.first, 8);
    bytes.writeBigUInt64LE(tally.last, 16);
    fs.writeSync(file, bytes, 0, bytes.length, 0);
  };
  setInterval(flush, FLUSH_MS);
  return { bytes, runs: 0n, first: 0n, last: 0n };
}

function count(number, began, ended) {
  tally = tally || openTally();
  tally.runs += 1n;
  tally.first = tally.first || began;
  tally.last = ended;
  tally.bytes[HEADER + number] = Math.min(255, tally.bytes[HEADER + number] + 1);
}

function arrived(sent) {
  const waited = Buffer.alloc(8);
  waited.writeBigUInt64LE(now() - BigInt(sent));
  fs.appendFileSync(path.join(FOLDER, 'pings'), waited);
}

function arrivals() {
  try {
    return fs.statSync(path.join(FOLDER, 'pings')).size / 8;
  } catch {
    return 0;
  }
}

const tasks = {
  async noop(number) {
    const at = now();
    count(number, at, at);
  },
  async nap(number) {
    const began = now();
    await sleep(NAP_MS);
    count(number, began, now());
  },
  async ping(sent) {
    arrived(sent);
  },
};

// -- adding -----------------------------------------------------------------

function* slices(first, count, size) {
  for (let start = first; start < first + count; start += size) {
    const length = Math.min(size, first + count - start);
    yield Array.from({ length }, (_, at) => start + at);
  }
}

async function addOne(queue, task, first, count) {
  for (let number = first; number < first + count; number++) await queue.add(task, number);
}

async function addTogether(queue, task, first, count) {
  for (const some of slices(first, count, TOGETHER)) {
    await Promise.all(some.map((number) => queue.add(task, number)));
  }
}

async function addBulk(queue, task, first, count) {
  if (!queue.addMany) return addTogether(queue, task, first, count);
  for (const some of slices(first, count, BULK)) await queue.addMany(task, some);
}

async function ping(queue, count, seconds) {
  const began = now();
  for (let sent = 0; sent < count; sent++) {
    if (sent && secondsSince(began) > seconds) break;
    // As text: a number would lose its last digits.
    await queue.add('ping', now().toString());
    await arrival(sent);
    await sleep(IDLE_MS);
  }
}

async function arrival(sent) {
  const began = Date.now();
  while (arrivals() <= sent) {
    if (Date.now() - began > PATIENCE_MS) throw new Error('a ping did not arrive');
    await sleep(LOOK_MS);
  }
}

const verbs = { one: addOne, together: addTogether, bulk: addBulk };

async function measure(queue, verb, args) {
  const began = now();
  if (verb === 'ping') await ping(queue, Number(args[0]), Number(args[1]));
  else await verbs[verb](queue, args[0], Number(args[1]), Number(args[2]));
  return secondsSince(began);
}

// adapter: { work(task, slots), open() → { add(task, number), addMany?(task, numbers) } }
exports.drive = async (adapter) => {
  const [verb, ...args] = process.argv.slice(2);
  if (verb === 'work') return adapter.work(args[0], Number(args[1]));
  const seconds = await measure(await adapter.open(), verb, args);
  console.log(JSON.stringify({ seconds }));
  process.exit(0);
};
exports.tasks = tasks;
exports.connection = { host: '127.0.0.1', port: Number(process.env.BENCH_PORT) };
