"""The record of a deployment, from which another node can deploy the verticle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from kue.bus.assignments import MAX_DUTY
from kue.model.errors import BadPayload
from kue.runtime.deployment import DeploymentOptions

if TYPE_CHECKING:
    from kue.runtime.verticle import Source


class DeploymentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A verticle by name, and how it is deployed."""

    verticle: str
    config: dict[str, Any] = {}
    instances: int = 1
    worker: bool = False
    pool: str | None = None
    pool_size: int = 20
    pool_limit: float | None = None

    @classmethod
    def of(cls, source: Source, options: DeploymentOptions) -> Self:
        """
        Return the record of what is to be deployed.

        Raises:
            ValueError: Another process could not create it.
        """
        if not isinstance(source, str):
            raise ValueError(
                f"{source!r} cannot fail over to another process; "
                "name it as 'module:Class'"
            )
        return cls(
            verticle=source,
            config=options.copy_config(),
            instances=options.instances,
            worker=options.worker,
            pool=options.pool,
            pool_size=options.pool_size,
            pool_limit=options.pool_limit,
        )

    def options(self) -> DeploymentOptions:
        rest = msgspec.structs.asdict(self)
        del rest["verticle"]
        return DeploymentOptions(**rest)

    def encode(self) -> bytes:
        """
        Return it as JSON.

        Raises:
            BadPayload: Its config is too large for a record.
        """
        encoded = _encoder.encode(self)
        if len(encoded) > MAX_DUTY:
            raise BadPayload(
                "config",
                f"makes {len(encoded):,} bytes, and the limit for failover is "
                f"{MAX_DUTY:,}",
            )
        return encoded

    @staticmethod
    def decode(record: bytes) -> DeploymentRecord:
        """
        Decode what `encode` encoded.

        Raises:
            msgspec.DecodeError: It is not a record.
        """
        return _decoder.decode(record)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(DeploymentRecord)
