"""
Failover: keeps what this node runs in step with what is assigned to it.

The cluster records which verticles are assigned to this node.  However that changed,
each pass starts what is missing and stops what is another node's.  That covers every
case: a dead node is taken over from, a live node that was considered dead stops what
others took, and a group that lost its quorum stops.

All of it happens in the loop that opened the runtime.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.loop_calls import await_in
from kue.aio.tasks import cancel_all
from kue.bus.failover_duties import MAX_DUTIES, MAX_DUTY, AssignmentResult
from kue.model.errors import BadPayload, StoreError
from kue.model.names import check_name
from kue.runtime.deployment import DeploymentOptions
from kue.runtime.errors import RuntimeClosed
from kue.runtime.verticle import find_class, known_class

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine

    from kue.bus import ClusterManager
    from kue.runtime.deployment import Deployer
    from kue.runtime.verticle import Source

DEFAULT_GROUP = "__DEFAULT__"
GRACE_SECONDS = 1.0
MAX_QUORUM = 10_000
MAX_GRACE = 3600.0
logger = logging.getLogger(__name__)

#: Seconds between two passes, if nothing happens.
PASS_SECONDS = 1.0
#: The same while a node is gone, but not for long enough.
_SOON_SECONDS = 0.2
#: A node that has not reached the group for so many seconds counts only itself.
UNREACHABLE_SECONDS = 5.0
#: Seconds for a verticle to start on the node that takes it over.
START_SECONDS = 120.0
_RESIGN_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HA:
    """The group within which verticles fail over, and when."""

    #: Nodes of one group take over from each other, and from no others.
    group: str = DEFAULT_GROUP
    #: How many nodes the group must have for its verticles to run.
    quorum: int = 1
    #: Seconds for which a node must be gone before it is taken over from.
    grace: float = GRACE_SECONDS

    def __post_init__(self) -> None:
        check_name(self.group, what="the name of a group")
        if not 1 <= self.quorum <= MAX_QUORUM:
            raise ValueError(f"quorum must be 1 to {MAX_QUORUM:,}, not {self.quorum}")
        if not 0 <= self.grace <= MAX_GRACE:
            raise ValueError(f"grace must be 0 to {MAX_GRACE} s, not {self.grace}")


class DeploymentRecord(DeploymentOptions, frozen=True, kw_only=True):
    """A verticle by name, and how it is deployed: what another node deploys it from."""

    verticle: str


class Failover:
    """The verticles assigned to this node."""

    def __init__(self, deployer: Deployer, cluster: ClusterManager, ha: HA) -> None:
        self._deployer = deployer
        self._cluster = cluster
        self._ha = ha
        self._assignments = cluster.roster(ha.group)
        self._loop = asyncio.get_running_loop()
        #: Held while assignments are read and applied.
        self._lock = asyncio.Lock()
        self._wakeup = asyncio.Event()
        #: The assignments of this node.
        self._duties: dict[str, DeploymentRecord] = {}
        self._running: set[str] = set()
        #: Duties that are being started or stopped.
        self._busy: dict[str, asyncio.Task[None]] = {}
        #: Duties that may have been recorded before their deployment failed.
        self._orphans: set[str] = set()
        self._nodes = 0
        self._is_waiting = False
        self._seen_at = time.monotonic()
        self._is_unreachable = False
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    @property
    def has_quorum(self) -> bool:
        """Whether the group was large enough when it was last seen."""
        return self._nodes >= self._ha.quorum

    async def open(self) -> None:
        """Join the group, and start the passes."""
        self._cluster.watch(self._wakeup.set)
        await self._refresh()
        self._wakeup.set()
        self._task = asyncio.create_task(self._run(), name="kue ha")

    async def close(self) -> None:
        """Leave the group; no node takes over what this one has deployed."""
        await await_in(self._loop, self._close())

    async def deploy(self, source: Source, options: DeploymentOptions) -> str:
        """Deploy what outlives this node; below the quorum, only record it."""
        if self._deployer.parent() is not None:
            raise ValueError(
                "a child ends with its parent and cannot fail over; "
                "deploy the parent with ha=True"
            )
        return await await_in(self._loop, self._deploy(_record_of(source, options)))

    def has(self, deployment_id: str) -> bool:
        """Return whether it is assigned to this node."""
        return deployment_id in self._duties

    async def strike(self, deployment_id: str) -> bool:
        """End a duty; return whether it runs and is left to be undeployed."""
        return await await_in(self._loop, self._strike(deployment_id))

    # -- passes ----------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._wait()
            try:
                await self._refresh()
            except StoreError as exc:
                self._mark_unreachable(exc)
            except Exception:
                # The passes must go on.
                logger.exception("the assignments of the group could not be applied")
            self._reconcile()

    async def _wait(self) -> None:
        seconds = _SOON_SECONDS if self._is_waiting else PASS_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()
        self._wakeup.clear()

    async def _refresh(self) -> None:
        """Read the size of the group, and the assignments of this node."""
        async with self._lock:
            ha = self._ha
            for duty_id in [*self._orphans]:
                await self._assignments.strike(duty_id)
                self._orphans.discard(duty_id)
            view = await self._assignments.survey(quorum=ha.quorum, grace=ha.grace)
            if view is None:
                # The cluster considers this node dead, and it will rejoin soon.
                return
            self._mark_reachable()
            await self._take_over(view.duties - self._duties.keys())
            await self._keep(self._duties.keys() - view.duties)
            had_quorum = self.has_quorum
            self._nodes, self._is_waiting = view.nodes, view.is_waiting
        if self._duties and had_quorum != self.has_quorum:
            verb = "has" if self.has_quorum else "lost"
            logger.warning("the group %s %s its quorum", self._ha.group, verb)

    async def _take_over(self, ids: Collection[str]) -> None:
        """Take over duties of other nodes."""
        for duty_id, record in (await self._assignments.read(ids)).items():
            try:
                self._duties[duty_id] = _decoder.decode(record)
            except msgspec.DecodeError:
                logger.exception("the verticle %s cannot be read", duty_id)
                await self._assignments.hand_back(duty_id)

    async def _keep(self, ids: Collection[str]) -> None:
        """Keep duties that no other node holds, as after a Redis that lost data."""
        for duty_id in ids:
            record = self._duties[duty_id]
            entry = await self._assignments.enter(duty_id, _encoder.encode(record))
            if entry is not AssignmentResult.OK:
                del self._duties[duty_id]
                logger.warning(
                    "%s %s is no longer assigned to this node: %s",
                    record.verticle,
                    duty_id,
                    entry,
                )

    def _mark_reachable(self) -> None:
        self._seen_at = time.monotonic()
        if self._is_unreachable:
            self._is_unreachable = False
            logger.warning("the group %s can be reached again", self._ha.group)

    def _mark_unreachable(self, error: StoreError) -> None:
        if not self._is_unreachable:
            self._is_unreachable = True
            logger.warning("the group %s is out of reach: %s", self._ha.group, error)
        if time.monotonic() - self._seen_at > UNREACHABLE_SECONDS:
            # Disconnected from the others, this is a group of one.
            self._nodes = min(self._nodes, 1)

    # -- starting and stopping -------------------------------------------------

    def _reconcile(self) -> None:
        """Start what is missing and stop what is not assigned."""
        wanted = self._duties.keys() if self.has_quorum else set()
        for duty_id in wanted - self._running - self._busy.keys():
            self._begin(duty_id, self._bring_up(duty_id, self._duties[duty_id]))
        for duty_id in self._running - wanted - self._busy.keys():
            self._begin(duty_id, self._bring_down(duty_id))

    def _begin(self, duty_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._busy[duty_id] = asyncio.create_task(work, name="kue ha verticle")
        task.add_done_callback(lambda _: self._end(duty_id))

    def _end(self, duty_id: str) -> None:
        del self._busy[duty_id]
        if not self._is_unreachable:
            self._wakeup.set()

    async def _bring_up(self, duty_id: str, record: DeploymentRecord) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                kind = known_class(record.verticle)
                await self._deployer.deploy(kind, record, deployment_id=duty_id)
        except RuntimeClosed:
            return
        except Exception:
            logger.exception("%s could not be started here", record.verticle)
            if self._deployer.has(duty_id):
                # It was started just when the timeout expired.
                await self._bring_down(duty_id)
            await self._hand_back(duty_id)
        else:
            self._running.add(duty_id)
            logger.info("%s %s runs on this node now", record.verticle, duty_id)

    async def _hand_back(self, duty_id: str) -> None:
        async with self._lock:
            try:
                await self._assignments.hand_back(duty_id)
            except StoreError:
                # It stays assigned, and the next pass tries again.
                return
            self._duties.pop(duty_id, None)

    async def _bring_down(self, duty_id: str) -> None:
        try:
            await self._deployer.undeploy(duty_id)
        except Exception:
            logger.exception("the verticle %s could not be stopped cleanly", duty_id)
        self._running.discard(duty_id)

    # -- called by users, in our loop ------------------------------------------

    async def _deploy(self, record: DeploymentRecord) -> str:
        if self._is_closed:
            raise RuntimeClosed("the runtime is closed")
        # An import may take long.
        kind = await asyncio.to_thread(find_class, record.verticle)
        await self._refresh()
        duty_id = str(uuid.uuid4())
        if not self.has_quorum:
            await self._enter(duty_id, record)
            logger.warning(
                "%s waits: the group has %d nodes of %d",
                record.verticle,
                self._nodes,
                self._ha.quorum,
            )
            return duty_id
        await self._deployer.deploy(kind, record, deployment_id=duty_id)
        try:
            await self._enter(duty_id, record)
        except BaseException:
            self._orphans.add(duty_id)
            await self._deployer.undeploy(duty_id)
            raise
        return duty_id

    async def _enter(self, duty_id: str, record: DeploymentRecord) -> None:
        """Record it, and be assigned to it from now on."""
        async with self._lock:
            entry = await self._assignments.enter(duty_id, _encoder.encode(record))
            if entry is AssignmentResult.FULL:
                raise ValueError(
                    f"the group {self._ha.group!r} has {MAX_DUTIES:,} verticles, "
                    "which is the maximum"
                )
            self._duties[duty_id] = record
            if self._deployer.has(duty_id):
                self._running.add(duty_id)

    async def _strike(self, duty_id: str) -> bool:
        async with self._lock:
            await self._assignments.strike(duty_id)
            self._duties.pop(duty_id, None)
        busy = self._busy.get(duty_id)
        if busy is not None:
            if duty_id not in self._running:
                busy.cancel()
            await asyncio.wait([busy])
        self._running.discard(duty_id)
        return self._deployer.has(duty_id)

    async def _close(self) -> None:
        self._is_closed = True
        await cancel_all([self._task])
        await cancel_all(self._busy.values())
        try:
            async with asyncio.timeout(_RESIGN_SECONDS):
                await self._assignments.resign()
        except (StoreError, TimeoutError) as exc:
            logger.warning(
                "the group %s could not be notified that this node leaves, and takes "
                "over from it: %s",
                self._ha.group,
                exc,
            )


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(DeploymentRecord)


def _record_of(source: Source, options: DeploymentOptions) -> DeploymentRecord:
    """Return the record of a deployment; refuse what another node could not make."""
    if not isinstance(source, str):
        raise ValueError(
            f"{source!r} cannot fail over to another process; name it as 'module:Class'"
        )
    record = DeploymentRecord(verticle=source, **msgspec.structs.asdict(options))
    size = len(_encoder.encode(record))
    if size > MAX_DUTY:
        raise BadPayload(
            "config",
            f"makes {size:,} bytes, and the limit for failover is {MAX_DUTY:,}",
        )
    return record
