"""Audit log: who changed what, when and from where."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from kue.http.security.redaction import MASK
from kue.model.errors import StoreError
from kue.store.values import AuditEntry

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from kue.client.queue import Kue
    from kue.http.auth.access import User
    from kue.http.security.redaction import Redaction
    from kue.model.payload import JSON

logger = logging.getLogger(__name__)

#: Characters of a detail, and bytes of a body that it is taken from.
MAX_DETAIL, MAX_BODY = 500, 64 * 1024
#: Seconds that a response waits for its audit entry to be stored.
STORE_SECONDS = 1.0
#: The field of a request that has a payload.
PAYLOAD = "data"


class AuditLog:
    """The audit log of a queue's store."""

    def __init__(self, q: Kue, redaction: Redaction) -> None:
        self._q = q
        self._redaction = redaction

    async def note_change(
        self, request: HTTPConnection, user: User, what: str, status: int
    ) -> None:
        """Record a change that was made, may have been made, or was not allowed."""
        is_done = status < HTTPStatus.BAD_REQUEST
        is_unsure = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_done or is_unsure or status == HTTPStatus.FORBIDDEN:
            target = "/".join(str(one) for one in request.path_params.values())
            # Only `read_body` sets it.
            detail = self._detail(getattr(request.state, "body", b""))
            await self.note(request, user.name, what, status, target, detail)

    async def note(
        self,
        request: HTTPConnection,
        who: str,
        what: str,
        status: int,
        target: str = "",
        detail: str = "",
    ) -> None:
        """Record an entry; errors of the store do not affect the response."""
        entry = AuditEntry(
            who=who,
            what=what,
            target=self._redaction.text(target)[:200],
            status=status,
            address=request.client.host if request.client else "",
            detail=detail,
        )
        act = f"{_plain(who)}: {what} {_plain(entry.target)}"
        logger.info("%s: %s", act, status)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            return
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await self._q.store.note(entry)
        except (StoreError, TimeoutError) as exc:
            logger.warning("%s is not in the audit log: %s", act, exc)

    def _detail(self, body: bytes) -> str:
        """Return an excerpt of the body, with secrets hidden."""
        if not body or body == b"null":
            return ""
        if len(body) > MAX_BODY:
            return f"{len(body):,} bytes"
        try:
            content = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return f"{len(body):,} bytes"
        if self._q.settings.payload_keys:
            # The entry is stored as it is, and payloads may be encrypted.
            content = _without_payloads(content)
        text = msgspec.json.encode(self._redaction.hide(content)).decode()
        return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"


def _without_payloads(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {
            key: MASK if key == PAYLOAD else _without_payloads(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_without_payloads(one) for one in value]
    return value


def _plain(text: str) -> str:
    """Return *text* for a log line: terminals interpret control characters."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
