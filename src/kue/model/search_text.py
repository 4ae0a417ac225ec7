"""
Full-text search: what a query means, and which texts of a job it is compared with.

A query is words, in any order, all of which must be there; quotes make a phrase of
several.  They are found anywhere in a text, also within longer words, ignoring case and
the kind and number of spaces.  Accents count, however they are encoded.

Texts are compared as people see them: strings without JSON's quotes and escapes, names
of fields, and numbers.  A word or a phrase never spans two of them.

Engines look for `needles_of` a query in what they store, to leave out jobs that cannot
match without decoding them.  That never decides that a job does match.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.model.payload import JSON

#: Lines of a job's log that are searched: the newest.
LOG_LINES = 100
#: The most needles of one query, and the longest: more would not narrow much more.
MAX_NEEDLES, MAX_NEEDLE = 3, 100
#: Characters that stand for ASCII once case is ignored and accents are composed.  A
#: stored text that has one of them may match although it lacks the needle.
FOLDED_TO_ASCII = "ßİŉſ\u037eẚẞ\u1fef\u212aﬀﬁﬂﬃﬄﬅﬆ"
#: And escapes, which may stand for any character.
ESCAPES = ("\\u", "\\/")

#: A quoted phrase, which may lack its end, or a word; a quote within one is as it is.
_TERM = re.compile(r'"([^"]*)"?|(\S+)')
#: Between texts: terms have no line breaks.
_BREAK = "\n"
#: What is stored as it is: JSON escapes the others, and a colon is put between the kind
#: and the message of an error.
_PLAIN = re.compile(r"[!#-.0-9;-\[\]-~]+")


def terms_of(query: str) -> tuple[str, ...]:
    """Return the words and phrases of a query; none if there is nothing to find."""
    found = (_folded(_spaced(quoted or word)) for quoted, word in _TERM.findall(query))
    return tuple(dict.fromkeys(filter(None, found)))


def missing(terms: Iterable[str], texts: Iterable[str]) -> tuple[str, ...]:
    """Return those of *terms* that are in none of *texts*."""
    searched = _folded(_BREAK.join(map(_spaced, texts)))
    return tuple(term for term in terms if term not in searched)


def texts_in(value: JSON) -> Iterator[str]:
    """Yield the texts of JSON: strings, names of fields, numbers, true, false, null."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from one
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
        else:
            yield msgspec.json.encode(one).decode()


def needles_of(terms: Iterable[str]) -> tuple[str, ...]:
    """
    Return parts of *terms*, in lower case and in ASCII, that what matches must have.

    At most one of each term: its longest.  The longest of all come first.
    """
    runs = (max(_PLAIN.findall(term), key=len, default="") for term in terms)
    needles = sorted({run[:MAX_NEEDLE] for run in runs if run}, key=len, reverse=True)
    return tuple(needles[:MAX_NEEDLES])


def _folded(text: str) -> str:
    """Return *text* with case ignored and accents composed."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", folded)


def _spaced(text: str) -> str:
    return " ".join(text.split())
