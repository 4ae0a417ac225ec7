"""
A process that serves the queue at a URL on a free port, and prints the port.

Clients are given so many seconds to read an answer.
"""

from __future__ import annotations

import asyncio
import sys

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.framework import concurrent_reads
from kue.http.server.address import ListenAddress
from kue.http.server.serve import ServeOptions, listen, serving
from kue.http.server.slow_clients import SlowClientProtocol


async def main(url: str) -> None:
    listener = listen(ListenAddress.of("127.0.0.1", 0))
    async with (
        Kue(url) as q,
        serving(create_app(q, guard=Anyone()), listener, ServeOptions()),
    ):
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        # Until the test closes the pipe.
        await asyncio.to_thread(sys.stdin.read)


concurrent_reads.SEND_SECONDS = SlowClientProtocol.read_seconds = float(sys.argv[2])
asyncio.run(main(sys.argv[1]))
