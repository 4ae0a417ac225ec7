"""
``python -m benchmarks.peers.bare PORT JOBS``: the bare scripts on the same server.

Prints jobs per second as a line of JSON: the baseline for Kue.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import uvloop

from benchmarks.bare_redis import BareRedis, bodies
from benchmarks.peers.cores import pin
from benchmarks.peers.environments import ROOT
from benchmarks.peers.processes import Failed

if TYPE_CHECKING:
    from benchmarks.peers.cores import Cores

#: Adds in flight.
FLIGHTS = 2
PATIENCE_SECONDS = 60.0


def measure(port: int, jobs: int, cores: Cores) -> dict[str, float]:
    """Measure the bare scripts in a separate process; return jobs per second."""
    command = [sys.executable, "-m", "benchmarks.peers.bare", str(port), str(jobs)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    pin(process.pid, cores)
    try:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise Failed("the bare scripts failed")
    figures: dict[str, float] = json.loads(output)
    return figures


async def _run(port: int, jobs: int) -> dict[str, float]:
    bare = BareRedis(port, bodies(jobs), flights=FLIGHTS)
    try:
        await bare.open()
        adding, draining = await bare.add(0, jobs), await bare.drain(jobs)
        await bare.check_all_ran()
    finally:
        await bare.close()
    return {"add_bulk": jobs / adding, "drain": jobs / draining}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_run(int(sys.argv[1]), int(sys.argv[2])))))
