"""
Values that nobody is to see: passwords, tokens, numbers of cards.

What is told is decided by the names of keys, whatever their case and separators:
``api_key``, ``apiKey`` and ``X-Api-Key`` are one.  A hidden value is shown as ``•••``.
Who edits data sends that back where the value is to stay.  So are passwords inside
URLs: ``redis://ann:•••@host``.  Names that jobs are found by, such as groups and tags,
are shown as they are.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kue.http.framework.problem import Refused
from kue.model.credentials import mask_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.model.job import Attempt, Error, Job
    from kue.model.payload import JSON

#: What is shown instead of a value.
MASK = "•••"
#: Parts of keys; those of up to four letters must be a word of their own.
RULES = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pass",
    "pwd",
    "secret",
    "token",
    "authorization",
    "auth",
    "bearer",
    "jwt",
    "cookie",
    "credential",
    "api key",
    "access key",
    "private key",
    "signing key",
    "encryption key",
    "session id",
    "sid",
    "credit card",
    "card number",
    "cc number",
    "cvv",
    "cvc",
    "iban",
    "pin",
    "otp",
    "ssn",
    "social security",
)
#: With a number they are a count: ``max_tokens``.
_COUNTED = frozenset({"token"})
_SHORT = 4
_KNOWN_KEYS = 10_000

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP = re.compile(r"[\W_]+")
#: ``key=`` and ``"key": `` in a text, and what may follow.  Keys begin where words do,
#: so that no text takes long.
_KEY = re.compile(r"""(?<![\w-])([\w-]{1,64})["']?\s{0,4}[:=]\s{0,4}""")
_VALUE = re.compile(
    r"""(?:(?:Bearer|Basic|Token)\s{1,4})?(?:"[^"]*"|'[^']*'|[^\s,;&"'(){}\[\]]+)""",
    re.IGNORECASE,
)
#: A password of a URL that was hidden.
_HIDDEN_IN_URL = f":{MASK}@"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Redaction:
    """
    Hides values by the names of their keys.

    Args:
        also: More rules, besides the usual ones.
        only: Rules instead of the usual ones; nothing is hidden when there are none.
    """

    def __init__(
        self, also: Iterable[str] = (), *, only: Iterable[str] | None = None
    ) -> None:
        rules = {_squashed(rule) for rule in (RULES if only is None else only)}
        rules |= {_squashed(rule) for rule in also}
        rules.discard("")
        self._words = frozenset(rule for rule in rules if len(rule) <= _SHORT)
        # Told to hide nothing, it hides no passwords in URLs either.
        self._hides_urls = bool(rules)
        self._parts = tuple(sorted(rule for rule in rules if len(rule) > _SHORT))
        # One memory each: rules differ.
        self._rules_of = lru_cache(maxsize=_KNOWN_KEYS)(self._find)

    def is_secret(self, key: str, value: object = "") -> bool:
        """Tell whether *value* is hidden under *key*; true, false and null are not."""
        if value is None or isinstance(value, bool):
            return False
        found = self._rules_of(key)
        if isinstance(value, int | float):
            found = found - _COUNTED
        return bool(found)

    def _find(self, key: str) -> frozenset[str]:
        """Return the rules that *key* falls under."""
        text = _squashed(key)
        found = {part for part in self._parts if part in text}
        return frozenset(found | (self._words & _words(key)))

    # -- hiding ----------------------------------------------------------------

    def hide(self, value: Any) -> Any:
        """Return JSON without what is secret in it."""
        if isinstance(value, dict):
            return {
                key: MASK if self.is_secret(key, one) else self.hide(one)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.hide(one) for one in value]
        return self._url(value) if isinstance(value, str) else value

    def _url(self, text: str) -> str:
        """Return *text* without the passwords of the URLs in it."""
        return mask_credentials(text, MASK) if self._hides_urls else text

    def text(self, text: str) -> str:
        """
        Return text for people without what is secret in it.

        Hidden are values that it names by their keys, and passwords in URLs.
        """
        return self._url(self._by_keys(text))

    def _by_keys(self, text: str) -> str:
        parts: list[str] = []
        end = 0
        for key in _KEY.finditer(text):
            # Others are not looked at further: their values may be keys in turn.
            if key.start() < end or not self.is_secret(key[1]):
                continue
            value = _VALUE.match(text, key.end())
            if value is not None and self.is_secret(key[1], _plain(value[0])):
                parts += [text[end : key.end()], MASK]
                end = value.end()
        return "".join([*parts, text[end:]])

    def detail(self, detail: dict[str, Any]) -> dict[str, Any]:
        """Return what an event tells, as all may hear it."""
        hidden = self.hide(detail)
        for key in ("message", "reason"):
            if isinstance(hidden.get(key), str):
                hidden[key] = self.text(hidden[key])
        return dict(hidden)

    def job(self, job: Job) -> Job:
        """Return a job as all may see it."""
        spec = replace(
            job.spec, data=self.hide(job.spec.data), meta=self.hide(job.spec.meta)
        )
        return replace(
            job,
            spec=spec,
            unique=None if job.unique is None else self._url(job.unique),
            # Of a pause it says the reason.
            held=self.text(job.held),
            progress_data=self.hide(job.progress_data),
            history=tuple(self._attempt(attempt) for attempt in job.history),
        )

    def _attempt(self, attempt: Attempt) -> Attempt:
        return replace(
            attempt,
            result=self.hide(attempt.result),
            error=None if attempt.error is None else self._error(attempt.error),
            reason=self.text(attempt.reason),
        )

    def _error(self, error: Error) -> Error:
        return replace(
            error, message=self.text(error.message), stack=self.text(error.stack)
        )

    def finds(self, text: str, data: JSON) -> bool:
        """Tell whether *text* is in what is shown of *data*: what is hidden is not."""
        shown = msgspec.json.encode(self.hide(data)).decode()
        return text.casefold() in shown.casefold()

    # -- editing ---------------------------------------------------------------

    def restore(self, given: JSON, kept: JSON) -> JSON:
        """
        Return data as it was sent, with what was kept where it says ``•••``.

        Raises:
            Refused: It says so where nothing was hidden.
        """
        if isinstance(given, dict):
            known = kept if isinstance(kept, dict) else {}
            return {
                key: self._restored(key, value, known) for key, value in given.items()
            }
        if isinstance(given, list):
            # Of a list that became longer or shorter nobody can tell which is which.
            is_same = isinstance(kept, list) and len(kept) == len(given)
            olds = kept if is_same and isinstance(kept, list) else [None] * len(given)
            return [
                self.restore(one, old) for one, old in zip(given, olds, strict=True)
            ]
        return self._restored_url(given, kept) if isinstance(given, str) else given

    def _restored_url(self, given: str, kept: JSON) -> str:
        """Return a text with the passwords of its URLs, where it was not changed."""
        if not self._hides_urls or _HIDDEN_IN_URL not in given:
            return given
        if isinstance(kept, str) and self._url(kept) == given:
            return kept
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            f"{given[:60]!r} has a hidden password, and is not what was shown there; "
            "give the password again",
            field="body.data",
        )

    def _restored(self, key: str, value: JSON, known: dict[str, JSON]) -> JSON:
        if value != MASK or not self.is_secret(key, value):
            return self.restore(value, known.get(key))
        if key not in known or not self.is_secret(key, known[key]):
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                f"{key[:40]!r} is {MASK}, and no value of that name was hidden there; "
                "give it anew",
                field="body.data",
            )
        return known[key]


def _plain(value: str) -> str | int:
    """Return a value of a text without its quotes, or some number for a number."""
    bare = value.strip("\"'")
    return 0 if _NUMBER.fullmatch(bare) else bare


def _squashed(key: str) -> str:
    """Return the letters and digits of *key*, small."""
    text = unicodedata.normalize("NFKC", key).casefold()
    return "".join(char for char in text if char.isalnum())


def _words(key: str) -> frozenset[str]:
    text = _HUMP.sub(" ", unicodedata.normalize("NFKC", key))
    return frozenset(_GAP.sub(" ", text).casefold().split())
