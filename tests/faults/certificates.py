"""Certificates for one test: an authority of its own and what it signed."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a folder; nobody else knows it."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self.certificate = directory / f"{name}.crt"
        self._key = directory / f"{name}.key"
        self._openssl(
            "req", "-x509", "-days", "2", "-subj", f"/CN={name}",
            *self._new_key(self._key), "-out", self.certificate,
        )  # fmt: skip

    def sign(self, host: str) -> tuple[Path, Path]:
        """Return certificate and key of a server at *host*, an IP address."""
        certificate = self._directory / f"{self._name}-{host}.crt"
        key = self._directory / f"{self._name}-{host}.key"
        self._openssl(
            "req", "-x509", "-days", "2", "-subj", f"/CN={host}",
            "-addext", f"subjectAltName=IP:{host}",
            "-CA", self.certificate, "-CAkey", self._key,
            *self._new_key(key), "-out", certificate,
        )  # fmt: skip
        return certificate, key

    @staticmethod
    def _new_key(path: Path) -> list[str]:
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        return [*curve, "-nodes", "-keyout", str(path)]

    @staticmethod
    def _openssl(*arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
