"""
Redaction of secrets: passwords, tokens, card numbers.

What is hidden is decided by the names of keys, whatever their case and separators:
``api_key``, ``apiKey`` and ``X-Api-Key`` are one.  A hidden value is shown as ``•••``;
edited data has that where the value is to stay.  Passwords inside URLs are hidden, too:
``redis://ann:•••@host``.  Names that jobs are found by, such as groups and tags, are
shown as they are.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from kue.http.framework.problem import bad_request
from kue.model.credential_masking import mask_credentials
from kue.model.sealed_payload import readable, shown_detail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.model.job import Attempt, Error, Job, JobTerms
    from kue.model.payload import JSON

Terms = TypeVar("Terms", bound="JobTerms")

#: What is shown instead of a value.
MASK = "•••"
#: Parts of keys; those of up to four letters must be a separate word.
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
    "webhook",
)
#: With a number as its value, such a key is a count: ``max_tokens``.
_COUNTED = frozenset({"token"})
_SHORT = 4
_KNOWN_KEYS = 10_000

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP = re.compile(r"[\W_]+")
#: ``key=`` and ``"key": `` in a text, and what may follow.  Keys begin where words do,
#: so that every text is matched quickly.
_KEY = re.compile(r"""(?<![\w-])([\w-]{1,64})["']?\s{0,4}[:=]\s{0,4}""")
_VALUE = re.compile(
    r"""(?:(?:Bearer|Basic|Token)\s{1,4})?(?:"[^"]*"|'[^']*'|[^\s,;&"'(){}\[\]]+)""",
    re.IGNORECASE,
)
#: A hidden password in a URL.
_HIDDEN_IN_URL = f":{MASK}@"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Redaction:
    """
    Hides values by the names of their keys.

    Args:
        also: Rules in addition to the usual ones.
        only: Rules instead of the usual ones; nothing is hidden if there are none.
    """

    def __init__(
        self, also: Iterable[str] = (), *, only: Iterable[str] | None = None
    ) -> None:
        rules = {_squashed(rule) for rule in (RULES if only is None else only)}
        rules |= {_squashed(rule) for rule in also}
        rules.discard("")
        self._words = frozenset(rule for rule in rules if len(rule) <= _SHORT)
        # Without rules, passwords in URLs are not hidden either.
        self._hides_urls = bool(rules)
        self._parts = tuple(sorted(rule for rule in rules if len(rule) > _SHORT))
        # A cache per instance: rules differ.
        self._rules_of = lru_cache(maxsize=_KNOWN_KEYS)(self._find)

    def is_secret(self, key: str, value: object = "") -> bool:
        """Return whether *value* is hidden under *key*; booleans and null never are."""
        if value is None or isinstance(value, bool):
            return False
        found = self._rules_of(key)
        if isinstance(value, int | float):
            found = found - _COUNTED
        return bool(found)

    def _find(self, key: str) -> frozenset[str]:
        """Return the rules that match *key*."""
        text = _squashed(key)
        found = {part for part in self._parts if part in text}
        return frozenset(found | (self._words & _words(key)))

    # -- hiding ----------------------------------------------------------------

    def hide(self, value: Any) -> Any:
        """Return JSON with its secrets hidden."""
        if isinstance(value, dict):
            return {
                key: MASK if self.is_secret(key, one) else self.hide(one)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.hide(one) for one in value]
        return self._url(value) if isinstance(value, str) else value

    def _url(self, text: str) -> str:
        """Return *text* with the passwords of its URLs hidden."""
        return mask_credentials(text, MASK) if self._hides_urls else text

    def text(self, text: str) -> str:
        """Return *text* with values of secret keys and passwords in URLs hidden."""
        parts: list[str] = []
        end = 0
        for key in _KEY.finditer(text):
            # Values of other keys are not skipped: they may be keys in turn.
            if key.start() < end or not self.is_secret(key[1]):
                continue
            value = _VALUE.match(text, key.end())
            if value is not None and self.is_secret(key[1], _plain(value[0])):
                parts += [text[end : key.end()], MASK]
                end = value.end()
        return self._url("".join([*parts, text[end:]]))

    def detail(self, detail: dict[str, Any]) -> dict[str, Any]:
        """Return the detail of an event with its secrets hidden."""
        hidden = self.hide(shown_detail(detail))
        for key in ("message", "reason"):
            if isinstance(hidden.get(key), str):
                hidden[key] = self.text(hidden[key])
        return dict(hidden)

    def terms(self, job: Terms) -> Terms:
        """Return a job or a draft with the secrets of its options hidden."""
        spec = replace(
            job.spec, data=self.hide(job.spec.data), meta=self.hide(job.spec.meta)
        )
        unique = None if job.unique is None else self._url(job.unique)
        limited_by = tuple((name, self.key(key)) for name, key in job.limited_by)
        return replace(job, spec=spec, unique=unique, limited_by=limited_by)

    def key(self, key: str) -> str:
        """Return the key of a limit with the passwords of its URLs hidden."""
        return self._url(key)

    def job(self, job: Job) -> Job:
        """Return a job with its secrets hidden."""
        return replace(
            self.terms(job),
            # It may contain the reason of a pause.
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

    # -- editing ---------------------------------------------------------------

    def restore(self, sent: JSON, stored: JSON) -> JSON:
        """Return data as it was sent, with the stored values where it has ``•••``."""
        readable(stored, "what is to be changed")
        if isinstance(sent, dict):
            values = stored if isinstance(stored, dict) else {}
            return {
                key: self._restored(key, value, values) for key, value in sent.items()
            }
        if isinstance(sent, list):
            # The items of a list of another length cannot be matched.
            olds = stored if isinstance(stored, list) else []
            if len(olds) != len(sent):
                olds = [None] * len(sent)
            return [self.restore(one, old) for one, old in zip(sent, olds, strict=True)]
        return self._restored_url(sent, stored) if isinstance(sent, str) else sent

    def _restored_url(self, sent: str, stored: JSON) -> str:
        """Return a text with the passwords of its URLs, if it was not changed."""
        if not self._hides_urls or _HIDDEN_IN_URL not in sent:
            return sent
        if isinstance(stored, str) and self._url(stored) == sent:
            return stored
        raise bad_request(
            f"{sent[:60]!r} has a hidden password, and is not what was shown there; "
            "give the password again",
            "body.data",
        )

    def _restored(self, key: str, value: JSON, values: dict[str, JSON]) -> JSON:
        if value != MASK or not self.is_secret(key, value):
            return self.restore(value, values.get(key))
        if key not in values or not self.is_secret(key, values[key]):
            raise bad_request(
                f"{key[:40]!r} is {MASK}, and no value of that name was hidden there; "
                "give the value itself",
                "body.data",
            )
        return values[key]


def _plain(value: str) -> str | int:
    """Return a value of a text without its quotes, or 0 for any number."""
    bare = value.strip("\"'")
    return 0 if _NUMBER.fullmatch(bare) else bare


def _squashed(key: str) -> str:
    """Return the letters and digits of *key*, in lower case."""
    text = unicodedata.normalize("NFKC", key).casefold()
    return "".join(char for char in text if char.isalnum())


def _words(key: str) -> frozenset[str]:
    text = _HUMP.sub(" ", unicodedata.normalize("NFKC", key))
    return frozenset(_GAP.sub(" ", text).casefold().split())
