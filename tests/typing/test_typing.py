"""mypy finds no error in what is right, and one in each thing that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
HOME = HERE.parents[1]


def test_users_see_the_types_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME)
    cases = [str(path) for path in HERE.glob("*.py") if path.stem != "test_typing"]

    said, complaints, status = api.run(["--strict", *cases])

    assert complaints == ""
    assert status == 0, said


def test_every_wrong_use_says_which_error_it_must_be() -> None:
    wrong = (HERE / "wrong.py").read_text().splitlines()
    ignored = [line for line in wrong if "# type: ignore" in line]

    assert ignored
    assert all("# type: ignore[" in line for line in ignored)
