"""Keys of payloads: what they are protected with, and how."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from typing import Literal, TypeAlias

import msgspec

#: How payloads are protected: not at all, by HMAC-SHA256 or by AES-256-GCM.
Protection: TypeAlias = Literal["", "sign", "encrypt"]
KEY_BYTES = 32
_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)


class PayloadKey(msgspec.Struct, frozen=True):
    """A key that payloads are protected with; only its name is ever shown."""

    name: str
    secret: bytes

    def __repr__(self) -> str:
        return f"<PayloadKey {self.name}>"

    @classmethod
    def read(cls, text: str) -> PayloadKey:
        """
        Read ``name:base64``; `new_key` returns such texts.

        Raises:
            ValueError: It is none; the message does not have it.
        """
        name, _, encoded = text.partition(":")
        try:
            secret = base64.b64decode(encoded, validate=True)
        except ValueError:
            secret = b""
        if not _NAME.fullmatch(name) or len(secret) != KEY_BYTES:
            raise ValueError(
                "a key is a name of letters, digits, dots and dashes, a colon, and 32 "
                "bytes in base64, which one is not; kue key new prints one"
            )
        return cls(name, secret)

    def derived(self, purpose: bytes) -> bytes:
        """Return another key, so that no two algorithms and values share one."""
        return hmac.digest(self.secret, b"kue " + purpose, "sha256")


def new_key(name: str) -> str:
    """
    Return a new random key as text, for ``payload_keys``.

    Raises:
        ValueError: The name cannot be one.
    """
    text = f"{name}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"the name of a key has up to 40 letters, digits, dots and dashes, "
            f"which {name!r} is not"
        )
    return text
