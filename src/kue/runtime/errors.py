"""
Errors of the runtime, in addition to `ValueError` and `TypeError`.

* KueError
  + RuntimeClosed         the runtime, or the context, is closed or was never opened
  + UnknownDeployment     no verticle is deployed under that id
  + AlreadyUndeployed     the verticle is being undeployed
  + LockTimedOut          the lock was not free in time; also a TimeoutError
"""

from __future__ import annotations

from kue.model.errors import KueError


class RuntimeClosed(KueError):
    """The runtime, or one of its contexts, is closed or was never opened."""


class UnknownDeployment(KueError):
    """No verticle is deployed under this id."""

    def __init__(self, deployment_id: str) -> None:
        super().__init__(f"Unknown deployment {deployment_id!r}")
        self.deployment_id = deployment_id


class AlreadyUndeployed(KueError):
    """The verticle is being or was undeployed."""

    def __init__(self, deployment_id: str) -> None:
        super().__init__(f"Already undeployed: {deployment_id!r}")
        self.deployment_id = deployment_id


class LockTimedOut(KueError, TimeoutError):
    """The lock was not free in time."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Timed out waiting to get lock {name!r}")
        self.name = name
