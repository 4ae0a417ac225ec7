"""The jobs of ``kue demo``: a small shop on a busy day."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from kue.backoff import exponential
from kue.errors import Fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.job import Draft
    from kue.payload import JSON
    from kue.queue import Kue
    from kue.worker import ActiveJob

#: How many seconds the demo was written for; everything scales with the time it has.
SCRIPT_SECONDS = 15.0


class Shop:
    """Makes jobs and handles them, in its own time."""

    def __init__(self, q: Kue, *, seconds: float) -> None:
        self._q = q
        self._pace = seconds / SCRIPT_SECONDS
        # Always the same day, so that two people see the same demo.
        self._random = random.Random(7)
        # Few hands, so that jobs wait and priorities matter.
        q.process("email", 2, self._email)
        q.process("payment", 2, self._payment)
        q.process("report", 2, self._report)
        q.process("thumbnail", 1, self._thumbnail)

    def orders(self, number: int) -> list[Draft]:
        """Return *number* jobs, as they come in."""
        made: list[Draft] = []
        while len(made) < number:
            for make in self._random.sample(HOUR, len(HOUR)):
                made.append(make(self, len(made) + 1))
        return made[:number]

    # -- what comes in ---------------------------------------------------------

    def confirmation(self, order: int) -> Draft:
        to = f"customer{order}@example.com"
        return self._q.draft("email", {"to": to, "title": f"Order {order}"})

    def reminder(self, order: int) -> Draft:
        return self._q.draft(
            "email",
            {"to": f"customer{order}@example.com", "title": "You left something"},
            delay=self._random.uniform(2, 6) * self._pace,
            priority="low",
        )

    def charge(self, order: int) -> Draft:
        return self._q.draft(
            "payment",
            {"order": order, "amount": self._random.randint(5, 500)},
            priority="critical",
            attempts=4,
            backoff=exponential(0.8 * self._pace, jitter=0.2),
            unique=f"order-{order}",
        )

    def stolen_card(self, order: int) -> Draft:
        data = {"order": order, "amount": 9_999, "card": "stolen"}
        return self._q.draft("payment", data, priority="high", attempts=4)

    def summary(self, order: int) -> Draft:
        pages = self._random.randint(6, 12)
        return self._q.draft("report", {"pages": pages}, timeout=60)

    def picture(self, order: int) -> Draft:
        return self._q.draft(
            "thumbnail",
            {"file": f"photo{order}.jpg", "broken": self._random.random() < 0.15},
            attempts=2,
            backoff=0.5 * self._pace,
        )

    # -- what is done about it -------------------------------------------------

    async def _email(self, job: ActiveJob) -> JSON:
        await self._rest(0.2, 0.7)
        await job.log(f"sent to {job.data['to']}")
        return {"sent": True}

    async def _payment(self, job: ActiveJob) -> JSON:
        await self._rest(0.3, 0.8)
        if job.data.get("card") == "stolen":
            raise Fail("the bank says no, and will keep saying so")
        # Three in four orders go through at once; the rest need another try or two.
        if job.data["order"] % 4 == 0 and job.attempt < 3:
            raise ConnectionError("the bank did not answer")
        await job.log(f"charged {job.data['amount']} €")
        return {"receipt": f"R-{job.fence}"}

    async def _report(self, job: ActiveJob) -> JSON:
        pages = job.data["pages"]
        for page in range(1, pages + 1):
            await self._rest(0.2, 0.4)
            await job.progress(page, pages, {"page": page})
        return {"pages": pages}

    async def _thumbnail(self, job: ActiveJob) -> JSON:
        for step in range(1, 4):
            await self._rest(0.1, 0.3)
            await job.progress(step, 3)
        if job.data["broken"]:
            raise ValueError(f"{job.data['file']} is not a picture")
        return {"width": 200}

    async def _rest(self, least: float, most: float) -> None:
        await asyncio.sleep(self._random.uniform(least, most) * self._pace)


#: What comes in during an hour, in any order.
HOUR: tuple[Callable[[Shop, int], Draft], ...] = (
    *[Shop.confirmation] * 6,
    *[Shop.reminder] * 3,
    *[Shop.charge] * 5,
    Shop.stolen_card,
    *[Shop.summary] * 3,
    *[Shop.picture] * 5,
)
