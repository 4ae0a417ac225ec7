"""Log entries for repeated faults: each with its traceback, at most one per minute."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

#: A fault that lasts is logged again this often.
REPEAT_SECONDS = 60.0


class ThrottledLog:
    """Logs at level ERROR, and drops what comes within a minute of the last entry."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._last = -math.inf

    def error(
        self, message: str, *args: object, exc: BaseException | None = None
    ) -> None:
        """Log *message* with the traceback of *exc*, unless it is too soon."""
        now = time.monotonic()
        if now - self._last >= REPEAT_SECONDS:
            self._last = now
            self._logger.error(message, *args, exc_info=exc)
