"""A worker that tests deploy by its name."""

from __future__ import annotations

from kue import ActiveJob, Kue
from kue.vertx import KueWorker


class Doubler(KueWorker):
    """Returns twice what it is given."""

    def register(self, q: Kue) -> None:
        q.process("double", 5, self.double)

    async def double(self, job: ActiveJob) -> int:
        return 2 * int(job.data)
