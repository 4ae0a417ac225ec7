// BullMQ; completed jobs are kept, which is its default and Kue's.
'use strict';

const { Queue, Worker } = require('bullmq');
const { connection, drive, tasks } = require('./driver.js');

const QUEUE = 'bench';

drive({
  work(task, concurrency) {
    const process = (job) => tasks[job.name](job.data.i);
    new Worker(QUEUE, process, {
      connection: { ...connection, maxRetriesPerRequest: null },
      concurrency,
    });
  },
  async open() {
    const queue = new Queue(QUEUE, { connection });
    await queue.waitUntilReady();
    return {
      add: (task, i) => queue.add(task, { i }),
      addMany: (task, numbers) =>
        queue.addBulk(numbers.map((i) => ({ name: task, data: { i } }))),
    };
  },
});
