"""``python -m chaos.worker``: a worker without a supervisor, which beats by itself."""

from __future__ import annotations

import asyncio
import logging
import sys

import uvloop

from chaos.app import q

#: Runs are handed back this long after a worker was asked to end.
GRACE_SECONDS = 2


async def main() -> None:
    async with q:
        await q.run(grace=GRACE_SECONDS)


if __name__ == "__main__":
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s"
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
