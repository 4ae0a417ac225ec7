"""
Ciphers of payloads: HMAC-SHA256, AES-256-GCM and zlib, on bytes.

*context* is authenticated with a value, and is not part of what is returned.  A value
that does not belong to key and context is None.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import zlib
from typing import TYPE_CHECKING, Any

from kue.model.errors import ConfigError, PayloadRefused

if TYPE_CHECKING:
    from kue.model.payload_keys import PayloadKey

_MAC_BYTES = 32
#: Half of it makes the key of a value from the key, half of it is the nonce.
_SALT_BYTES = 24


def signed(key: PayloadKey, body: bytes, context: bytes) -> bytes:
    return _mac(key, body, context) + body


def checked(key: PayloadKey, body: bytes, context: bytes) -> bytes | None:
    mac, value = body[:_MAC_BYTES], body[_MAC_BYTES:]
    return value if hmac.compare_digest(mac, _mac(key, value, context)) else None


def _mac(key: PayloadKey, body: bytes, context: bytes) -> bytes:
    # The digest has a fixed length: no two pairs of context and value run together.
    text = hashlib.sha256(context).digest() + body
    return hmac.digest(key.derived(b"sign"), text, "sha256")


def encrypted(key: PayloadKey, body: bytes, context: bytes) -> bytes:
    salt = secrets.token_bytes(_SALT_BYTES)
    cipher, nonce = _cipher(key, salt)
    sealed: bytes = cipher.encrypt(nonce, body, context)
    return salt + sealed


def decrypted(key: PayloadKey, body: bytes, context: bytes) -> bytes | None:
    cipher, nonce = _cipher(key, body[:_SALT_BYTES])
    from cryptography.exceptions import InvalidTag

    try:
        opened: bytes = cipher.decrypt(nonce, body[_SALT_BYTES:], context)
    except (InvalidTag, ValueError):
        return None
    return opened


def _cipher(key: PayloadKey, salt: bytes) -> tuple[Any, bytes]:
    """Return the cipher of one value: random nonces may never meet under one key."""
    half = _SALT_BYTES // 2
    return aes(key.derived(b"encrypt" + salt[:half])), salt[half:]


def aes(secret: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigError(
            "encrypted payloads need the package cryptography; install it with "
            "pip install 'kue[encryption]'"
        ) from None
    return AESGCM(secret)


def unpacked(body: bytes, limit: int) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        value = unpacking.decompress(body, limit + 1)
    except zlib.error:
        raise PayloadRefused("damaged: it cannot be decompressed") from None
    if len(value) > limit:
        raise PayloadRefused(
            f"compressed, and has more than {limit:,} bytes; raise max_data if it may"
        )
    if not unpacking.eof:
        raise PayloadRefused("damaged: it is compressed, and ends too early")
    return value
