"""
A pytest plugin (``-p tools.rounds --rounds 3``): every test runs that many times.

The rounds share one start of pytest, its servers and its browsers, which take a tenth
of the time of a round.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=1, help="run every test this often")


@pytest.fixture
def _round(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.fixturenames.append("_round")
    rounds = range(1, metafunc.config.getoption("rounds") + 1)
    metafunc.parametrize("_round", rounds, indirect=True, ids="round{}".format)
