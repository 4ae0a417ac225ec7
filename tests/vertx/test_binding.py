"""Services on the bus: requests, replies and failures on the wire; proxies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest

from kue.bus import EventBus, FailureKind, LocalCluster, RequestFailed
from kue.model.errors import JobNotFound, StoreUnavailable
from kue.vertx import Proxy, ServiceCall, authorised, bind, only
from tests.bus.hearing import failure_of
from tests.bus.nodes import knows

HERE = "test.weather"


@dataclass
class Place:
    name: str
    height: int = 0


class Weather:
    """A service with something of everything."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def forecast(
        self, city_name: Annotated[str, msgspec.Meta(max_length=20)], days: int = 1
    ) -> list[str]:
        return [f"{city_name} {day}" for day in range(days)]

    async def between(self, from_: int, to: int) -> int:
        return to - from_

    async def highest(self, places: list[Place]) -> Place:
        return max(places, key=lambda place: place.height)

    async def forget(self) -> None:
        """Nothing comes of it."""

    async def fail(self, how: str) -> None:
        raise {
            "value": ValueError("it makes no sense"),
            "store": StoreUnavailable("the store is away"),
            "job": JobNotFound(7),
            "own": RequestFailed("too hot", code=40),
            "bug": KeyError("a secret"),
        }[how]

    async def never(self) -> None:
        self.asked.set()
        await asyncio.Event().wait()

    def is_not_async(self) -> None: ...

    async def _is_private(self) -> None: ...


class WeatherProxy(Proxy, Weather, of=Weather):
    """Asks a Weather."""


@pytest.fixture
async def near(bus: EventBus) -> EventBus:
    """A bus with the service."""
    bind(Weather(), bus, HERE)
    return bus


@pytest.fixture
async def far(bus: EventBus) -> AsyncIterator[EventBus]:
    """Another node than the one that has the service."""
    cluster = LocalCluster()
    async with EventBus(cluster.manager()) as here, EventBus(cluster.manager()) as far:
        bind(Weather(), here, HERE)
        await knows(far, HERE, 1)
        yield far


async def ask(bus: EventBus, action: str | None, body: Any = None) -> Any:
    """Ask as a client without a proxy does."""
    headers = {} if action is None else {"action": action}
    return (await bus.request(HERE, body, headers=headers)).body


async def refusal(bus: EventBus, action: str | None, body: Any = None) -> RequestFailed:
    failure = await failure_of(ask(bus, action, body))
    assert failure.kind is FailureKind.RECIPIENT_FAILURE
    return failure


# -- the wire ------------------------------------------------------------------


async def test_a_request_is_named_arguments_and_the_action_a_header(
    near: EventBus,
) -> None:
    assert await ask(near, "forecast", {"cityName": "Oslo", "days": 2}) == [
        "Oslo 0",
        "Oslo 1",
    ]
    assert await ask(near, "forecast", {"cityName": "Oslo"}) == ["Oslo 0"]
    assert await ask(near, "between", {"from": 3, "to": 5}) == 2
    assert await ask(near, "forget") is None
    highest = await ask(near, "highest", {"places": [{"name": "hill", "height": 9}]})
    assert highest == {"name": "hill", "height": 9}


async def test_a_request_without_an_action_fails(near: EventBus) -> None:
    failure = await refusal(near, None, {"id": 1})

    assert (failure.code, failure.text) == (500, "action not specified")


@pytest.mark.parametrize(
    "action", ["fly", "isNotAsync", "isPrivate", "_is_private", "__init__", "x" * 9000]
)
async def test_an_action_that_there_is_not_fails(near: EventBus, action: str) -> None:
    failure = await refusal(near, action)

    assert (failure.code, failure.text) == (500, f"Invalid action: {action[:100]}")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "forecast: Object missing required field `cityName`"),
        ({"cityName": 3}, "forecast: Expected `str`, got `int`"),
        ({"cityName": "Oslo", "days": "2"}, "forecast: Expected `int`, got `str`"),
        ({"cityName": "x" * 21}, r"forecast: Expected `str` of length <= 20"),
        ([1, 2], "forecast: Expected `object`, got `array`"),
        ("Oslo", "forecast: Expected `object`, got `str`"),
    ],
)
async def test_arguments_are_checked(near: EventBus, body: Any, text: str) -> None:
    failure = await refusal(near, "forecast", body)

    assert failure.code == -1
    assert failure.text.startswith(text)


@pytest.mark.parametrize(
    ("how", "code", "text", "debug"),
    [
        ("value", -1, "it makes no sense", {"causeName": "ValueError"}),
        ("own", 40, "too hot", {}),
    ],
)
async def test_what_the_service_raises_is_a_failure_with_code_minus_1_or_its_own(
    near: EventBus, how: str, code: int, text: str, debug: dict[str, str]
) -> None:
    failure = await refusal(near, "fail", {"how": how})

    assert (failure.code, failure.text, failure.debug) == (code, text, debug)


async def test_a_bug_is_logged_and_what_it_says_is_not_told(
    near: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    failure = await refusal(near, "fail", {"how": "bug"})

    assert failure.text == "fail failed: KeyError"
    assert failure.debug == {"causeName": "KeyError"}
    assert "a secret" in caplog.text


async def test_where_debugging_is_on_a_failure_tells_its_stack(bus: EventBus) -> None:
    bind(Weather(), bus, HERE, debug=True)

    failure = await refusal(bus, "fail", {"how": "value"})

    assert failure.debug["causeName"] == "ValueError"
    assert failure.debug["causeMessage"] == "it makes no sense"
    assert "in fail" in "".join(failure.debug["causeStackTrace"])


async def test_an_unregistered_service_is_gone(bus: EventBus) -> None:
    registered = bind(Weather(), bus, HERE)
    await ask(bus, "forget")

    registered.unregister()

    with pytest.raises(RequestFailed, match="No handlers for address"):
        await ask(bus, "forget")


async def test_a_local_service_cannot_be_asked_from_elsewhere() -> None:
    cluster = LocalCluster()
    async with EventBus(cluster.manager()) as here, EventBus(cluster.manager()) as far:
        bind(Weather(), here, HERE, local=True)

        assert await ask(here, "forget") is None
        with pytest.raises(RequestFailed, match="No handlers"):
            await ask(far, "forget")


async def test_calls_overlap(bus: EventBus) -> None:
    weather = Weather()
    bind(weather, bus, HERE)
    never = asyncio.create_task(ask(bus, "never"))
    await weather.asked.wait()

    assert await ask(bus, "between", {"from": 1, "to": 2}) == 1
    never.cancel()


# -- interceptors --------------------------------------------------------------


async def test_interceptors_wrap_calls_in_order(bus: EventBus) -> None:
    seen: list[str] = []

    def noting(name: str) -> Any:
        async def intercept(call: ServiceCall, proceed: Any) -> Any:
            seen.append(f"{name} {call.action}")
            result = await proceed()
            seen.append(f"{name} {result}")
            return result

        return intercept

    bind(Weather(), bus, HERE, interceptors=[noting("outer"), noting("inner")])

    await ask(bus, "between", {"from": 1, "to": 3})

    assert seen == ["outer between", "inner between", "inner 2", "outer 2"]


async def test_an_interceptor_may_be_for_one_action(bus: EventBus) -> None:
    async def refuse(call: ServiceCall, proceed: Any) -> Any:
        raise RequestFailed("not today", code=3)

    bind(Weather(), bus, HERE, interceptors=[only("forecast", refuse)])

    assert await ask(bus, "forget") is None
    assert (await refusal(bus, "forecast", {"cityName": "Oslo"})).code == 3


async def is_known(token: str) -> bool:
    return token == "sesame"


@pytest.mark.parametrize("check", [is_known, lambda token: token == "sesame"])
async def test_a_token_may_be_asked_for(bus: EventBus, check: Any) -> None:
    bind(Weather(), bus, HERE, interceptors=[authorised(check)])

    assert await WeatherProxy(bus, HERE, token="sesame").between(1, 2) == 1
    for proxy in (WeatherProxy(bus, HERE), WeatherProxy(bus, HERE, token="open")):
        assert (await failure_of(proxy.between(1, 2), "Unauthorized")).code == 401


async def test_who_has_no_token_learns_nothing_of_actions(bus: EventBus) -> None:
    bind(Weather(), bus, HERE, interceptors=[authorised(lambda token: False)])

    for action in ("forecast", "fly", None):
        assert (await refusal(bus, action)).text == "Unauthorized"


# -- proxies -------------------------------------------------------------------


async def test_a_proxy_has_the_methods_of_the_service(far: EventBus) -> None:
    weather: Weather = WeatherProxy(far, HERE)

    assert await weather.forecast("Oslo", days=2) == ["Oslo 0", "Oslo 1"]
    assert await weather.between(from_=1, to=3) == 2
    assert await weather.highest([Place("hill", 9), Place("sea")]) == Place("hill", 9)
    assert await weather.forget() is None  # type: ignore[func-returns-value]


async def test_a_proxy_raises_what_the_service_raises(far: EventBus) -> None:
    weather = WeatherProxy(far, HERE)

    with pytest.raises(ValueError, match="it makes no sense"):
        await weather.fail("value")
    with pytest.raises(StoreUnavailable, match="the store is away"):
        await weather.fail("store")
    with pytest.raises(RequestFailed, match="job 7 does not exist"):
        await weather.fail("job")
    with pytest.raises(RequestFailed, match="too hot"):
        await weather.fail("own")


async def test_a_proxy_refuses_wrong_arguments_before_it_asks(bus: EventBus) -> None:
    weather: Any = WeatherProxy(bus, HERE)

    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        await weather.between(1)


async def test_a_proxy_waits_no_longer_than_it_was_told(near: EventBus) -> None:
    with pytest.raises(RequestFailed, match=r"after waiting 50\(ms\)") as failed:
        await WeatherProxy(near, HERE, timeout=0.05).never()

    assert failed.value.kind is FailureKind.TIMEOUT


async def test_a_service_that_is_not_there_is_told_by_the_bus(bus: EventBus) -> None:
    failure = await failure_of(WeatherProxy(bus, HERE).forget())

    assert failure.kind is FailureKind.NO_HANDLERS
