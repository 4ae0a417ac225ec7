"""Deploying and undeploying: whole or not at all, children first."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from kue.model.errors import BadPayload
from kue.runtime import (
    AlreadyUndeployed,
    Runtime,
    RuntimeClosed,
    UnknownDeployment,
    Verticle,
    current_context,
)
from tests.runtime.waiting import Lingering, Signal, SlowToStop, thread

ONE = Verticle()


class Recorder(Verticle):
    """Writes down what happens to it."""

    def __init__(self, seen: list[Any], name: str = "it") -> None:
        self.seen = seen
        self.name = name

    async def start(self) -> None:
        self.seen.append(f"{self.name} starts")

    async def stop(self) -> None:
        self.seen.append(f"{self.name} stops")


class Failing(Recorder):
    async def start(self) -> None:
        self.context.add_close_hook(lambda: self.seen.append(f"{self.name} closes"))
        await super().start()
        raise LookupError("no start")


class Stubborn(Recorder):
    async def stop(self) -> None:
        await super().stop()
        raise LookupError("no stop")


class Named(Verticle):
    """Deployed by its name."""


def not_a_verticle() -> Any:
    return "text"


def not_made() -> Verticle:
    raise LookupError("not made")


async def test_a_deployment_has_an_id_and_starts_before_deploy_returns(
    runtime: Runtime,
) -> None:
    seen: list[str] = []

    deployment_id = await runtime.deploy(Recorder(seen))

    assert uuid.UUID(deployment_id).version == 4
    assert seen == ["it starts"]
    assert [one.id for one in runtime.deployments] == [deployment_id]

    await runtime.undeploy(deployment_id)

    assert seen == ["it starts", "it stops"]
    assert runtime.deployments == ()
    for unknown in (deployment_id, "x"):
        with pytest.raises(UnknownDeployment, match=f"deployment '{unknown}'"):
            await runtime.undeploy(unknown)


async def test_handlers_and_timers_of_a_verticle_run_in_its_context(
    threaded: Runtime,
) -> None:
    class Ticking(Verticle):
        async def start(self) -> None:
            self.ticks = Signal()
            self.thread = thread()
            self.runtime.set_timer(0.001, self.tick)

        def tick(self, timer_id: int) -> None:
            self.ticks.tell((thread(), current_context() is self.context))

    plain, worker = Ticking(), Ticking()
    await threaded.deploy(plain)
    await threaded.deploy(worker, worker=True)

    assert plain.thread.startswith("kue-loop-")
    assert await plain.ticks.told() == (plain.thread, True)
    assert worker.thread.startswith("kue-worker-")
    ran_on, is_its_own = await worker.ticks.told()
    assert ran_on.startswith("kue-worker-")
    assert is_its_own


async def test_it_knows_its_runtime_its_deployment_and_its_config(
    runtime: Runtime,
) -> None:
    verticle = Verticle()

    deployment_id = await runtime.deploy(verticle, config={"port": 8080})

    assert verticle.runtime is runtime
    assert verticle.deployment_id == deployment_id
    assert verticle.config == {"port": 8080}
    with pytest.raises(ValueError, match="deployed before"):
        await runtime.deploy(verticle)


async def test_each_instance_has_its_own_copy_of_the_config(runtime: Runtime) -> None:
    config = {"ports": [1]}

    await runtime.deploy(Verticle, config=config, instances=2)
    one, other = [it.verticle for it in runtime.deployments[0].instances]
    one.config["ports"].append(2)

    assert other.config == config == {"ports": [1]}


async def test_a_verticle_is_found_by_name(runtime: Runtime) -> None:
    await runtime.deploy(f"{__name__}:Named")

    [deployment] = runtime.deployments
    assert isinstance(deployment.instances[0].verticle, Named)


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ("nothing", {}, ValueError, "write module:Class"),
        ("nowhere.to.be.found:Door", {}, ValueError, "no module 'nowhere'"),
        (f"{__name__}:Absent", {}, ValueError, "has no 'Absent'"),
        (f"{__name__}:__name__", {}, ValueError, "does not make a verticle"),
        (not_a_verticle, {}, TypeError, "'text' is not a verticle"),
        (not_made, {}, LookupError, "not made"),
        (ONE, {"instances": 2}, ValueError, "give its class"),
        (lambda: ONE, {"instances": 2}, ValueError, "more than once"),
        (Verticle, {"instances": 0}, ValueError, "instances must be"),
        (Verticle, {"instances": -1}, ValueError, "instances must be"),
        (Verticle, {"instances": 10_001}, ValueError, "instances must be"),
        (Verticle, {"config": {"door": object()}}, BadPayload, "config"),
    ],
)
async def test_what_cannot_be_deployed_is_refused(
    runtime: Runtime,
    source: Any,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        await runtime.deploy(source, **options)
    assert runtime.deployments == ()


async def test_a_module_that_lacks_another_says_which(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking.py").write_text("import absent_module\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="absent_module"):
        await runtime.deploy("lacking:Door")


# -- what fails ----------------------------------------------------------------


async def test_a_start_that_is_a_plain_function_is_refused(runtime: Runtime) -> None:
    class Plain(Verticle):
        def start(self) -> None:  # type: ignore[override]
            pass

    text = r"Plain\.start is a plain function: write async def"
    with pytest.raises(TypeError, match=text):
        await runtime.deploy(Plain)


async def test_one_that_fails_to_start_is_not_stopped_but_its_hooks_are_called(
    runtime: Runtime,
) -> None:
    seen: list[str] = []

    with pytest.raises(LookupError, match="no start"):
        await runtime.deploy(Failing(seen))

    assert seen == ["it starts", "it closes"]
    assert runtime.deployments == ()


async def test_if_one_instance_fails_those_that_started_are_stopped(
    runtime: Runtime,
) -> None:
    seen: list[str] = []
    supply = iter([Recorder(seen, "a"), Failing(seen, "b"), Recorder(seen, "c")])

    with pytest.raises(LookupError, match="no start"):
        await runtime.deploy(lambda: next(supply), instances=3)

    assert sorted(seen) == [
        "a starts",
        "a stops",
        "b closes",
        "b starts",
        "c starts",
        "c stops",
    ]
    assert runtime.deployments == ()


async def test_if_all_fail_the_deployment_fails_once(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LookupError):
        await runtime.deploy(lambda: Failing([]), instances=3)

    assert caplog.text.count("failed to start, too") == 2


async def test_children_of_one_that_fails_to_start_are_undeployed(
    runtime: Runtime,
) -> None:
    seen: list[str] = []

    class Parent(Recorder):
        async def start(self) -> None:
            await self.runtime.deploy(Recorder(seen, "child"))
            raise LookupError("too late")

    with pytest.raises(LookupError):
        await runtime.deploy(Parent(seen))

    assert seen == ["child starts", "child stops"]
    assert runtime.deployments == ()


@pytest.mark.parametrize("worker", [False, True])
async def test_a_deploy_that_is_cancelled_is_undone(
    runtime: Runtime, worker: bool
) -> None:
    seen: list[str] = []
    started, begun = Signal(), Signal()

    class Quick(Recorder):
        async def start(self) -> None:
            await super().start()
            started.tell()

    class Slow(Recorder):
        async def start(self) -> None:
            self.context.add_close_hook(lambda: seen.append("slow closes"))
            begun.tell()
            await asyncio.Event().wait()

    supply = iter([Quick(seen, "quick"), Slow(seen)])
    deploy = asyncio.create_task(
        runtime.deploy(lambda: next(supply), instances=2, worker=worker)
    )
    await started.told()
    await begun.told()
    deploy.cancel()

    with pytest.raises(asyncio.CancelledError):
        await deploy
    assert sorted(seen) == ["quick starts", "quick stops", "slow closes"]


async def test_a_start_that_is_given_up_ends_before_its_hooks_are_called(
    runtime: Runtime,
) -> None:
    seen: list[str] = []
    begun = Signal()

    class Careful(Verticle):
        async def start(self) -> None:
            self.context.add_close_hook(lambda: seen.append("closes"))
            begun.tell()
            try:
                await asyncio.Event().wait()
            finally:
                # Whoever cleans up may have to wait.
                await asyncio.sleep(0.01)
                seen.append("cleans up")

    deploy = asyncio.create_task(runtime.deploy(Careful))
    await begun.told()
    deploy.cancel()
    await asyncio.wait([deploy])

    assert seen == ["cleans up", "closes"]


async def test_one_that_fails_to_stop_after_another_failed_to_start_is_logged(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    supply = iter([Stubborn([]), Failing([])])

    with pytest.raises(LookupError, match="no start"):
        await runtime.deploy(lambda: next(supply), instances=2)

    assert "no stop" in caplog.text


async def test_if_several_fail_to_stop_one_error_is_raised_and_the_others_logged(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    deployment_id = await runtime.deploy(lambda: Stubborn([]), instances=3)

    with pytest.raises(LookupError, match="no stop"):
        await runtime.undeploy(deployment_id)

    assert caplog.text.count("Stubborn failed to stop, too") == 2


async def test_one_that_fails_to_stop_is_undeployed_all_the_same(
    runtime: Runtime,
) -> None:
    seen: list[str] = []
    verticle = Stubborn(seen)
    deployment_id = await runtime.deploy(verticle)
    verticle.context.add_close_hook(lambda: seen.append("it closes"))

    with pytest.raises(LookupError, match="no stop"):
        await runtime.undeploy(deployment_id)

    assert seen == ["it starts", "it stops", "it closes"]
    assert runtime.deployments == ()


async def test_what_is_being_undeployed_is_not_undeployed_twice(
    runtime: Runtime,
) -> None:
    slow = SlowToStop()
    deployment_id = await runtime.deploy(slow)
    first = asyncio.create_task(runtime.undeploy(deployment_id))
    await slow.stopping.told()

    with pytest.raises(AlreadyUndeployed, match="Already undeployed"):
        await runtime.undeploy(deployment_id)
    slow.go_on.tell()
    await first


async def test_an_undeploy_goes_on_when_whoever_asked_is_cancelled(
    runtime: Runtime,
) -> None:
    slow, closed = SlowToStop(), Signal()
    deployment_id = await runtime.deploy(slow)
    slow.context.add_close_hook(closed.tell)

    undeploy = asyncio.create_task(runtime.undeploy(deployment_id))
    await slow.stopping.told()
    undeploy.cancel()
    slow.go_on.tell()

    await closed.told()


# -- children ------------------------------------------------------------------


class Parent(Recorder):
    async def start(self) -> None:
        await super().start()
        for name in ("first", "second"):
            await self.runtime.deploy(Recorder(self.seen, name))


async def test_children_are_undeployed_before_their_parent_the_last_first(
    runtime: Runtime,
) -> None:
    seen: list[str] = []
    deployment_id = await runtime.deploy(Parent(seen))
    count = len(runtime.deployments)

    seen.clear()
    await runtime.undeploy(deployment_id)

    assert count == 3
    assert seen == ["second stops", "first stops", "it stops"]
    assert not runtime.deployments


async def test_what_is_deployed_in_a_handler_of_a_verticle_is_its_child(
    runtime: Runtime,
) -> None:
    parent, seen, done = Verticle(), list[str](), Signal()
    deployment_id = await runtime.deploy(parent)

    async def handle() -> None:
        done.tell(await runtime.deploy(Recorder(seen)))

    parent.context.run(handle)
    child_id = await done.told()

    [deployment] = [one for one in runtime.deployments if one.id == deployment_id]
    assert list(deployment.children) == [child_id]
    await runtime.undeploy(deployment_id)
    assert seen == ["it starts", "it stops"]


async def test_a_child_may_be_undeployed_alone(runtime: Runtime) -> None:
    seen: list[str] = []
    deployment_id = await runtime.deploy(Parent(seen))
    [child] = [one for one in runtime.deployments if one.parent is None]

    await runtime.undeploy(next(iter(child.children)))
    seen.clear()
    await runtime.undeploy(deployment_id)

    assert seen == ["second stops", "it stops"]


async def test_a_child_that_fails_to_stop_keeps_nobody_from_it(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    class Mother(Recorder):
        async def start(self) -> None:
            await self.runtime.deploy(Stubborn(seen, "child"))

    deployment_id = await runtime.deploy(Mother(seen, "mother"))
    await runtime.undeploy(deployment_id)

    assert seen == ["child starts", "child stops", "mother stops"]
    assert "Stubborn failed to stop" in caplog.text


async def test_a_parent_waits_for_a_child_that_another_undeploys(
    runtime: Runtime,
) -> None:
    seen: list[str] = []

    class Slow(SlowToStop):
        async def stop(self) -> None:
            await super().stop()
            seen.append("child stops")

    slow = Slow()

    class Mother(Recorder):
        async def start(self) -> None:
            self.child = await self.runtime.deploy(slow)

    mother = Mother(seen, "mother")
    deployment_id = await runtime.deploy(mother)
    child = asyncio.create_task(runtime.undeploy(mother.child))
    await slow.stopping.told()
    parent = asyncio.create_task(runtime.undeploy(deployment_id))
    await asyncio.sleep(0)
    slow.go_on.tell()
    await asyncio.gather(child, parent)

    assert seen == ["child stops", "mother stops"]


async def test_a_child_that_starts_while_its_parent_ends_is_undone(
    runtime: Runtime,
) -> None:
    parent, seen = Verticle(), list[str]()
    deployment_id = await runtime.deploy(parent)
    begun, go_on = Signal(), Signal()

    class Late(Recorder):
        async def start(self) -> None:
            begun.tell()
            await go_on.told()
            await super().start()

    deploy = asyncio.create_task(
        asyncio.wait_for(parent.context.call(runtime.deploy, Late(seen)), 10)
    )
    await begun.told()
    undeploy = asyncio.create_task(runtime.undeploy(deployment_id))
    await asyncio.wait([undeploy])
    go_on.tell()
    with pytest.raises(RuntimeClosed):
        await deploy

    assert seen in ([], ["it starts", "it stops"])
    assert not runtime.deployments


async def test_a_parent_that_ends_gets_no_more_children(runtime: Runtime) -> None:
    refused = Signal()

    class Late(Verticle):
        async def stop(self) -> None:
            with pytest.raises(AlreadyUndeployed):
                await self.runtime.deploy(Verticle)
            refused.tell()

    await runtime.undeploy(await runtime.deploy(Late))

    assert refused.is_told
    assert runtime.deployments == ()


# -- its own end ---------------------------------------------------------------


@pytest.mark.parametrize("worker", [False, True])
async def test_a_verticle_may_undeploy_itself(runtime: Runtime, worker: bool) -> None:
    verticle, seen = Recorder([]), Signal()
    deployment_id = await runtime.deploy(verticle, worker=worker)

    async def leave() -> None:
        await runtime.undeploy(deployment_id)
        seen.tell("it went on")

    verticle.context.run(leave)

    assert await seen.told() == "it went on"
    assert verticle.seen == ["it starts", "it stops"]
    assert runtime.deployments == ()


async def test_what_its_handlers_still_do_is_cancelled(runtime: Runtime) -> None:
    verticle, linger = Verticle(), Lingering()
    deployment_id = await runtime.deploy(verticle)

    verticle.context.run(linger)
    await linger.begun.told()
    await runtime.undeploy(deployment_id)

    assert linger.ended.is_told
    with pytest.raises(RuntimeClosed):
        verticle.context.run(print)


async def test_close_hooks_run_in_the_context_after_stop_the_last_first(
    threaded: Runtime,
) -> None:
    seen: list[object] = []

    class Hooked(Recorder):
        async def start(self) -> None:
            self.context.add_close_hook(lambda: seen.append("first"))
            self.context.add_close_hook(self.close)
            self.context.add_close_hook(self.never)
            self.context.remove_close_hook(self.never)

        async def close(self) -> None:
            seen.append(self.context.host.loop is asyncio.get_running_loop())

        def never(self) -> None:
            seen.append("never")

    await threaded.undeploy(await threaded.deploy(Hooked(seen)))

    assert seen == ["it stops", True, "first"]


async def test_a_hook_that_fails_keeps_no_other_from_it(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    verticle, seen = Verticle(), list[str]()
    deployment_id = await runtime.deploy(verticle)
    verticle.context.add_close_hook(lambda: seen.append("called"))
    verticle.context.add_close_hook(lambda: 1 / 0)

    await runtime.undeploy(deployment_id)

    assert seen == ["called"]
    assert "close hook" in caplog.text
