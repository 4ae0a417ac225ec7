"""Keys of a terminal: names for the bytes that it sends."""

from __future__ import annotations

import codecs
import re

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
#: What a sequence begins with whose rest has not arrived.
_BEGINNING = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")
#: No key sends more; what is longer is not a key.
MAX_SEQUENCE = 32
_ESCAPE = "\x1b"
_CURSOR = {
    "A": "up",
    "B": "down",
    "H": "home",
    "1~": "home",
    "F": "end",
    "4~": "end",
    "5~": "page-up",
    "6~": "page-down",
    "Z": "tab",
}
_CONTROL = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x0c": "redraw",
    "\x15": "clear",
    "\x03": "interrupt",
}


class KeyDecoder:
    """
    Turns bytes into keys: a printed character, or a name such as ``up`` or ``enter``.

    A connection may split the bytes of one key.  Whether a lone escape is the key or
    the beginning of another one only time can tell: see `is_waiting` and `flush`.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""

    @property
    def is_waiting(self) -> bool:
        """Whether the rest of a key may still arrive."""
        return bool(self._text)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete with *data*."""
        self._text += self._decoder.decode(data)
        keys: list[str] = []
        while self._text and not self._is_beginning():
            if key := self._take():
                keys.append(key)
        return keys

    def flush(self) -> list[str]:
        """Return the key that was waiting for more, which has not come."""
        text, self._text = self._text, ""
        return ["escape"] if text == _ESCAPE else []

    def _is_beginning(self) -> bool:
        is_short = len(self._text) < MAX_SEQUENCE
        return is_short and _BEGINNING.fullmatch(self._text) is not None

    def _take(self) -> str:
        """Remove the first key from the text; return its name, or "" if unknown."""
        if found := _SEQUENCE.match(self._text):
            self._text = self._text[found.end() :]
            return _CURSOR.get(found[0][2:], "")
        first, self._text = self._text[0], self._text[1:]
        # Followed by anything else it is the key: both were pressed quickly.
        if first == _ESCAPE:
            return "escape"
        return _CONTROL.get(first, first if first.isprintable() else "")
