"""
``python -m tests.faults.program_flows URL PREFIX SCENE WRITES``: a flow, until killed.

It kills itself after so many writes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from kue.model import settings
from kue.store import store_for
from tests.faults.flow_scenes import SCENES, Scene, live
from tests.faults.mortal import Life


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, prefix: str, name: str, writes: str) -> None:
    loaded = settings.load(environ={}, url=url, prefix=prefix)
    act, _ = SCENES[name]
    scene = Scene(lambda: store_for(loaded))
    await live(scene, act, Life(int(writes), end=die))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
