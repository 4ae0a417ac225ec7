"""
Chance in tests: `make test` tries the same each time, `make explore` something new.

What is drawn at random finds faults that nobody thought of, at a time that nobody
chose.  Those who change something else are to see only what they have broken.
"""

from __future__ import annotations

import os
import secrets

EXPLORES = bool(os.environ.get("KUE_EXPLORE"))


def seed(part: int) -> int:
    """Return a seed: the same for each *part*, or a new one to explore with."""
    return secrets.randbits(32) if EXPLORES else part
