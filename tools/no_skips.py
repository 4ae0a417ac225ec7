"""
A pytest plugin (``-p tools.no_skips``): a test that was skipped has failed.

A skip says that something was missing, and a suite that is green because something was
missing proves nothing.  Expected failures are left alone: those did run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

R = TypeVar("R", pytest.TestReport, pytest.CollectReport)
#: What a wrapper is: it gets the report from inside and returns one.
Wrapped: TypeAlias = "Generator[None, R, R]"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Wrapped[pytest.TestReport]:
    report = yield
    return report if hasattr(report, "wasxfail") else _judged(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Wrapped[pytest.CollectReport]:
    return _judged((yield))


def _judged(report: R) -> R:
    if report.skipped:
        *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("",)
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as failed: {reason}"
    return report
