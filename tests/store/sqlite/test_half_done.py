"""A process that dies in the middle of a verb has done nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kue.model.draft import draft
from kue.store.sqlite import unique_keys
from kue.store.sqlite.verb_transaction import Transaction
from tests.support.engines import engine_at
from tests.support.jobs import T0


class Killed(Exception):
    """Stands for the end of the process: nothing after it is executed."""


@pytest.mark.parametrize(
    ("owner", "step"),
    [(unique_keys, "take"), (Transaction, "write")],
    ids=["its key is taken", "its row is written"],
)
async def test_a_job_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str
) -> None:
    """D-24, K-5: neither half a job, nor a key that no job holds."""
    store = engine_at("sqlite", f"sqlite:///{tmp_path / 'kue.db'}").new_store()
    await store.open()
    monkeypatch.setattr(owner, step, _then_killed(getattr(owner, step)))
    job = draft("email", unique="k")
    with pytest.raises(Killed):
        await store.add([job], producer="p", seq=1, now=T0)
    monkeypatch.undo()

    assert await store.count() == {}
    [added] = await store.add([job], producer="p", seq=1, now=T0)
    assert added.new
    assert (await store.check()).findings == ()
    await store.close()


def _then_killed(step: Callable[..., Any]) -> Callable[..., Any]:
    def killed(*args: Any, **options: Any) -> None:
        step(*args, **options)
        raise Killed

    return killed
