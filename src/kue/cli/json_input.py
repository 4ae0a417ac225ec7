"""JSON that was typed by hand: read, or told where it goes wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from kue.model.payload import JSON


def read_json(text: str | bytes, *, what: str) -> JSON:
    """
    Return the value that JSON *text* means.

    Raises:
        click.UsageError: It is no JSON; the message says where that ends.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        context = click.get_current_context(silent=True)
        raise click.UsageError(_what_is_wrong(text, what, exc), context) from None


def _what_is_wrong(text: str | bytes, what: str, exc: Exception) -> str:
    whole = text if isinstance(text, str) else text.decode(errors="replace")
    place = re.search(r"\(byte (\d+)\)", str(exc))
    reason = str(exc).removeprefix("JSON is malformed: ")
    shown = whole.strip()
    if place is not None:
        at = len(
            whole.encode(errors="replace")[: int(place[1])].decode(errors="ignore")
        )
        reason = reason.replace(place[0], "").strip() + f" at character {at + 1}"
        shown = whole[max(0, at - 20) : at + 20].strip()
    return (
        f"{what} is not JSON: {reason}, near {shown[:60]!r}; "
        'write it like \'{"to": "ann"}\', text in double quotes'
    )
