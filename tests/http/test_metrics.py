"""Numbers for Prometheus."""

from __future__ import annotations

import re

import httpx
import pytest

from kue import Kue
from kue.model.histogram import DAY_MS, Timing
from kue.model.job import Completed, State
from kue.store.values import RenewRequest
from tests.http.accounts import site_of
from tests.http.conftest import Http
from tests.support.jobs import MINUTE, add_many, add_one, claim_one, end, start_one

#: A line of the text format that is no comment.
SAMPLE = re.compile(
    r"(?P<name>[a-z_0-9]+)"
    r"(?:{(?P<labels>(?:[a-z]+=\"(?:[^\"\\\n]|\\[\\\"n])*\",?)+)})?"
    r" (?P<value>[0-9.]+)"
)


async def samples(client: httpx.AsyncClient) -> dict[str, float]:
    """Return every sample by its name and labels; each line must be well formed."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.text.endswith("\n")
    found: dict[str, float] = {}
    for line in answer.text.removesuffix("\n").split("\n"):
        if line.startswith("# "):
            continue
        assert SAMPLE.fullmatch(line), line
        name, _, value = line.rpartition(" ")
        assert name not in found
        found[name] = float(value)
    return found


async def test_jobs_are_counted_by_type_and_state(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_many(q.store, 3, now=await q.now())

    found = await samples(client)

    assert found['kue_jobs{type="email",state="waiting"}'] == 3
    states = [name for name in found if name.startswith('kue_jobs{type="email"')]
    assert len(states) == len(State)
    assert found["kue_store_up"] == 1


async def test_how_many_may_wait_is_shown_for_types_with_a_cap(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.limit("email", max_waiting=10_000)
    await q.limit("report", concurrency=5)

    found = await samples(client)

    caps = {name: value for name, value in found.items() if "max_waiting" in name}
    assert caps == {'kue_queue_max_waiting{type="email"}': 10_000}


async def test_how_long_the_first_job_waits_is_shown_by_type(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    await add_one(q.store, "email", now=now - 90_000)
    await add_one(q.store, "report", now=now, delay="1h")

    found = await samples(client)

    assert found['kue_oldest_wait_seconds{type="email"}'] >= 90
    assert found['kue_oldest_wait_seconds{type="report"}'] == 0


async def test_what_happened_is_counted_by_day_and_by_minute(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    # Two hours ago, so that no minute that ends meanwhile makes a difference.
    ago = now - 120 * MINUTE
    await add_many(q.store, 3, now=ago)
    job = await claim_one(q.store, now=ago)
    await end(q.store, job, Completed(), now=ago + 1_500)

    found = await samples(client)

    assert found['kue_jobs_added_24h{type="email"}'] == 3
    assert found['kue_jobs_completed_24h{type="email"}'] == 1
    assert found['kue_jobs_failed_24h{type="email"}'] == 0
    assert found['kue_run_seconds_24h{type="email"}'] == 1.5
    assert found['kue_jobs_added_1m{type="email"}'] == 0


async def test_the_last_full_minute_is_counted_by_itself(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    # Whether or not a minute ends meanwhile, one of these is the last full one.
    await add_many(q.store, 2, now=now - MINUTE)
    await add_many(q.store, 2, now=now)

    found = await samples(client)

    assert found['kue_jobs_added_1m{type="email"}'] == 2
    assert found['kue_jobs_added_24h{type="email"}'] == 4


@pytest.mark.parametrize("hours", [1, 5, 23])
async def test_a_day_is_counted_whether_or_not_its_hours_are_full(
    client: httpx.AsyncClient, q: Kue, hours: int
) -> None:
    now = await q.now()
    await add_many(q.store, 5, now=now - 24 * 60 * MINUTE - MINUTE)
    await add_many(q.store, 3, now=now - 24 * 60 * MINUTE + 5 * MINUTE)
    await add_many(q.store, 2, now=now - hours * 60 * MINUTE)
    await add_many(q.store, 1, now=now)

    before = await samples(client)
    await q.store.tend()
    after = await samples(client)

    assert before['kue_jobs_added_24h{type="email"}'] == 6
    assert after['kue_jobs_added_24h{type="email"}'] == 6


async def test_waits_and_runs_are_summaries_of_the_last_minutes(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.store.measure([Timing("email", {10: 90, 1101: 10}, {94: 1})])

    found = await samples(client)

    assert found['kue_wait_seconds{type="email",quantile="0.5"}'] == 0.01
    assert found['kue_wait_seconds{type="email",quantile="0.95"}'] == 1.101
    assert found['kue_run_seconds{type="email",quantile="0.99"}'] == 0.094


async def test_s_10_counters_count_from_midnight_and_never_fall_within_a_day(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    midnight = now - now % DAY_MS
    await add_many(q.store, 5, now=midnight - MINUTE)
    await add_many(q.store, 3, now=midnight)
    await add_many(q.store, 2, now=now)
    job = await claim_one(q.store, now=now)
    await end(q.store, job, Completed(), now=now)

    before = await samples(client)
    await q.store.tend()
    after = await samples(client)

    for found in (before, after):
        assert found['kue_jobs_added_total{type="email"}'] == 5
        assert found['kue_jobs_completed_total{type="email"}'] == 1
        assert found['kue_jobs_failed_total{type="email"}'] == 0


async def test_s_10_run_times_are_a_histogram(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.store.measure([Timing("email", {}, {5: 2, 6: 1, 94: 4, DAY_MS: 1})])

    found = await samples(client)

    name = "kue_run_duration_seconds"
    buckets = [
        value
        for key, value in found.items()
        if key.startswith(f'{name}_bucket{{type="email"')
    ]
    assert buckets == sorted(buckets)
    assert found[f'{name}_bucket{{type="email",le="0.005"}}'] == 2
    assert found[f'{name}_bucket{{type="email",le="0.01"}}'] == 3
    assert found[f'{name}_bucket{{type="email",le="0.148"}}'] == 7
    assert found[f'{name}_bucket{{type="email",le="+Inf"}}'] == 8
    assert found[f'{name}_count{{type="email"}}'] == 8


#: What Prometheus sends.
SCRAPE = (
    "application/openmetrics-text;version=1.0.0;q=0.6,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
#: What browsers send.
PAGE = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_s_10_prometheus_finds_them_at_its_default_path(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.enqueue("email")
    url = str(client.base_url).replace("/api/v1/", "/metrics")

    scraped = await client.get(url, headers={"Accept": SCRAPE})
    plain = await client.get(url)
    page = await client.get(url, headers={"Accept": PAGE})

    for answer in (scraped, plain):
        kind = answer.headers["content-type"]
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        assert 'kue_jobs_added_total{type="email"} 1' in answer.text
    assert page.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("url", ["memory://"])
async def test_s_10_the_default_path_takes_the_scope_read(q: Kue) -> None:
    async with site_of(q) as site, site.client() as client:
        address = f"{site.address}/metrics"
        bare = await client.get(address)
        found = [
            (await client.get(address, headers=await site.headers(who))).status_code
            for who in ("read", "enqueue")
        ]

    assert bare.status_code == 401
    assert found == [200, 403]


async def test_workers_are_counted_alive_and_lost(
    client: httpx.AsyncClient, q: Kue
) -> None:
    ago = await q.now() - 5_000
    await start_one(q.store, worker="w1", now=ago)
    await q.store.renew(RenewRequest("w1", lease=1_000), now=ago)
    await q.store.renew(RenewRequest("w2"))
    await q.store.renew(RenewRequest("w3"))

    found = await samples(client)

    assert found['kue_workers{state="alive"}'] == 2
    assert found['kue_workers{state="lost"}'] == 1


@pytest.mark.parametrize(
    ("type", "label"),
    [
        ("a/b", "a/b"),
        ("a b", "a b"),
        ("ü", "ü"),
        ("a:b{}", "a:b{}"),
        ('say "hi"', r"say \"hi\""),
        ("back\\slash", r"back\\slash"),
        ("\\n", r"\\n"),
        ('"} 1', r"\"} 1"),
    ],
)
async def test_a_type_may_have_any_name(
    client: httpx.AsyncClient, q: Kue, type: str, label: str
) -> None:
    await add_one(q.store, type)

    found = await samples(client)

    assert found[f'kue_jobs{{type="{label}",state="waiting"}}'] == 1


async def test_every_metric_says_once_what_it_is(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store)
    await add_one(q.store, "other")
    await q.limit("email", max_waiting=5)
    await q.store.measure([Timing("email", {1: 1}, {1: 1})])

    text = (await client.get("/metrics")).text

    names = re.findall(r"^(kue_\w+?)(?:_bucket|_sum|_count)?[ {]", text, re.M)
    kinds = r"^# TYPE (\S+) (?:gauge|summary|counter|histogram)$"
    assert re.findall(kinds, text, re.M) == list(dict.fromkeys(names))
    assert re.findall(r"^# HELP (\S+) .+\.$", text, re.M) == list(dict.fromkeys(names))


async def test_prometheus_is_told_the_format(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"


async def test_an_empty_queue_has_numbers_too(client: httpx.AsyncClient) -> None:
    assert await samples(client) == {
        "kue_store_up": 1,
        'kue_workers{state="alive"}': 0,
        'kue_workers{state="lost"}': 0,
    }


async def test_of_a_store_that_is_away_only_that_is_told(
    lost: httpx.AsyncClient,
) -> None:
    """An answer of 503 would leave no metric to raise an alarm by."""
    assert await samples(lost) == {"kue_store_up": 0}


async def test_a_parameter_that_there_is_not_is_refused(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/metrics?name=up")

    assert (answer.status_code, answer.json()["field"]) == (400, "query.name")


async def test_who_may_look_sees_them(http: Http) -> None:
    async with http.client("viewer") as client:
        assert (await client.get("/metrics")).status_code == 200


async def test_the_document_says_that_they_are_text(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    [good] = document["paths"]["/metrics"]["get"]["responses"]["200"]["content"].items()
    assert good == ("text/plain", {"schema": {"type": "string"}})
