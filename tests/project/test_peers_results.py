"""Kue beside its peers: what is made of the figures of several rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.peers import report
from benchmarks.peers.catalogue import KUE, PEERS
from benchmarks.peers.idle import Idle
from benchmarks.peers.measure import Outcome, Scale
from benchmarks.peers.results import NAMES, Results, Spread
from benchmarks.peers.targets import verdicts

CONDITIONS = {
    "date": "2026-11-15",
    "redis": "7.0.15",
    "python": "3.11.7",
    "machine": "x86_64",
    "cores": 2,
    "load": [0.1, 0.2, 0.3],
    "rounds": 3,
    "clients": {"redis": "8.1.0"},
}


def outcome(jobs: int = 100, **figures: float) -> Outcome:
    return Outcome(figures=figures, jobs=jobs)


@pytest.fixture
def results() -> Results:
    """Three rounds; the second is disturbed, and rq does not get through it."""
    results = Results(["bullmq", "rq", "huey"])
    for kue, bullmq, rq in ((1000.0, 100.0, 10.0), (500.0, 50.0, None), (900, 100, 9)):
        results.begin_round()
        results.add("kue", outcome(drain=kue, drain_2p=2 * kue, p50_ms=1.0))
        results.add("bullmq", outcome(drain=bullmq, p50_ms=2.0))
        results.add("bare", outcome(drain=kue * 1.25))
        if rq is None:
            lost = Outcome(missing={"drain": "3 of 5 jobs ran, then none for long"})
            results.add("rq", lost)
        else:
            results.add("rq", outcome(drain=rq))
    results.refuse("huey", "it could not be installed: no space")
    return results


def test_the_median_of_all_rounds_counts(results: Results) -> None:
    assert results.spread("kue", "drain") == Spread(900, 700, 950)


def test_a_ratio_is_taken_round_by_round(results: Results) -> None:
    """What halves both leaves it as it is."""
    assert results.ratio("bullmq", "drain") == Spread(10, 9.5, 10)


def test_a_round_without_the_peer_has_no_ratio(results: Results) -> None:
    assert results.ratio("rq", "drain") == Spread(100, 100, 100)


def test_the_file_has_every_figure_of_everyone(results: Results) -> None:
    document = results.document(CONDITIONS)

    assert document.keys() == {"conditions", "peers", "kue", "ratios"}
    assert document["peers"].keys() == {"bullmq", "rq", "huey"}
    for figures in (*document["peers"].values(), document["kue"]):
        assert tuple(figures) == NAMES
    assert document["kue"]["drain"] == 900
    assert document["ratios"]["bullmq"]["drain"]["median"] == 10
    assert document["ratios"]["bare"]["drain"]["median"] == 0.8


def test_what_is_missing_is_null_and_has_a_reason(results: Results) -> None:
    document = results.document(CONDITIONS)

    assert document["peers"]["huey"]["drain"] is None
    assert document["conditions"]["missing"]["huey"]["drain"] == (
        "it could not be installed: no space"
    )


def test_a_figure_that_some_round_has_is_not_missing(results: Results) -> None:
    assert "rq" not in results.why_missing()


def test_repeated_runs_are_counted(results: Results) -> None:
    results.begin_round()
    results.add("bullmq", Outcome(jobs=100, repeated=3))

    assert results.delivered["bullmq"] == {"jobs": 400, "repeated": 3}


def test_targets_are_held_against_the_best_of_the_others(results: Results) -> None:
    found = {(one.target.figure, one.target.of): one for one in verdicts(results)}

    drain = found["drain", "fastest peer"]
    assert (drain.other, drain.ratio.median, drain.is_reached) == ("bullmq", 10, True)
    python = found["drain", "fastest Python peer"]
    assert (python.other, python.is_reached) == ("rq", True)
    assert found["p50_ms", "quickest peer"].is_reached
    assert found["drain_2p", "one worker process"].ratio.median == 2
    assert found["drain", "the bare scripts"].is_reached


def test_a_cost_is_better_when_it_is_less(results: Results) -> None:
    assert results.best("p50_ms", ["kue", "bullmq"]) == "kue"
    assert results.best("drain", ["kue", "bullmq"]) == "kue"
    assert results.best("bytes", ["kue", "bullmq"]) is None


def test_what_an_idle_worker_costs_is_reported(results: Results) -> None:
    results.idle = [Idle(0.3, 5, 20), Idle(0.2, 4, 20), Idle(0.9, 4, 80)]

    idle = results.document(CONDITIONS)["conditions"]["idle"]
    assert idle == {"cpu_percent": 0.3, "calls": 4, "commands": 20}
    assert "takes 0.3 % of a core and calls Redis 4 times" in report.markdown(
        results, CONDITIONS
    )


def test_everything_is_written_after_a_round(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "build" / "peers.json"

    report.write_json(results, CONDITIONS, path)

    assert json.loads(path.read_text())["kue"]["drain"] == 900
    rounds = json.loads(path.with_suffix(".rounds.json").read_text())
    assert [one["kue"]["drain"] for one in rounds] == [1000, 500, 900]


def test_the_page_is_rewritten_between_its_markers(
    results: Results, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")

    report.write_page(report.markdown(results, CONDITIONS), page)
    report.write_page(report.markdown(results, CONDITIONS), page)

    text = page.read_text()
    assert text.startswith(f"before\n{report.BEGIN}\n\n|")
    assert text.endswith(f"{report.END}\nafter\n")
    assert "| bullmq | 10.0 (9.50 – 10.0) |" in text
    assert "- huey has no `drain`, `drain_2p`" in text
    assert "it could not be installed: no space" in text
    assert "old" not in text


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing to see\n")

    with pytest.raises(ValueError, match="has no place for the peers"):
        report.write_page("", page)


def test_the_documentation_has_a_place_for_the_tables() -> None:
    text = report.PAGE.read_text()

    assert text.count(report.BEGIN) == text.count(report.END) == 1


def test_conditions_name_every_version() -> None:
    everyone = Results([peer.name for peer in PEERS])

    known = report.conditions(everyone, Scale(rounds=3), redis="7.0.15", cores=[0, 1])

    assert known["versions"].keys() == {"kue", *everyone.names}
    assert known["jobs"]["kue"] == KUE.jobs
