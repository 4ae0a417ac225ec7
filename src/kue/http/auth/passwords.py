"""
Password hashing with scrypt; passwords are never stored or returned otherwise.

A hash contains its parameters, so that the cost can be raised later and old hashes can
still be checked.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import NamedTuple

MIN_LENGTH, MAX_LENGTH = 8, 1024
_SALT_BYTES = 16
_KEY_BYTES = 32
#: Hashes computed at once in one process: each takes a core and 16 MB.
_AT_ONCE = 2


class PasswordHasher(NamedTuple):
    """The cost of a hash: 128 × n × r bytes of memory, p times."""

    n: int = 2**14
    r: int = 8
    p: int = 5

    def hash(self, password: str) -> str:
        """Return the hash to store of *password*."""
        check_password(password)
        salt = secrets.token_bytes(_SALT_BYTES)
        return f"{self.prefix}:{salt.hex()}:{self._key(password, salt)}"

    @property
    def prefix(self) -> str:
        """The beginning of hashes with these parameters."""
        return f"scrypt:{self.n}:{self.r}:{self.p}"

    def _key(self, password: str, salt: bytes) -> str:
        key = hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=salt,
            n=self.n,
            r=self.r,
            p=self.p,
            # OpenSSL wants a little more than the algorithm takes.
            maxmem=2 * 128 * self.r * (self.n + self.p),
            dklen=_KEY_BYTES,
        )
        return key.hex()


def matches(password: str, hashed: str) -> bool:
    """Return whether *hashed* is a hash of *password*; takes as long either way."""
    try:
        kind, n, r, p, salt, key = hashed.split(":")
        hasher = PasswordHasher(int(n), int(r), int(p))
        computed = hasher._key(password[:MAX_LENGTH], bytes.fromhex(salt))
    except ValueError:
        return False
    return kind == "scrypt" and hmac.compare_digest(computed, key)


def check_password(password: str) -> None:
    """Raise `ValueError` for a password that is too short or too long."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise ValueError(
            f"a password has {MIN_LENGTH} to {MAX_LENGTH:,} characters, "
            f"not {len(password):,}"
        )


class PasswordVerifier:
    """Checks passwords in threads, a few at a time."""

    def __init__(self, hasher: PasswordHasher) -> None:
        self._hasher = hasher
        self._slots = asyncio.Semaphore(_AT_ONCE)
        # Matches no known password; checking it takes as long as a real one.
        salt, key = secrets.token_hex(_SALT_BYTES), secrets.token_hex(_KEY_BYTES)
        self._decoy = f"{hasher.prefix}:{salt}:{key}"

    async def hash(self, password: str) -> str:
        async with self._slots:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, password: str, hashed: str | None) -> bool:
        """
        Return whether *hashed* is a hash of *password*.

        Without a hash it is False after the same time: how long a login takes must not
        reveal whether there is such a user.
        """
        async with self._slots:
            is_right = await asyncio.to_thread(matches, password, hashed or self._decoy)
        return is_right and hashed is not None
