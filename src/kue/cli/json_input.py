"""JSON typed by hand: parsing, and error messages that point to the mistake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from kue.model.payload import JSON


def read_json(text: str | bytes, *, what: str) -> JSON:
    """
    Return the value of JSON *text*.

    Raises:
        click.UsageError: It is not JSON; the message names the position.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        context = click.get_current_context(silent=True)
        raise click.UsageError(_explain(text, what, exc), context) from None


def _explain(text: str | bytes, what: str, exc: Exception) -> str:
    whole = text if isinstance(text, str) else text.decode(errors="replace")
    position = re.search(r"\(byte (\d+)\)", str(exc))
    reason = str(exc).removeprefix("JSON is malformed: ")
    shown = whole.strip()
    if position is not None:
        at = len(
            whole.encode(errors="replace")[: int(position[1])].decode(errors="ignore")
        )
        reason = reason.replace(position[0], "").strip() + f" at character {at + 1}"
        shown = whole[max(0, at - 20) : at + 20].strip()
    return (
        f"{what} is not JSON: {reason}, near {shown[:60]!r}; "
        'write it like \'{"to": "ann"}\', text in double quotes'
    )
