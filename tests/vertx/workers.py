"""A worker that tests deploy by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.vertx import KueWorker

if TYPE_CHECKING:
    from kue import ActiveJob, Kue


class Doubler(KueWorker):
    """Returns twice what it is given."""

    def register(self, q: Kue) -> None:
        q.process("double", 5, self.double)

    async def double(self, job: ActiveJob) -> int:
        return 2 * int(job.data)
