"""A process that serves the queue at a URL on a free port, and prints the port."""

from __future__ import annotations

import asyncio
import sys

from kue import Kue
from kue.http import create_app
from kue.http.access import Anyone
from kue.http.exposure import Address
from kue.http.serve import Serving, listen, serving


async def main(url: str) -> None:
    listener = listen(Address.of("127.0.0.1", 0))
    async with (
        Kue(url) as q,
        serving(create_app(q, guard=Anyone()), listener, Serving()),
    ):
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        # Until the test closes the pipe.
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main(sys.argv[1]))
