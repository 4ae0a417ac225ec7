"""Log entries for repeated faults, at most one per minute."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

#: A fault that lasts is logged again this often.
REPEAT_SECONDS = 60.0


class ThrottledLog:
    """Drops what comes within a minute of the last entry."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._last = -math.inf

    def error(
        self, message: str, *args: object, exc: BaseException | None = None
    ) -> bool:
        """Log *message* with the traceback of *exc*; return False if it is too soon."""
        is_time = self._is_time()
        if is_time:
            self._logger.error(message, *args, exc_info=exc)
        return is_time

    def warning(self, message: str, *args: object) -> None:
        """Log *message* without a traceback, unless it is too soon."""
        if self._is_time():
            self._logger.warning(message, *args)

    def _is_time(self) -> bool:
        now = time.monotonic()
        is_time = now - self._last >= REPEAT_SECONDS
        if is_time:
            self._last = now
        return is_time
