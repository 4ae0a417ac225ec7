"""The jobs of ``kue demo``: a small shop on a busy day."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from kue.backoff import exponential
from kue.errors import Fail

# Annotations of tasks are read while the program runs.
from kue.worker import ActiveJob, current_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.job import Draft
    from kue.queue import Kue

#: What a task logs is kept with its job.
logger = logging.getLogger("shop")

#: How many seconds the demo was written for; everything scales with the time it has.
SCRIPT_SECONDS = 15.0


class Shop:
    """Makes jobs and handles them, in its own time."""

    def __init__(self, q: Kue, *, seconds: float) -> None:
        self._pace = seconds / SCRIPT_SECONDS
        # Always the same day, so that two people see the same demo.
        self._random = random.Random(7)
        pause = exponential(0.8 * self._pace, jitter=0.2)
        # Few hands, so that jobs wait and priorities matter.
        self._email = q.task(name="email", concurrency=2)(self.email)
        self._payment = q.task(
            name="payment", concurrency=2, attempts=4, backoff=pause, unique=True
        )(self.payment)
        self._report = q.task(name="report", concurrency=2, timeout=60)(self.report)
        self._thumbnail = q.task(
            name="thumbnail", concurrency=1, attempts=2, backoff=0.5 * self._pace
        )(self.thumbnail)

    def orders(self, number: int) -> list[Draft]:
        """Return *number* jobs, as they come in."""
        made: list[Draft] = []
        while len(made) < number:
            for make in self._random.sample(HOUR, len(HOUR)):
                made.append(make(self, len(made) + 1))
        return made[:number]

    # -- what comes in ---------------------------------------------------------

    def confirmation(self, order: int) -> Draft:
        return self._email.draft(f"customer{order}@example.com", f"Order {order}")

    def reminder(self, order: int) -> Draft:
        delay = self._random.uniform(2, 6) * self._pace
        later = self._email.options(delay=delay, priority="low")
        return later.draft(f"customer{order}@example.com", "You left something")

    def charge(self, order: int) -> Draft:
        urgent = self._payment.options(priority="critical")
        return urgent.draft(order, self._random.randint(5, 500))

    def stolen_card(self, order: int) -> Draft:
        return self._payment.options(priority="high").draft(order, 9_999, "stolen")

    def summary(self, order: int) -> Draft:
        return self._report.draft(self._random.randint(6, 12))

    def picture(self, order: int) -> Draft:
        is_broken = self._random.random() < 0.15
        return self._thumbnail.draft(f"photo{order}.jpg", broken=is_broken)

    # -- what is done about it -------------------------------------------------

    async def email(self, to: str, title: str) -> None:
        await asyncio.sleep(self._while(0.2, 0.7))
        logger.info("sent %r to %s", title, to)

    async def payment(
        self, job: ActiveJob, order: int, amount: int, card: str = "good"
    ) -> str:
        await asyncio.sleep(self._while(0.3, 0.8))
        if card == "stolen":
            raise Fail("the bank says no, and will keep saying so")
        # Three in four orders go through at once; the rest need another try or two.
        if order % 4 == 0 and job.attempt < 3:
            raise ConnectionError("the bank did not answer")
        logger.info("charged %d €", amount)
        return f"R-{job.fence}"

    async def report(self, pages: int) -> int:
        for page in range(1, pages + 1):
            await asyncio.sleep(self._while(0.2, 0.4))
            await current_job().progress(page, pages, {"page": page})
        return pages

    def thumbnail(self, file: str, *, broken: bool = False) -> dict[str, int]:
        """Make a small picture; a plain function, so it runs in a thread."""
        for step in range(1, 4):
            time.sleep(self._while(0.1, 0.3))
            current_job().progress(step, 3)
        if broken:
            raise ValueError(f"{file} is not a picture")
        return {"width": 200}

    def _while(self, least: float, most: float) -> float:
        return self._random.uniform(least, most) * self._pace


#: What comes in during an hour, in any order.
HOUR: tuple[Callable[[Shop, int], Draft], ...] = (
    *[Shop.confirmation] * 6,
    *[Shop.reminder] * 3,
    *[Shop.charge] * 5,
    Shop.stolen_card,
    *[Shop.summary] * 3,
    *[Shop.picture] * 5,
)
