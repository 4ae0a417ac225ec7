"""
Convert videos, three at a time, and report their progress.

    python examples/video.py [redis://localhost]

Progress is published on the event bus, to subscribers in any process of the cluster.
Without an address the queue is a file, ``kue.db``, and the bus is in this process.
"""

import asyncio
import sys
from typing import Any

from kue import ActiveJob, Kue
from kue.bus import EventBus
from kue.bus.redis import RedisCluster
from kue.runtime import Runtime
from kue.vertx import KueVerticle, KueWorker, on

FRAMES = 200


class Converter(KueWorker):
    def register(self, q: Kue) -> None:
        q.process("video conversion", 3, self.convert)

    async def convert(self, job: ActiveJob) -> None:
        for frame in range(1, FRAMES + 1):
            await asyncio.sleep(0.002)  # convert it
            if frame % 50 == 0:
                await job.progress(frame, FRAMES)


def show(event: dict[str, Any]) -> None:
    print(f"{event['job']['data']['title']}: {event['extra']['progress']} %")


async def main(url: str = "sqlite:///kue.db") -> None:
    bus = EventBus(RedisCluster(url) if url.startswith("redis") else None)
    async with Runtime(bus=bus) as runtime, Kue(url) as q:
        await runtime.deploy(KueVerticle, config={"url": url})
        await runtime.deploy(Converter, config={"url": url})
        on(bus, "job_progress", show)
        ready: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        on(bus, "job_complete", ready.put_nowait)

        videos = [{"title": title} for title in ("Alps", "Birds", "Cities", "Dunes")]
        await q.enqueue_many("video conversion", videos)
        for _ in videos:
            await ready.get()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
