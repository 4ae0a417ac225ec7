"""A worker: its lanes, heartbeat and maintenance, from start to graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVarTuple

import msgspec

from kue.aio.retry import MAX_BUGS, StoreRetry
from kue.aio.tasks import cancel_all, wait_for_first
from kue.model.alerts import RESERVED
from kue.model.errors import ConfigError, StoreError, StoreFull, StoreUnavailable
from kue.model.job import State
from kue.model.names import check_path_name
from kue.worker import flow_jobs, webhook
from kue.worker.alert_monitor import AlertMonitor
from kue.worker.failure_reporter import FailureOptions, FailureReporter
from kue.worker.fixed_name import wait_for_name
from kue.worker.heartbeat import HandleOrder, Heartbeat
from kue.worker.idle_wait import IdleWait
from kue.worker.lane import LOOPS_PER_LANE, Lane, LaneContext, Processor
from kue.worker.log_capture import captured
from kue.worker.lost_endings import release_lost, unknown_runs
from kue.worker.maintenance import Maintenance, check_store
from kue.worker.metrics import TimingReporter
from kue.worker.poison_pills import PoisonPills
from kue.worker.run_services import RunServices
from kue.worker.shared_context import SharedContext, Sleep
from kue.worker.slots import SlotBudget, SlotClaimant
from kue.worker.stacks import stacks
from kue.worker.status import StatusCollector, WorkerLoopMonitor
from kue.worker.unhandled_types import warn_of_unhandled

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from kue.aio.retry import OnError
    from kue.model.alerts import AlertNotice
    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.worker.run_services import FlowAccess

logger = logging.getLogger(__name__)

Ts = TypeVarTuple("Ts")
#: Returns processors for those of the queues given that the worker is to serve.
FindQueues: TypeAlias = Callable[[Iterable[str]], list[Processor]]

GRACE_SECONDS = 30.0
IDLE_GRACE_SECONDS = 1.0
#: How often a worker that serves queues by pattern looks for new ones.
FIND_SECONDS = 2.0
#: Slots that its queues share in strict order, if it has none yet.
FIRST_SLOTS = 100
#: How often a worker that stops by itself checks whether it is done.
BURST_SECONDS = 0.05


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a worker."""

    #: Its name in the store; None for a generated one.
    name: str | None = None
    #: How long runs may go on after `Worker.stop`, in seconds.
    grace: float = GRACE_SECONDS
    #: Slots that all types share; None when each has its own.
    concurrency: int | None = None
    #: Types get slots in the order given, not by weight; without *concurrency* they
    #: share as many as the type with the most has.
    strict: bool = False
    #: Stop when there is nothing left to do.
    burst: bool = False
    #: Stop after this many runs.
    max_jobs: int | None = None
    #: Another process renews the lease of this one.
    supervised: bool = False


class Worker:
    """Runs jobs until it is stopped; nothing else ends its loops."""

    def __init__(
        self,
        store: Store,
        processors: Sequence[Processor],
        settings: Settings,
        options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
        *,
        find_queues: FindQueues | None = None,
        failures: FailureOptions = FailureOptions(),  # noqa: B008 - immutable
        on_alerts: Callable[[Sequence[AlertNotice]], None] | None = None,
        on_error: OnError | None = None,
        flow_access: FlowAccess | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if not processors and find_queues is None:
            raise ConfigError(
                "there is nothing to work on: register a handler with @q.task or "
                "q.process(type, n, handler) first"
            )
        self.name = check_path_name(options.name or _new_name(), what="worker name")
        self.processors = tuple(processors)
        self._store = store
        self._store_retry = StoreRetry(store.name, max_bugs=MAX_BUGS, on_error=on_error)
        self._settings = settings
        self._options = options
        self._find_queues = find_queues
        self._failures = failures
        self._on_alerts = on_alerts
        self._flow_access = flow_access
        self._lanes: list[Lane] = []
        self._context = SharedContext(
            self.name, store, self._store_retry, settings, self._lanes, sleep
        )
        self._reporter = FailureReporter(store, self._store_retry, failures.types)
        self.status = StatusCollector(
            self._context, self.processors, self._shared_slots()
        )
        self._stopping = asyncio.Event()
        #: It stops without haste: see `finish`.
        self._is_finishing = False
        #: Stop now, without further grace.
        self._stopping_now = asyncio.Event()
        self._ended = asyncio.Event()
        #: What ended one of its tasks, and so stopped the worker.
        self._bug: Exception | None = None
        #: What its lanes share, while it runs.
        self._lane_context: LaneContext | None = None
        self._heartbeat: Heartbeat | None = None
        #: Called when a job of a flow was claimed; it may be called again.
        self._on_flow: Callable[[], None] = lambda: None
        #: Called when a webhook may be waiting; it may be called again.
        self._on_webhooks: Callable[[], None] = lambda: None
        #: A lane has no work for the moment.
        self._became_idle = asyncio.Event()
        #: It was ordered to stop through the store, and is not to be replaced.
        self.is_ordered_to_stop = False
        #: Called then, instead of `stop`, where the supervisor counts the grace.
        self.on_stop_order: Callable[[], None] | None = None

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def running(self) -> int:
        """How many jobs are running."""
        return sum(len(lane.runs) for lane in self._lanes)

    def loads(self) -> dict[str, tuple[int, int]]:
        """Return by type how many jobs are running, and how many runs have ended."""
        return {lane.type: (len(lane.runs), lane.done) for lane in self._lanes}

    @property
    def _unfinished(self) -> int:
        return self.running + self._unsettled

    @property
    def _unsettled(self) -> int:
        return sum(lane.unsettled for lane in self._lanes)

    @property
    def done(self) -> int:
        """How many runs of the program's own jobs have ended."""
        return sum(lane.done for lane in self._own_lanes)

    @property
    def types(self) -> list[str]:
        """The types, or queues, that it serves."""
        return [lane.type for lane in self._own_lanes]

    @property
    def _own_lanes(self) -> list[Lane]:
        return [one for one in self._lanes if not one.type.startswith(RESERVED)]

    async def is_quiet(self) -> bool:
        """Return whether it has nothing to do until time passes or jobs are added."""
        heartbeat = self._heartbeat
        if heartbeat is None or not heartbeat.is_answered:
            return False
        is_paused = not heartbeat.may_claim
        for lane in self._lanes:
            if lane.is_busy or lane.unsettled or not (lane.is_idle or is_paused):
                return False
        served = {lane.type for lane in self._lanes} | flow_jobs.TYPES
        if not is_paused and await self._store.wait([*served], 0):
            return False
        return await self._reporter.is_done()

    async def until_stopping(self) -> None:
        """Wait until it was asked to stop."""
        await self._stopping.wait()

    def stop(self) -> None:
        """
        Claim no more jobs; `run` returns once the running ones have ended.

        After the grace they are requeued, without spending an attempt.  A second call
        requeues them at once.
        """
        self._is_finishing = False
        if self.is_stopping:
            self._requeue_all()
            self._stopping_now.set()
        for lane in self._lanes:
            lane.stop()
        self._stopping.set()

    def finish(self) -> None:
        """
        Stop as `stop` does, but also run the jobs that claims in flight still bring.

        For a worker that nobody waits for: not a single job is requeued.
        """
        if self.is_stopping:
            return
        self._is_finishing = True
        for lane in self._lanes:
            lane.stop(runs_late=True)
        self._stopping.set()

    def handle_stop_order(self) -> None:
        """Stop because of an order through the store; a second order does nothing."""
        if self.is_ordered_to_stop:
            return
        logger.info("worker %s was ordered to stop", self.name)
        self.is_ordered_to_stop = True
        if self.on_stop_order is not None:
            self.on_stop_order()
        elif not self.is_stopping:
            self.stop()

    async def run(self) -> None:
        """
        Work until `stop`.  Cancelling it requeues all running jobs at once.

        Raises:
            StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
            Exception: A bug stopped the worker, as `stop` does.
        """
        try:
            # Everything that needs the store waits while it is unavailable; a store
            # that is not fit must raise at once.
            with contextlib.suppress(StoreUnavailable, StoreFull):
                await self._store.open()
            if await self._may_use_name():
                await self._work()
        finally:
            self._ended.set()
        if self._bug is not None:
            raise self._bug

    async def _may_use_name(self) -> bool:
        """Wait until its name is free; return False if it is stopped before that."""
        if self._options.name is None:
            return True
        waiting = asyncio.create_task(wait_for_name(self._context), name="kue name")
        try:
            await wait_for_first(waiting, self._stopping.wait())
            if waiting.done():
                waiting.result()
            return waiting.done()
        finally:
            await cancel_all([waiting])

    async def ended(self) -> None:
        """Return once `run` is over."""
        await self._ended.wait()

    async def _work(self) -> None:
        logger.info("worker %s started on %s", self.name, self._store.name)
        async with AsyncExitStack() as stack:
            run_services = RunServices(self._store, self._settings, self._flow_access)
            stack.push_async_callback(run_services.close)
            idle_wait, poison_pills = self._build_lanes(run_services)
            handle_order = self._order_handler(run_services)
            stack.push_async_callback(self._deregister)
            timings = TimingReporter(self._context)
            stack.push_async_callback(timings.close)
            maintenance = Maintenance(self._context, self._reporter.wake)
            heartbeat = self._heartbeat = Heartbeat(
                self._context,
                info=self.status,
                handle_order=handle_order,
                on_overdue=maintenance.wake,
            )
            if not self._options.supervised:
                await stack.enter_async_context(heartbeat.thread())
            if self._settings.capture:
                stack.enter_context(captured())
            self._start_loop_monitor(stack)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            # These run until all runs are settled.
            services = [
                self._start(group, "heartbeat", heartbeat.run),
                self._start(group, "maintenance", maintenance.run),
                self._start(group, "timings", timings.run),
                self._start(group, "store check", check_store, self._context),
                self._start(group, "lost endings", release_lost, self._context),
                self._start(group, "failures", self._reporter.run),
            ]
            await self._run_lanes(group, idle_wait, poison_pills, services)
        logger.info("worker %s stopped", self.name)

    def _start_loop_monitor(self, stack: AsyncExitStack) -> None:
        limit = self._settings.blocked
        if limit:
            loop_monitor = self.status.loop_monitor = WorkerLoopMonitor(limit / 1000)
            loop_monitor.start()
            stack.callback(loop_monitor.stop)

    def _start(
        self,
        group: asyncio.TaskGroup,
        name: str,
        run: Callable[[*Ts], Coroutine[Any, Any, None]],
        *args: *Ts,
    ) -> asyncio.Task[None]:
        work = self._stop_on_bug(name, run, *args)
        return group.create_task(work, name=f"kue {name}")

    async def _stop_on_bug(
        self, name: str, run: Callable[[*Ts], Coroutine[Any, Any, None]], *args: *Ts
    ) -> None:
        """Stop the worker if *run* fails; what else it does goes on until then."""
        try:
            await run(*args)
        except Exception as exc:
            logger.critical("worker %s stops: %s failed: %r", self.name, name, exc)
            self._bug = self._bug or exc
            if not self.is_stopping:
                self.stop()

    async def _run_lanes(
        self,
        group: asyncio.TaskGroup,
        idle_wait: IdleWait,
        poison_pills: PoisonPills,
        services: list[asyncio.Task[None]],
    ) -> None:
        loops = [task for lane in self._lanes for task in self._start_lane(group, lane)]

        def handle(processor: Processor) -> None:
            if not self.is_stopping:
                loops.extend(self._start_lane(group, self._add_own_lane(processor)))

        def handle_webhooks() -> None:
            if not any(lane.type == webhook.TYPE for lane in self._lanes):
                processor = webhook.processor(self._store, self._settings)
                handle(processor)
                self.status.add(processor)

        self._on_webhooks = handle_webhooks
        if self._failures.hooks is not None:
            handle(self._failures.hooks)

        def handle_flow_jobs() -> None:
            self._on_flow = lambda: None
            if not any(lane.type in flow_jobs.TYPES for lane in self._lanes):
                for processor in flow_jobs.processors(self._store):
                    handle(processor)

        self._on_flow = handle_flow_jobs
        alert_monitor = AlertMonitor(
            self._store, on_notices=self._on_alerts, on_webhooks=handle_webhooks
        )
        # These end when the worker is stopped, before the runs.
        helpers = [
            self._start(
                group,
                "unhandled types",
                warn_of_unhandled,
                self._store,
                self._context.lease_seconds,
                self._context.sleep,
            ),
            self._start(group, "idle wait", idle_wait.run),
            self._start(group, "alerts", alert_monitor.run, self._context.sleep),
            self._start(
                group,
                "flow jobs",
                flow_jobs.handle_when_used,
                self._store,
                handle_flow_jobs,
                self._context.sleep,
            ),
            self._start(group, "stop when done", self._stop_when_done),
            self._start(group, "new queues", self._serve_new_queues, group, loops),
        ]
        grace = 0.0
        try:
            await self._stopping.wait()
            grace = self._options.grace
        finally:
            # Also when cancelled: waiting for the lease to run out would be slower.
            for lane in self._lanes:
                lane.stop(runs_late=self._is_finishing and grace > 0)
            _cancel(helpers)
            await self._drain(loops, grace)
            poison_pills.close()
            idle_wait.cancel()
            # The last to end: until here our jobs must not be reclaimed.
            _cancel(services)

    def _start_lane(
        self, group: asyncio.TaskGroup, lane: Lane
    ) -> list[asyncio.Task[None]]:
        return [
            self._start(group, f"{lane.type} {number}", lane.run_loop)
            for number in range(LOOPS_PER_LANE)
        ]

    def _add_own_lane(self, processor: Processor) -> Lane:
        """Add a lane for jobs of Kue itself, with its own slots."""
        assert self._lane_context is not None
        claimant = SlotClaimant(processor.slots)
        context = self._lane_context._replace(budget=SlotBudget([claimant]))
        return self._add_lane(processor, claimant, context)

    def _add_lane(
        self, processor: Processor, claimant: SlotClaimant, context: LaneContext
    ) -> Lane:
        lane = Lane(processor, claimant, context)
        self._lanes.append(lane)
        # Else the next heartbeat resumes it.
        if self._heartbeat is not None and self._heartbeat.may_claim:
            lane.resume()
        return lane

    async def _serve_new_queues(
        self, group: asyncio.TaskGroup, loops: list[asyncio.Task[None]]
    ) -> None:
        """Add a lane for each queue that appears in the store and is to be served."""
        while self._find_queues is not None:
            names = await self._store_retry.persist("new queues", self._store.types)
            for processor in await self._unserved(names):
                loops.extend(self._start_lane(group, self._add_queue_lane(processor)))
            await self._context.sleep(FIND_SECONDS)

    async def _unserved(self, names: Iterable[str]) -> list[Processor]:
        """Return processors of those queues that it is to serve, and does not yet."""
        if self._find_queues is None:
            return []
        served = {lane.type for lane in self._lanes}
        known = set(names) - served
        found = [one for one in self._find_queues(known) if one.type not in served]
        if not found:
            return []
        rules = await self._store_retry.persist("queues", self._store.failure_rules)
        letters = {rule.dead_letter for rule in rules.values()}
        # Without a handler, dead letters wait to be replayed.
        return [
            one for one in found if one.type in one.tasks or one.type not in letters
        ]

    def _add_queue_lane(self, processor: Processor) -> Lane:
        assert self._lane_context is not None
        logger.info("worker %s serves queue %s", self.name, processor.type)
        claimant = _claimant(processor)
        self._lane_context.budget.add(claimant)
        return self._add_lane(processor, claimant, self._lane_context)

    def _shared_slots(self) -> int | None:
        """Return how many slots types share; None when each has its own."""
        if self._options.concurrency is None and self._options.strict:
            # An order matters only among types that share slots.
            return max((one.slots for one in self.processors), default=FIRST_SLOTS)
        return self._options.concurrency

    def _build_lanes(self, run_services: RunServices) -> tuple[IdleWait, PoisonPills]:
        claimants = [_claimant(one) for one in self.processors]
        budget = SlotBudget(
            claimants,
            total=self._shared_slots(),
            runs=self._options.max_jobs,
            strict=self._options.strict,
            may_grow=self._find_queues is not None,
        )
        idle_wait = IdleWait(
            self._context,
            self._became_idle,
            claims=not budget.is_tight and self._options.max_jobs is None,
        )
        poison_pills = PoisonPills(self._context, idle_wait.interrupt)
        context = LaneContext(
            worker=self._context,
            run_services=run_services,
            budget=budget,
            poison_pills=poison_pills,
            on_idle=self._became_idle.set,
            # Unless slots are tight, no lane waits for those of others.
            on_freed=self._look_again if budget.is_tight else lambda: None,
            on_paused=idle_wait.interrupt,
            on_failed=self._reporter.note if self._failures.types else None,
            on_flow=lambda: self._on_flow(),
        )
        self._lane_context = context
        # Idle wait and poison pills have the same list: lanes and they need each other.
        self._lanes += [
            Lane(processor, claimant, context)
            for processor, claimant in zip(self.processors, claimants, strict=True)
        ]
        return idle_wait, poison_pills

    def _look_again(self) -> None:
        for lane in self._lanes:
            lane.look_again()

    async def _stop_when_done(self) -> None:
        """Stop when there is nothing left to do, if the options ask for it."""
        if not self._options.burst and self._options.max_jobs is None:
            return
        while not self._is_spent and not await self._is_drained():
            await self._context.sleep(BURST_SECONDS)
        self.stop()

    @property
    def _is_spent(self) -> bool:
        """Whether as many runs have begun as `max_jobs` allows."""
        most = self._options.max_jobs
        # Jobs of Kue itself do not count.
        return most is not None and _begun(self._own_lanes) >= most

    async def _is_drained(self) -> bool:
        """Return whether a burst has nothing left to do."""
        if not self._options.burst or not all(lane.is_idle for lane in self._lanes):
            return False
        begun = _begun(self._lanes)
        # Hooks and dead letters of what failed are work, too.  They come first: what a
        # report adds is counted after it.
        if not await self._store_retry.persist("burst", self._reporter.is_done):
            return False
        counts = await self._store_retry.persist("burst", self._store.count)
        # A limit may hold back waiting jobs; they are work all the same.
        waiting = {name for name, count in counts.items() if count[State.WAITING]}
        pauses = await self._store_retry.persist("burst", self._store.paused)
        paused = {pause.type for pause in pauses if pause.worker is None}
        if None in paused:
            return True
        if waiting & flow_jobs.TYPES:
            self._on_flow()
        if webhook.TYPE in waiting:
            self._on_webhooks()
        served = {lane.type for lane in self._lanes}
        served |= {one.type for one in await self._unserved(waiting)}
        if waiting & served - paused:
            return False
        # Jobs that a claim has got, or that began since, may add jobs.
        if any(counts[name][State.ACTIVE] for name in served & counts.keys()):
            unknown = await self._store_retry.persist(
                "burst", partial(unknown_runs, self._context)
            )
            if unknown:
                return False
        return _begun(self._lanes) == begun

    async def _drain(self, loops: list[asyncio.Task[None]], grace: float) -> None:
        """Let runs end, requeue the others, settle all of them."""
        if not loops:
            # It served queues by pattern, and found none.
            return
        # Without runs there is only a claim in flight; an unavailable store must not
        # delay us for that.
        may_take = self._unfinished or self._is_finishing
        timeout = grace if may_take else IDLE_GRACE_SECONDS
        await wait_for_first(
            asyncio.wait(loops), self._stopping_now.wait(), timeout=timeout
        )
        working = {loop for loop in loops if not loop.done()}
        if working:
            self._requeue_all()
            # After the lease the store reclaims everything by itself.
            lease = self._context.lease_seconds
            timeout = lease if self._unfinished else IDLE_GRACE_SECONDS
            _, working = await asyncio.wait(working, timeout=timeout)
        if working and self._unfinished:
            # Running a job twice is better than losing it: the store will reclaim it.
            logger.error(
                "worker %s leaves %d jobs running and %d outcomes unwritten; "
                "the jobs will run again",
                self.name,
                self.running,
                self._unsettled,
            )
        _cancel(working)

    def _requeue_all(self) -> None:
        for lane in self._lanes:
            lane.requeue_all()

    async def _deregister(self) -> None:
        try:
            await self._store.leave(self.name)
        except StoreError as exc:
            logger.warning("worker %s could not deregister: %s", self.name, exc)

    def _order_handler(self, run_services: RunServices) -> HandleOrder:
        """Return the function that handles orders, whichever thread receives them."""
        loop = asyncio.get_running_loop()

        async def handle_order(store: Store, order: str) -> None:
            if order == "stop":
                loop.call_soon_threadsafe(self.handle_stop_order)
            elif order == "stacks":
                runs = [run for lane in self._lanes for run in lane.runs]
                text = stacks(loop, runs, run_services.threads.contexts())
                try:
                    await store.write_stacks(self.name, text)
                except StoreError as exc:
                    logger.warning("the stacks could not be written: %s", exc)

        return handle_order


def _begun(lanes: Iterable[Lane]) -> int:
    """Return how many runs of *lanes* have begun."""
    return sum(lane.begun for lane in lanes)


def _claimant(processor: Processor) -> SlotClaimant:
    return SlotClaimant(processor.slots, processor.weight, rank=processor.rank)


def _new_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
