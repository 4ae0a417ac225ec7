"""
Random seeds of tests: the same in every `make test`, new ones in `make explore`.

Random examples find faults that nobody thought of, at any time.  A developer who
changes something else should see only what that change broke.
"""

from __future__ import annotations

import os
import secrets

EXPLORES = bool(os.environ.get("KUE_EXPLORE"))


def seed(part: int) -> int:
    """Return the seed of a *part*: always the same, or a new one to explore with."""
    return secrets.randbits(32) if EXPLORES else part
