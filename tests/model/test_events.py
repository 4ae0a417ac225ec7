"""Events as values."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kue.model.events import Event, Kind


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_event_is_in_the_table_of_the_reference(kind: Kind) -> None:
    page = Path(__file__).parents[2] / "docs/reference/events.md"

    assert f"\n| `{kind}` | " in page.read_text()


def test_a_job_has_ended_after_four_kinds_only() -> None:
    final = {kind for kind in Kind if kind.is_final}

    assert final == {Kind.COMPLETE, Kind.FAILED, Kind.CANCELLED, Kind.REMOVE}


def test_an_event_survives_the_wire() -> None:
    event = Event(
        kind=Kind.PROGRESS, job_id=7, type="a b", at=5, detail={"progress": 50}
    )

    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
