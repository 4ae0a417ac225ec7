"""
``python -m benchmarks.peers.adapters NAME VERB …``: drive one queue.

work TASK SLOTS                      run jobs of the task until killed
one|together|bulk TASK FIRST COUNT   add jobs, numbered from FIRST
ping COUNT SECONDS                   send a job at a time to an idle worker

Except for ``work``, verbs print the seconds they took as a line of JSON.
"""

from __future__ import annotations

import json
import logging
import sys
from importlib import import_module


def main(name: str, verb: str, *arguments: str) -> None:
    # Logging of each job would distort the measurement.
    logging.disable(logging.WARNING)
    adapter = import_module(f"benchmarks.peers.adapters.through_{name}")
    if verb == "work":
        adapter.work(arguments[0], int(arguments[1]))
    else:
        seconds = adapter.producer().measure(verb, arguments)
        print(json.dumps({"seconds": seconds}))


main(*sys.argv[1:])
