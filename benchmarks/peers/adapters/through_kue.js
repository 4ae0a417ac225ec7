// Kue for Node with default settings.
'use strict';

const kue = require('kue');
const { connection, drive, tasks } = require('./driver.js');

const queue = kue.createQueue({ redis: connection });

drive({
  work(task, slots) {
    queue.process(task, slots, (job, done) => {
      tasks[task](job.data.i).then(() => done(), done);
    });
  },
  async open() {
    const save = (task, i) =>
      new Promise((resolve, reject) => {
        queue.create(task, { i }).save((error) => (error ? reject(error) : resolve()));
      });
    return { add: save };
  },
});
