"""The root logger, which commands that run for long configure."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kue.supervisor import log_format


@contextmanager
def lent() -> Iterator[None]:
    """Take from the root logger what the body gave it; what pytest has there stays."""
    root = logging.getLogger()
    level = root.level
    try:
        yield
    finally:
        for handler in root.handlers[:]:
            if isinstance(
                handler.formatter, log_format.TextFormatter | log_format.JsonFormatter
            ):
                root.removeHandler(handler)
        root.setLevel(level)
        logging.captureWarnings(False)
