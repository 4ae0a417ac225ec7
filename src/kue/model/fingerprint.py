"""Fingerprints of errors: the same for errors that differ only in their numbers."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kue.model.job import Error

#: Hexadecimal digits of a fingerprint; engines cut it out of a record by this length.
LENGTH = 12
#: The kind of a job that expired.
EXPIRED = "Expired"
#: Characters of a message that distinguish errors.
MAX_LINE = 500
#: What differs from job to job: ids in hexadecimal, and numbers.
_VARIES = re.compile(r"\b(?:0x)?[0-9a-f]{8,}(?:-[0-9a-f]{4,}){0,4}\b|\d+", re.I)


def first_line(message: str) -> str:
    """Return the first line of a message, shortened."""
    return message.strip().partition("\n")[0][:MAX_LINE]


def shape(message: str) -> str:
    """Return what all messages of a kind share: the first line, without numbers."""
    return _VARIES.sub("#", first_line(message))


def fingerprint(error: Error) -> str:
    """Return a short hash of the kind and the shape of an error."""
    message = error.message
    if error.kind == EXPIRED:
        # What follows is another error, which a script of the store adds.
        message = message.partition(";")[0]
    text = f"{error.kind}\n{shape(message)}"
    return hashlib.blake2b(text.encode(), digest_size=LENGTH // 2).hexdigest()
