"""
Follow a job's progress on the event bus, as in Vert.x Kue's example.

    python examples/learning.py [redis://localhost]

A verticle publishes the queue's events on the bus, and another runs its jobs.
Without an address the queue is a file, ``kue.db``, and the bus is in this process.
"""

import asyncio
import logging
import sys
import time
from typing import Any

from kue import ActiveJob, Kue
from kue.bus import EventBus
from kue.bus.redis import RedisCluster
from kue.runtime import Runtime
from kue.vertx import KueVerticle, KueWorker, on, on_job


class Learner(KueWorker):
    def register(self, q: Kue) -> None:
        q.process_blocking("learn vertx", 1, self.learn)

    def learn(self, job: ActiveJob) -> dict[str, str]:
        job.progress(10, 100)
        time.sleep(0.3)  # blocks a thread of the worker, not the event loop
        return {"feeling": "amazing and wonderful!"}


async def main(url: str = "sqlite:///kue.db") -> None:
    bus = EventBus(RedisCluster(url) if url.startswith("redis") else None)
    async with Runtime(bus=bus) as runtime, Kue(url) as q:
        await runtime.deploy(KueVerticle, config={"url": url})
        learnt = asyncio.Event()

        def love(progress: int) -> None:
            print(f"I love this! My progress => {progress}")

        def feel(job: dict[str, Any]) -> None:
            print(f"Feeling: {job['result']['feeling']}")
            learnt.set()

        def sigh(event: dict[str, Any]) -> None:
            print("eee...so difficult...")
            learnt.set()

        data = {"title": "Learning Vert.x", "content": "core"}
        saved = await q.create_job("learn vertx", data).priority("high").save()
        job = await saved.refresh()
        on_job(bus, "progress", job, love)
        on_job(bus, "complete", job, feel)
        on_job(bus, "failed", job, sigh)
        on(bus, "error", lambda error: print("[Global Error]", error))

        await runtime.deploy(Learner, config={"url": url})
        await learnt.wait()


if __name__ == "__main__":
    # KueVerticle logs that it is running.
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("kue.vertx").setLevel(logging.INFO)
    asyncio.run(main(*sys.argv[1:]))
