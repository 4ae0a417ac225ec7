"""
Send two delayed emails.

    python examples/delayed_email.py [redis://localhost]

Without an address the queue is a file, ``kue.db``.
"""

import asyncio
import sys
import time

from kue import ActiveJob, Kue
from kue.runtime import Runtime
from kue.vertx import KueWorker


class Mailer(KueWorker):
    def register(self, q: Kue) -> None:
        q.process_blocking("email", 10, self.send)

    def send(self, job: ActiveJob) -> None:
        time.sleep(0.1)
        print(f"sent {job.data['title']!r} to {job.data['to']}")


async def main(url: str = "sqlite:///kue.db") -> None:
    async with Runtime() as runtime, Kue(url) as q:
        await runtime.deploy(Mailer, config={"url": url})

        welcome = {"title": "Welcome", "to": "ann@example.com"}
        reminder = {"title": "Your trial ends", "to": "ann@example.com"}
        jobs = [
            await q.create_job("email", reminder).delay("1s").priority("high").save(),
            await q.create_job("email", welcome).delay("0.4s").priority("high").save(),
        ]
        print(f"{len(jobs)} emails are delayed")
        for job in jobs:
            await job.result()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
