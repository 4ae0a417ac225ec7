"""``python -m chaos.worker GRACE``: a worker without a supervisor."""

from __future__ import annotations

import asyncio
import logging
import sys

import uvloop

from chaos.app import q


async def main(grace: str) -> None:
    async with q:
        await q.run(grace=grace)


if __name__ == "__main__":
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s"
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1]))
