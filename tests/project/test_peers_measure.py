"""Measuring beside peers: who is measured, where, and that every job is counted."""

from __future__ import annotations

import itertools
import os
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.delivery import Undelivered
from benchmarks.peers import bare, idle, tallies
from benchmarks.peers.adapters.tally import Tally
from benchmarks.peers.catalogue import KUE, PEERS, Contender, Language
from benchmarks.peers.cores import here, plan_cores
from benchmarks.peers.environments import NotInstalled, install, version_of
from benchmarks.peers.measure import FIGURES_OF, Measurement, Part, Scale
from benchmarks.peers.processes import ADAPTERS
from benchmarks.peers.results import NAMES
from benchmarks.peers.server import Server, started
from benchmarks.peers.tallies import Tallies

SECOND = 1_000_000_000
FEW = Scale(rounds=1, one_by_one=20, naps=30, pings=5, ping_seconds=10)
ENDS = {Language.PYTHON: "py", Language.NODE: "js", Language.RUBY: "rb"}


def nothing() -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with started(frozenset(here())) as server:
        yield server


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: str(peer.name))
def test_every_peer_has_an_adapter_and_exact_pins(peer: Contender) -> None:
    end = ENDS[peer.language]
    assert (ADAPTERS / f"through_{peer.adapter}.{end}").exists()
    for line in peer.pins.read_text().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line)


def test_every_figure_is_measured_by_one_part() -> None:
    measured = [name for part in Part for name in FIGURES_OF[part]]

    assert sorted(measured) == sorted(NAMES)


@pytest.mark.parametrize(
    ("cores", "workers"), [([0], {0}), ([0, 1], {0, 1}), ([0, 1, 2, 3], {1, 2})]
)
def test_the_server_and_a_lone_worker_have_a_core_each(
    cores: list[int], workers: set[int]
) -> None:
    where = plan_cores(cores)

    assert where.server == {0}
    assert where.worker == ({1} if len(cores) > 1 else {0})
    assert where.workers == workers


def test_two_workers_are_measured_from_when_both_are_at_work(tmp_path: Path) -> None:
    """What the first does while the second is still starting is left out."""
    early, late = (Tally(tmp_path / f"ran.{pid}", 12) for pid in (1, 2))
    for number in range(8):
        early.add(number, SECOND, time.monotonic_ns())
    left = iter(range(8, 12))

    def work_at_each_look() -> None:
        for number in itertools.islice(left, 1):
            late.add(number, time.monotonic_ns(), time.monotonic_ns())

    drain = Tallies(tmp_path, 12).drained(work_at_each_look, workers=2)

    assert (drain.jobs, drain.repeated) == (12, 0)
    # Three jobs, a look apart; with all twelve it would be four times that.
    assert drain.rate < 1.5 / tallies.LOOK_SECONDS


def test_a_second_worker_that_comes_too_late_is_no_figure(tmp_path: Path) -> None:
    one, other = (Tally(tmp_path / f"ran.{pid}", 5) for pid in (1, 2))
    for number in range(5):
        (other if number == 4 else one).add(number, SECOND, 2 * SECOND)

    with pytest.raises(Undelivered, match="the second worker came too late"):
        Tallies(tmp_path, 5).drained(nothing, workers=2)


def test_the_rate_is_that_from_the_first_start_to_the_last_end(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "ran.1", 11)
    for number in range(11):
        tally.add(number, SECOND, 3 * SECOND)

    assert Tallies(tmp_path, 11).drained(nothing, workers=1).rate == 5


def test_a_job_that_ran_twice_is_counted_as_repeated(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "ran.1", 3)
    for number in (0, 1, 1, 2):
        tally.add(number, SECOND, 2 * SECOND)

    assert Tallies(tmp_path, 3).drained(nothing, workers=1).repeated == 1


def test_a_job_that_never_runs_is_found_though_others_ran_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "STALLED_SECONDS", 0.05)
    tally = Tally(tmp_path / "ran.1", 3)
    for number in (0, 1, 1):
        tally.add(number, SECOND, 2 * SECOND)

    with pytest.raises(Undelivered, match="2 of 3 jobs ran, then none for long"):
        Tallies(tmp_path, 3).drained(nothing, workers=1)


def test_pings_that_warm_a_worker_up_are_not_counted(tmp_path: Path) -> None:
    waits = [100.0] * 10 + [1.0, 2.0] * 10
    data = [struct.pack("<Q", round(wait * 1e6)) for wait in waits]
    (tmp_path / "pings").write_bytes(b"".join(data))

    assert Tallies(tmp_path, 1).waits_ms() == [1.0, 2.0] * 10


def test_too_few_pings_are_no_figure(tmp_path: Path) -> None:
    (tmp_path / "pings").write_bytes(bytes(16))

    with pytest.raises(Undelivered, match="only 2 pings arrived in time"):
        Tallies(tmp_path, 1).waits_ms()


def test_kue_is_measured_with_real_processes(server: Server) -> None:
    kue = Measurement(replace(KUE, jobs=300), server, plan_cores(here()), FEW)

    for part in (Part.DRAIN, Part.LATENCY):
        kue.run(part)

    outcome = kue.outcome
    assert outcome.missing == {}
    assert outcome.figures.keys() == FIGURES_OF[Part.DRAIN] | FIGURES_OF[Part.LATENCY]
    assert all(value > 0 for value in outcome.figures.values())
    assert (outcome.jobs, outcome.repeated) == (100 + 300 + 20, 0)


def test_an_idle_worker_is_watched(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "WATCHED_SECONDS", 0.5)

    found = idle.measure(server, plan_cores(here()))

    assert found.cpu_percent >= 0
    assert found.commands >= found.calls >= 0


def test_what_fails_is_a_reason_and_not_the_end(server: Server) -> None:
    nobody = replace(KUE, adapter="nobody", jobs=10)
    measurement = Measurement(nobody, server, plan_cores(here()), FEW)

    measurement.run(Part.NAPS)

    assert measurement.outcome.figures == {}
    assert "through_nobody" in measurement.outcome.missing["io"]


def test_the_bare_scripts_are_measured_with_a_process(server: Server) -> None:
    found = bare.measure(server.port, 500, plan_cores(here()).worker)

    assert found.keys() == {"add_bulk", "drain"}


def test_a_program_that_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("benchmarks.peers.environments.HOME", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    bullmq = next(peer for peer in PEERS if peer.name == "bullmq")

    with pytest.raises(NotInstalled, match=r"Node\.js .* apt-get install nodejs"):
        install(bullmq)


def test_pins_tell_the_versions() -> None:
    rq = next(peer for peer in PEERS if peer.name == "rq")

    assert version_of(rq) == "2.12.0"
