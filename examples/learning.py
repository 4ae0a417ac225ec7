"""
Learn something, and say how it went.

    python examples/learning.py [redis://localhost]

Without a server the queue is a file, ``kue.db``, and the bus is this process.
"""

import asyncio
import sys
import time

from kue import ActiveJob, Kue
from kue.bus import EventBus
from kue.cluster.redis import RedisCluster
from kue.runtime import Runtime
from kue.service import KueVerticle, KueWorker, on, on_job


class Learner(KueWorker):
    def register(self, q: Kue) -> None:
        q.process_blocking("learn vertx", 1, self.learn)

    def learn(self, job: ActiveJob) -> dict[str, str]:
        job.progress(10, 100)
        time.sleep(0.3)
        return {"feeling": "amazing and wonderful!"}


async def main(url: str) -> None:
    bus = EventBus(RedisCluster(url) if url.startswith("redis") else None)
    async with Kue(url) as q, Runtime(bus=bus) as runtime:
        await runtime.deploy(KueVerticle, config={"url": url})
        print("Kue Verticle is running...")
        on(bus, "error", lambda error: print("[Global Error]", error))

        data = {"title": "Learning Vert.x", "content": "core"}
        job = await q.create_job("learn vertx", data).priority("high").save()
        await job.refresh()
        on_job(
            bus, "progress", job, lambda n: print(f"I love this! My progress => {n}")
        )
        on_job(bus, "failed", job, lambda told: print("eee...so difficult..."))
        done = on_job(
            bus,
            "complete",
            job,
            lambda job: print(f"Feeling: {job['result']['feeling']}"),
        )
        await done.ready()

        await runtime.deploy(Learner, config={"url": url})
        await job.result()


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["sqlite:///kue.db"])))
