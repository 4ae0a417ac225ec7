"""
Webhooks: reports of alerts and failures, sent by jobs of the type ``kue.webhook``.

A job has only the name of its report.  URL and body are a record that only workers
write: a client that may add jobs cannot have them send anything anywhere, and the URL,
which may be a secret, is in no list of jobs and in no log.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import http.client
import logging
import secrets
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from kue.model.alert_options import checked_url, shown_url
from kue.model.backoff import exponential
from kue.model.draft import draft
from kue.model.errors import Fail
from kue.model.version import version
from kue.store.values import KeepRequest
from kue.worker.lane import Processor

if TYPE_CHECKING:
    from kue.model.alerts import AlertNotice
    from kue.model.job import Draft
    from kue.model.payload import JSON
    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.worker.active_run import ActiveRun

logger = logging.getLogger(__name__)

TYPE = "kue.webhook"
ROOM = "webhook"
#: How many are sent at once by one worker.
SLOTS = 10
ATTEMPTS = 10
FIRST_RETRY, LAST_RETRY = "10s", "1h"
#: For each step of a request: connecting, sending, and each part of the response.
TIMEOUT_SECONDS = 10.0
#: For all of it.
JOB_TIMEOUT = "30s"
#: How long a report is kept, and added only once.
KEPT_MS = 2 * 86_400_000
MAX_STATUS = 299


class Delivery(msgspec.Struct, frozen=True):
    """What is to be sent where."""

    url: str
    body: str


class WebhookRefused(Exception):
    """The server did not accept a webhook."""


async def add_alert(store: Store, notice: AlertNotice, url: str) -> None:
    """Add the job that reports *notice*; a second one of the same is not added."""
    data: dict[str, JSON] = {
        "notice": notice.id,
        "queue": notice.type,
        "alert": notice.kind,
        "status": notice.status,
    }
    job = await prepare(store, Delivery(url, _body(notice)), data, tag="alert")
    [added] = await store.add([job], producer=secrets.token_hex(8), seq=1)
    if added.is_refused:
        logger.error(
            "the webhook of an alert of %s was not added: as many jobs of type %s "
            "wait as its cap allows",
            notice.type,
            TYPE,
        )


async def prepare(
    store: Store, delivery: Delivery, data: dict[str, JSON], *, tag: str
) -> Draft:
    """Keep a report; return the job that sends it, of which a second is not added."""
    name = str(data["notice"])
    text = msgspec.json.encode(delivery).decode()
    until = await store.now() + KEPT_MS
    await store.keep(KeepRequest(ROOM, name, text, until=until))
    return draft(
        TYPE,
        data,
        unique=name,
        unique_for=KEPT_MS / 1000,
        attempts=ATTEMPTS,
        backoff=exponential(FIRST_RETRY, max=LAST_RETRY, jitter=0.5),
        timeout=JOB_TIMEOUT,
        tags=[tag],
    )


def processor(store: Store, settings: Settings) -> Processor:
    """Return the built-in handler of webhooks."""

    async def send(run: ActiveRun) -> JSON:
        return await _deliver(store, settings.webhook_secret, run)

    return Processor(TYPE, SLOTS, send)


async def _deliver(store: Store, secret: str, run: ActiveRun) -> JSON:
    name = run.job.data.get("notice") if isinstance(run.job.data, dict) else None
    text = await store.kept(ROOM, name) if isinstance(name, str) and name else None
    if text is None:
        raise Fail("the report is no longer kept, or never was")
    delivery = msgspec.json.decode(text, type=Delivery)
    status = await asyncio.to_thread(
        post, delivery.url, delivery.body.encode(), str(run.job.id), secret
    )
    return {"status": status}


def post(url: str, body: bytes, key: str, secret: str = "") -> int:
    """
    Send *body* as JSON; return the status, from 200 to 299.  Follows no redirect.

    *key* is the idempotency key.  With a *secret* the header ``X-Kue-Signature`` has
    the HMAC-SHA256 of the time of ``X-Kue-Timestamp``, a dot and the body.

    Raises:
        WebhookRefused: It cannot be reached, or responds with another status.
    """
    parts = urlsplit(checked_url(url))
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with contextlib.closing(connection):
        try:
            connection.request("POST", target, body, _headers(body, key, secret))
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as exc:
            raise WebhookRefused(
                f"{shown_url(url)} could not be reached: {type(exc).__name__}: {exc}"
            ) from None
    if not 200 <= status <= MAX_STATUS:
        raise WebhookRefused(f"{shown_url(url)} responded with status {status}")
    return status


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a webhook, as ``X-Kue-Signature`` has it."""
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _headers(body: bytes, key: str, secret: str) -> dict[str, str]:
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"kue/{version()}",
        "Idempotency-Key": key,
        "X-Kue-Timestamp": timestamp,
    }
    if secret:
        headers["X-Kue-Signature"] = signature(secret, timestamp, body)
    return headers


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(
        host, port, timeout=TIMEOUT_SECONDS, context=context
    )


def _body(notice: AlertNotice) -> str:
    """Return the JSON of a report; chat services show its *text*."""
    body = {
        "id": notice.id,
        "queue": notice.type,
        "alert": notice.kind,
        "status": notice.status,
        "value": notice.value,
        "threshold": notice.threshold,
        "since": notice.since,
        "at": notice.at,
        "text": f"Kue alert {notice.status}: {notice.message}",
    }
    return msgspec.json.encode(body).decode()
