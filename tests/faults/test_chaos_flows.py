"""The program that runs a random graph of jobs under faults, and its account."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos.dag import Graph, Node, Portion, draw, judge, mended_states, states_of
from chaos.flow_account import Account, Evidence
from chaos.flow_facts import Acknowledged, Ran
from chaos.flow_stage import Wanted
from chaos.flows import run
from chaos.view import View
from msgspec.structs import replace

from kue import Job, State
from kue.model.job import Attempt, Spec
from tests.support.jobs import T0

PARENT = Node("p0.0", "node-0")
CHILD = Node("p0.1", "node-1", parents=("p0.0",), inputs=("p0.0",))
GRAPH = Graph((Portion("p0", "steps", (PARENT, CHILD)),))
#: Tokens of the two runs.
FIRST, SECOND = f"1:{T0}:1:w:c", f"2:{T0}:1:w:c"


def job(number: int, node: Node, token: str, state: State = State.COMPLETE) -> Job:
    end = Attempt(token=token, at=T0, outcome=state.value, result={"node": node.key})
    spec = Spec(data={"node": node.key, "copy": 0})
    return Job(
        id=number,
        type=node.type,
        state=state,
        created_at=T0,
        spec=spec,
        history=(end,),
    )


def ran(what: str, node: Node, number: int, token: str, inputs: object = None) -> Ran:
    return Ran(what, node.key, 0, number, token, inputs)


RUNS = (
    ran("start", PARENT, 1, FIRST),
    ran("end", PARENT, 1, FIRST),
    ran("start", CHILD, 2, SECOND, [{"node": "p0.0"}]),
    ran("end", CHILD, 2, SECOND),
)
SOUND = Evidence(
    GRAPH,
    RUNS,
    (Acknowledged("p0", 0, {"p0.0": 1, "p0.1": 2}, 1),),
    (job(1, PARENT, FIRST), job(2, CHILD, SECOND)),
    mended=False,
)


def rules(evidence: Evidence) -> set[str]:
    return {breach.rule for breach in Account(evidence).breaches()}


def test_the_same_seed_draws_the_same_graph_in_all_ways() -> None:
    drawn = draw(500, 3)

    assert drawn == draw(500, 3) != draw(500, 4)
    assert {one.way for one in drawn.portions} == {"single", "steps", "flow", "batch"}
    policies = {node.policy for node in drawn.nodes.values()}
    assert policies == {"block", "cancel", "run", "only"}


@pytest.mark.parametrize(
    ("parents", "ends"),
    [
        (["complete"], "runs runs runs cancelled"),
        (["failed"], "blocked cancelled runs runs"),
        (["cancelled"], "cancelled cancelled runs cancelled"),
        (["complete", "blocked"], "blocked blocked blocked blocked"),
        (["failed", "blocked"], "blocked cancelled blocked runs"),
        (["failed", "cancelled"], "cancelled cancelled runs runs"),
    ],
)
def test_what_becomes_of_a_job_is_up_to_its_policy(
    parents: list[str], ends: str
) -> None:
    policies = ("block", "cancel", "run", "only")

    assert [judge(policy, parents) for policy in policies] == ends.split()


def test_what_waited_for_a_failed_job_runs_once_that_is_mended() -> None:
    [portion] = GRAPH.portions
    failing = replace(PARENT, does="fail")
    graph = Graph((replace(portion, nodes=(failing, CHILD)),))

    first = states_of(graph)

    assert first == {"p0.0": "failed", "p0.1": "blocked"}
    assert set(mended_states(graph, first).values()) == {"complete"}


def test_a_sound_run_has_no_breach() -> None:
    assert Account(SOUND).breaches() == []


@pytest.mark.parametrize(
    ("rule", "evidence"),
    [
        ("edge", SOUND._replace(runs=(*RUNS[2:], *RUNS[:2]))),
        ("inputs", SOUND._replace(runs=(*RUNS[:2], replace(RUNS[2], inputs=[1])))),
        ("lost", SOUND._replace(jobs=SOUND.jobs[:1])),
        ("lost", SOUND._replace(acknowledged=())),
        ("twice", SOUND._replace(jobs=(*SOUND.jobs, job(3, CHILD, SECOND)))),
        (
            "state",
            SOUND._replace(
                jobs=(SOUND.jobs[0], job(2, CHILD, SECOND, State.CANCELLED))
            ),
        ),
        ("ran", SOUND._replace(acknowledged=(), jobs=SOUND.jobs[:1])),
    ],
)
def test_what_is_wrong_is_found(rule: str, evidence: Evidence) -> None:
    assert rule in rules(evidence)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["redis", "shards", "sqlite"])
async def test_a_small_graph_ends_as_it_must(engine: str, tmp_path: Path) -> None:
    wanted = Wanted(engine, 100, 3, seed=8, workers=(2,))
    with View() as view:
        outcome = await run(wanted, tmp_path, view)

    assert outcome.breaches == []
    assert sum(outcome.figures.faults.values()) > 1
