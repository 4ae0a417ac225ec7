"""
Make jobs on a timer while six at a time are processed.

    python examples/many_jobs.py [redis://localhost]

Without an address the queue is a file, ``kue.db``, and the bus is in this process.
"""

import asyncio
import sys
from typing import Any

from kue import ActiveJob, Kue
from kue.bus import EventBus
from kue.bus.redis import RedisCluster
from kue.runtime import Runtime, Verticle
from kue.vertx import KueVerticle, KueWorker, on

JOBS = 50


class Maker(Verticle):
    """Makes a job every 20 ms."""

    async def start(self) -> None:
        self.q = Kue(self.config["url"])
        self.made = 0
        self.timer = self.runtime.set_periodic("20ms", self.make)

    async def make(self, timer: int) -> None:
        self.made += 1
        await self.q.create_job("frame", {"number": self.made}).save()
        if self.made == JOBS:
            self.runtime.cancel_timer(timer)

    async def stop(self) -> None:
        await self.q.close()


class Processor(KueWorker):
    def register(self, q: Kue) -> None:
        q.process("frame", 6, self.process)

    async def process(self, job: ActiveJob) -> None:
        await asyncio.sleep(0.026)


async def main(url: str = "sqlite:///kue.db") -> None:
    bus = EventBus(RedisCluster(url) if url.startswith("redis") else None)
    async with Runtime(bus=bus) as runtime:
        processed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        on(bus, "job_complete", processed.put_nowait)
        for verticle in (KueVerticle, Processor, Maker):
            await runtime.deploy(verticle, config={"url": url})

        for count in range(1, JOBS + 1):
            await processed.get()
            if count % 10 == 0:
                print(f"processed {count} frames")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
