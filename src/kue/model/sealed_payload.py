"""
Sealed payloads: values that are compressed, signed or encrypted, and bound to a job.

A sealed value is an *envelope*, a JSON text that stores keep like any other value::

    kue-sealed:1:<key>:<how>:<binding>:<base64>

*key* is the name of the key, *how* is "e" (encrypted), "s" (signed) or "n" (neither),
followed by "z" if the value was compressed.  *binding* names what the value belongs to:
``job=17``, or where the id cannot be known, ``unique=<key>`` or ``schedule=<name>``.
All of that is authenticated, and so are the kind of the value and, of data, the task.

`Spec.sealed` says that all payloads of a job are envelopes; of any other job none is,
whatever it looks like.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kue.model.errors import ConfigError, PayloadRefused
from kue.model.job import OPENED
from kue.model.names import quote, unquote
from kue.model.payload import MAX_DATA, MAX_RESULT, decode
from kue.model.payload_ciphers import (
    aes,
    checked,
    decrypted,
    encrypted,
    signed,
    unpacked,
)
from kue.model.schedule import tag_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.job import JobTerms, Spec
    from kue.model.payload import JSON
    from kue.model.payload_keys import PayloadKey, Protection

PREFIX = "kue-sealed:1:"
_ENVELOPE = re.compile(
    PREFIX + r"([\w.-]{0,40}):([esn]z?):((?:job|unique|schedule)=[^:]*)"
    r":([A-Za-z0-9+/]*={0,2})",
    re.ASCII,
)
#: By how envelopes name them; the stronger ones come later.
_PROTECTIONS: dict[str, Protection] = {"n": "", "s": "sign", "e": "encrypt"}
_HOW = {protection: how for how, protection in _PROTECTIONS.items()}
_STRENGTHS = tuple(_HOW)
#: A dead letter has a job's data, and this much about it at most.
_LETTER_BYTES = 64 * 1024


class Sealed(dict[str, str]):
    """What stands for a value that could not be opened: ``{"sealed": why}``."""

    def __init__(self, envelope: JSON, why: str) -> None:
        super().__init__(sealed=why)
        #: As it is stored.
        self.envelope = envelope

    @property
    def why(self) -> str:
        return self["sealed"]


def readable(value: JSON, what: str) -> JSON:
    """
    Return a value that was read, unless it could not be opened.

    Raises:
        PayloadRefused: It could not; the message says why.
    """
    if isinstance(value, Sealed):
        raise PayloadRefused(f"{what} is {value.why}")
    return value


def binding_to_job(job_id: int) -> str:
    return f"job={job_id}"


def binding_to_key(unique: str) -> str:
    """Return the binding of a draft that may replace the job which has its key."""
    return f"unique={quote(unique)}"


def binding_to_schedule(name: str) -> str:
    return f"schedule={quote(name)}"


class Place(NamedTuple):
    """Which value of which job one is: a sealed value opens nowhere else."""

    #: "data", "result", "progress", "step:<name>" or "signal:<name>".
    kind: str
    belongs: Callable[[str], bool]
    #: The name of the task, of data: events of other values do not have it.
    task: str = ""
    limit: int = MAX_RESULT


def place_in(job_id: int, kind: str) -> Place:
    """Return the place of one of a job's results and the like; data has `data_of`."""
    return Place(kind, binding_to_job(job_id).__eq__)


def data_of(job: JobTerms, job_id: int = 0, limit: int = MAX_DATA) -> Place:
    """Return the place of a job's data."""

    def belongs(binding: str) -> bool:
        kind, _, name = binding.partition("=")
        if kind == "unique":
            return job.unique is not None and name == quote(job.unique)
        if kind == "schedule":
            return tag_of(unquote(name)) in job.spec.tags
        return binding == binding_to_job(job_id)

    return Place("data", belongs, job.name, limit)


class Envelope(NamedTuple):
    """The parts of a sealed value."""

    key: str
    how: str
    binding: str
    body: str

    @classmethod
    def read(cls, value: JSON) -> Envelope | None:
        """Return the parts of an envelope; None if *value* is anything else."""
        if not isinstance(value, str) or not value.startswith(PREFIX):
            return None
        found = _ENVELOPE.fullmatch(value)
        return cls(*found.groups()) if found else None

    @property
    def protection(self) -> Protection:
        return _PROTECTIONS[self.how[0]]

    @property
    def shown(self) -> str:
        """How it is sealed, in words."""
        if not self.key:
            return "compressed"
        done = "encrypted" if self.protection == "encrypt" else "signed"
        return f"{done} with key {self.key!r}"

    @property
    def missing(self) -> str:
        """What a queue lacks that cannot open it, and how to change that."""
        if self.key:
            return (
                "which this queue does not have; add that key to payload_keys "
                "($KUE_PAYLOAD_KEYS)"
            )
        return "which this queue does not do; set compress_over ($KUE_COMPRESS_OVER)"

    def context(self, place: Place) -> bytes:
        """Return what is authenticated beside the value itself."""
        head = (PREFIX, self.key, self.how, self.binding, place.kind, place.task)
        return "\0".join(head).encode()


def shown_detail(detail: dict[str, Any]) -> dict[str, Any]:
    """Return the detail of an event, for people, without what is sealed in it."""
    return {
        name: {"sealed": envelope.shown}
        if (envelope := Envelope.read(value))
        else value
        for name, value in detail.items()
    }


def opened_spec(spec: Spec, data: JSON) -> Spec:
    """Return the spec of a sealed job with its *data*, if that could be opened."""
    if isinstance(data, Sealed):
        return replace(spec, data=data)
    envelope = Envelope.read(spec.data)
    strength = _STRENGTHS.index(envelope.protection) if envelope else 0
    return replace(spec, data=data, sealed=OPENED + strength)


def protection_of(spec: Spec) -> Protection | None:
    """Return how the payloads of a job are protected; None if they are not sealed."""
    if spec.sealed >= OPENED:
        return _STRENGTHS[spec.sealed - OPENED]
    value = spec.data.envelope if isinstance(spec.data, Sealed) else spec.data
    value = decode(value) if isinstance(value, msgspec.Raw) else value
    envelope = Envelope.read(value) if spec.sealed else None
    return envelope.protection if envelope else None


def refusal_of(spec: Spec) -> PayloadRefused:
    """Return why the data of a job that is still sealed is not for its handler."""
    if isinstance(spec.data, Sealed):
        why = spec.data.why
    else:
        envelope = Envelope.read(spec.data)
        why = f"{envelope.shown}, {envelope.missing}" if envelope else "damaged"
    return PayloadRefused(f"its data is {why}")


class Sealer:
    """Seals and opens values, as the settings of a queue demand."""

    def __init__(
        self,
        keys: tuple[PayloadKey, ...] = (),
        protection: Protection = "",
        *,
        compress_over: int = 0,
        max_data: int = MAX_DATA,
        accepts_plain: bool = False,
    ) -> None:
        """
        Raises:
            ConfigError: There is no key to protect with, or the package is missing.
        """
        self._keys = {key.name: key for key in keys}
        self._protection = protection
        self._compress_over = compress_over
        self.accepts_plain = accepts_plain or not protection
        self.max_data = max_data + _LETTER_BYTES
        if len(self._keys) < len(keys):
            raise ConfigError("payload_keys has two keys with the same name")
        if protection and not keys:
            raise ConfigError(
                f"payload_protection is {protection!r} without a key; set payload_keys "
                "to one that kue key new prints"
            )
        if protection == "encrypt":
            aes(keys[0].secret)
        self._first = keys[0] if keys else None

    @property
    def is_protecting(self) -> bool:
        """Whether what it seals is signed or encrypted."""
        return bool(self._protection)

    @property
    def is_active(self) -> bool:
        """Whether it seals anything, or opens what is protected."""
        return bool(self._keys or self._compress_over)

    def is_wanted(self, data: bytes) -> bool:
        """Return whether a job with this data is to be sealed."""
        return self.is_protecting or 0 < self._compress_over < len(data)

    def seal(
        self, value: bytes, binding: str, place: Place, at_least: Protection = ""
    ) -> msgspec.Raw:
        """
        Return JSON as an envelope, which is JSON.

        Raises:
            PayloadRefused: It is to be protected *at_least* so, and there is no key.
        """
        protection = max(self._protection, at_least, key=_STRENGTHS.index)
        body, how = value, _HOW[protection]
        if 0 < self._compress_over < len(value) <= place.limit:
            packed = zlib.compress(value)
            if len(packed) < len(value):
                body, how = packed, how + "z"
        made = Envelope("", how, binding, "")
        if protection:
            made, body = self._protected(made, body, place)
        text = base64.b64encode(body).decode()
        # Names in a binding are quoted: nothing in it needs an escape in JSON.
        return msgspec.Raw(f'"{PREFIX}{made.key}:{how}:{binding}:{text}"'.encode())

    def _protected(
        self, made: Envelope, body: bytes, place: Place
    ) -> tuple[Envelope, bytes]:
        if self._first is None:
            raise PayloadRefused(
                "other payloads of the job are protected, and this queue has no key; "
                "set payload_keys ($KUE_PAYLOAD_KEYS)"
            )
        made = made._replace(key=self._first.name)
        protect = encrypted if made.protection == "encrypt" else signed
        return made, protect(self._first, body, made.context(place))

    def open(self, value: JSON, place: Place) -> JSON:
        """
        Return the value in an envelope.

        Raises:
            PayloadRefused: It cannot be opened, or is none; the message says why.
        """
        envelope = Envelope.read(value)
        if envelope is None:
            raise PayloadRefused("not sealed, though other payloads of its job are")
        if not place.belongs(envelope.binding):
            raise PayloadRefused(f"sealed for another job ({envelope.binding})")
        return self._opened(envelope, place)

    def open_as_named(self, value: JSON, place: Place) -> JSON:
        """Open an envelope of whichever job, to seal the value for another one."""
        return self.open(value, place._replace(belongs=lambda binding: True))

    def tried(self, value: JSON, place: Place) -> JSON:
        """Return the value in an envelope; `Sealed` if it cannot be opened."""
        try:
            return self.open(value, place)
        except PayloadRefused as exc:
            return Sealed(value, str(exc))

    def _opened(self, envelope: Envelope, place: Place) -> JSON:
        try:
            body = base64.b64decode(envelope.body)
        except ValueError:
            raise PayloadRefused("damaged: it is not base64") from None
        if envelope.protection:
            body = self._verified(envelope, body, envelope.context(place))
        elif not self.accepts_plain:
            raise PayloadRefused("compressed, but neither signed nor encrypted")
        if envelope.how.endswith("z"):
            body = unpacked(body, place.limit)
        try:
            return decode(body)
        except (ValueError, RecursionError):
            raise PayloadRefused("damaged: it is not JSON") from None

    def _verified(self, envelope: Envelope, body: bytes, context: bytes) -> bytes:
        key = self._keys.get(envelope.key)
        if key is None:
            raise PayloadRefused(f"{envelope.shown}, {envelope.missing}")
        verify = decrypted if envelope.protection == "encrypt" else checked
        try:
            found = verify(key, body, context)
        except ConfigError as exc:
            raise PayloadRefused(f"{envelope.shown}, but {exc}") from None
        if found is None:
            raise PayloadRefused(
                f"{envelope.shown}, but not with the key of that name here, or it was "
                "changed since, or is that of another job, task or field"
            )
        return found
