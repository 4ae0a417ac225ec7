"""The jobs of ``kue demo``: a film service on a busy day."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from itertools import count, islice
from typing import TYPE_CHECKING

from kue.model.backoff import exponential
from kue.model.errors import Fail

# Annotations of tasks are read while the program runs.
from kue.worker import ActiveJob, current_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kue.client.queue import Kue
    from kue.model.job import Draft

#: Log records of a task are kept with its job.
logger = logging.getLogger("studio")

#: The type that is paused, by whom and why.
PAUSED = "newsletter"
PAUSE = {"by": "mara", "reason": "the subject line is being checked"}

NAMES = ("ann", "bob", "cleo", "dora", "emil", "finn", "greta", "hugo")
TITLES = ("Harbour at Dawn", "The Long Walk", "Paper Boats", "Nine Lives", "Salt")
SHOPS = ("north", "south", "east", "west")
#: The last of them no longer answers.
HOOKS = (
    "https://hooks.example.com/orders",
    "https://shop.example.org/kue",
    "https://old.example.net/notify",
)


class DemoJobs:
    """Makes the jobs of the demo and handles them; *pace* scales all durations."""

    def __init__(self, q: Kue, *, pace: float) -> None:
        self._q = q
        self._pace = pace
        # A fixed seed, so that every run shows the same demo.
        self._random = random.Random(7)
        self._orders = self._make_orders()
        patient = exponential(4 * pace, jitter=0.2)
        # Low concurrency, so that jobs wait and priorities matter.
        self._email = q.task(name="email", concurrency=3)(self.email)
        self._payment = q.task(
            name="payment", concurrency=2, attempts=4, backoff=patient, unique=True
        )(self.payment)
        self._webhook = q.task(
            name="webhook", concurrency=3, attempts=3, backoff=patient
        )(self.webhook)
        self._report = q.task(name="report", concurrency=3, timeout=120)(self.report)
        self._video = q.task(name="video", concurrency=3, ttl=60)(self.video)
        self._thumbnail = q.task(
            name="thumbnail", concurrency=1, attempts=2, backoff=5 * pace
        )(self.thumbnail)
        self._newsletter = q.task(name=PAUSED, concurrency=1)(self.newsletter)

    def orders(self, number: int) -> list[Draft]:
        """Return *number* jobs in random order."""
        return list(islice(self._orders, number))

    def _make_orders(self) -> Iterator[Draft]:
        for first in count(1001, len(HOUR)):
            hour = self._random.sample(HOUR, len(HOUR))
            for order, make in enumerate(hour, first):
                yield make(self, order)

    async def film(self) -> None:
        """Add the jobs of a film, each of which waits for the one before it."""
        title, who = self._pick(TITLES), self._pick(NAMES)
        tags = ["film", title.split()[-1].lower()]
        seconds = self._random.randint(10, 60)
        video = await self._video.options(tags=tags).enqueue(title, seconds)
        pictures = self._thumbnail.options(after=[video.id], tags=tags)
        thumbnail = await pictures.enqueue(f"{title}.mp4")
        ready = self._email.options(after=[thumbnail.id], tags=tags, priority="high")
        await ready.enqueue(f"{who}@example.com", f"{title} is ready")

    async def schedule(self) -> None:
        """Add schedules: one that is due soon, one by night, one that is paused."""
        digest = self._email.draft("ann@example.com", "What is new")
        await self._q.schedule("digest", digest, every="20s", overlap="skip")
        accounts = self._report.draft(SHOPS[0], 12)
        await self._q.schedule("accounts", accounts, cron="0 3 * * *", tz="Europe/Rome")
        letter = self._newsletter.draft(SHOPS[1], "Weekly")
        await self._q.schedule("weekly letter", letter, cron="0 9 * * mon")
        await self._q.pause_schedule("weekly letter")

    async def begin(self) -> None:
        """Add some jobs of every type, including paused newsletters."""
        await self._q.pause(PAUSED, **PAUSE)
        letters = [self._newsletter.draft(shop, "Spring") for shop in SHOPS * 3]
        await self._q.enqueue_many([*letters, *self.orders(20)])
        for _ in range(3):
            await self.film()

    # -- jobs ------------------------------------------------------------------

    def receipt(self, order: int) -> Draft:
        return self._email.draft(self._address(), f"Your order {order}")

    def reminder(self, order: int) -> Draft:
        delay = self._random.uniform(15, 60) * self._pace
        later = self._email.options(delay=delay, priority="low")
        return later.draft(self._address(), "You left something")

    def charge(self, order: int) -> Draft:
        urgent = self._payment.options(priority="critical")
        return urgent.draft(order, self._random.randint(5, 500))

    def stolen_card(self, order: int) -> Draft:
        high = self._payment.options(priority="high")
        return high.draft(order, 999, card="stolen")

    def notice(self, order: int) -> Draft:
        shop = self._pick(SHOPS)
        hook = self._random.choices(HOOKS, weights=(12, 12, 1))[0]
        return self._webhook.options(group=shop, tags=[shop]).draft(hook, order)

    def accounts(self, order: int) -> Draft:
        shop = self._pick(SHOPS)
        report = self._report.options(tags=[shop], priority="low")
        return report.draft(shop, self._random.randint(8, 20))

    def picture(self, order: int) -> Draft:
        is_broken = self._random.random() < 0.15
        return self._thumbnail.draft(f"photo{order}.jpg", broken=is_broken)

    # -- handlers --------------------------------------------------------------

    async def email(self, to: str, title: str) -> None:
        await self._take(0.1, 0.6)
        logger.info("sent %r to %s", title, to)

    async def payment(
        self, job: ActiveJob, order: int, amount: int, card: str = "good"
    ) -> str:
        await self._take(0.3, 0.9)
        if card == "stolen":
            raise Fail("the bank declined the card")
        # Most orders go through at once; the rest need another try or two.
        if order % 6 == 0 and job.attempt < 3:
            raise ConnectionError("the bank did not answer")
        logger.info("charged %d €", amount)
        return f"R-{job.fence}"

    async def webhook(self, url: str, order: int) -> dict[str, int]:
        await self._take(0.1, 0.4)
        if "old." in url:
            raise TimeoutError(f"{url} did not answer within 5 s")
        if order % 40 == 0:
            raise ValueError(f"422: there is no field 'total' in order {order}")
        return {"status": 204}

    async def report(self, shop: str, pages: int) -> dict[str, int | str]:
        for page in range(1, pages + 1):
            await self._take(0.3, 0.7)
            await current_job().progress(page, pages, {"page": page})
        logger.info("%d pages for the shop in the %s", pages, shop)
        return {"shop": shop, "pages": pages}

    async def video(self, title: str, seconds: int) -> dict[str, str]:
        for step in range(1, seconds + 1):
            await self._take(0.9, 1.1)
            await current_job().progress(step, seconds, {"frame": step * 24})
            if step % 5 == 0:
                logger.info("%s: %d frames written", title, step * 24)
        return {"file": f"{title}.mp4"}

    def thumbnail(self, file: str, *, broken: bool = False) -> dict[str, int]:
        """Make a small picture; a plain function, so it runs in a thread."""
        for step in range(1, 4):
            time.sleep(self._while(0.1, 0.3))
            current_job().progress(step, 3)
        if broken:
            raise ValueError(f"{file} is not a picture")
        return {"width": 200}

    async def newsletter(self, shop: str, issue: str) -> None:
        await self._take(0.2, 0.5)

    async def _take(self, least: float, most: float) -> None:
        await asyncio.sleep(self._while(least, most))

    def _while(self, least: float, most: float) -> float:
        return self._random.uniform(least, most) * self._pace

    def _address(self) -> str:
        return f"{self._pick(NAMES)}@example.com"

    def _pick(self, from_: tuple[str, ...]) -> str:
        return self._random.choice(from_)


#: The jobs of an hour, in any order.
HOUR: tuple[Callable[[DemoJobs, int], Draft], ...] = (
    *[DemoJobs.receipt] * 8,
    *[DemoJobs.reminder] * 3,
    *[DemoJobs.charge] * 4,
    DemoJobs.stolen_card,
    *[DemoJobs.notice] * 7,
    DemoJobs.accounts,
    *[DemoJobs.picture] * 3,
)
