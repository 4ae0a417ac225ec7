"""
Passwords: hashed with scrypt, and never kept or told otherwise.

A hash carries what it was made with, so that the cost can be raised later and old ones
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
#: Hashes made at once in one process: each takes a core and 16 MB.
_AT_ONCE = 2


class PasswordHasher(NamedTuple):
    """What a hash costs: 128 × n × r bytes of memory, p times."""

    n: int = 2**14
    r: int = 8
    p: int = 5

    def hash(self, password: str) -> str:
        """
        Return what to keep of *password*.

        Raises:
            ValueError: It is too short or too long.
        """
        check_password(password)
        salt = secrets.token_bytes(_SALT_BYTES)
        return f"{self.form}:{salt.hex()}:{self._key(password, salt)}"

    @property
    def form(self) -> str:
        """How a hash begins that was made so."""
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


def matches(password: str, kept: str) -> bool:
    """Tell whether *kept* was made of *password*; takes as long either way."""
    try:
        kind, n, r, p, salt, key = kept.split(":")
        hasher = PasswordHasher(int(n), int(r), int(p))
        found = hasher._key(password[:MAX_LENGTH], bytes.fromhex(salt))
    except ValueError:
        return False
    return kind == "scrypt" and hmac.compare_digest(found, key)


def check_password(password: str) -> None:
    """Raise `ValueError` for a password that cannot be."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise ValueError(
            f"a password has {MIN_LENGTH} to {MAX_LENGTH:,} characters, "
            f"not {len(password):,}"
        )


class PasswordVerifier:
    """Checks passwords beside the event loop, a few at a time."""

    def __init__(self, hasher: PasswordHasher) -> None:
        self._hasher = hasher
        self._turns = asyncio.Semaphore(_AT_ONCE)
        # Of no password: nobody knows one, and to try is as much work.
        salt, key = secrets.token_hex(_SALT_BYTES), secrets.token_hex(_KEY_BYTES)
        self._decoy = f"{hasher.form}:{salt}:{key}"

    async def hash(self, password: str) -> str:
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, password: str, kept: str | None) -> bool:
        """
        Tell whether *password* is the one that *kept* was made of.

        Without one it takes the same time and is False: how long a login takes does
        not tell whether there is such a user.
        """
        async with self._turns:
            is_right = await asyncio.to_thread(matches, password, kept or self._decoy)
        return is_right and kept is not None
