"""The checklist of features: complete, and naming only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.mutants import Mutant, check, load

import kue
import kue.testing

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
TEXT = (DOCS / "checklist.md").read_text()
#: Number, feature, status, how it is done here, a link, a test.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if re.match(r"\| \d", line)
]
LINK = re.compile(r"\[[^\]]+\]\(([a-z0-9/-]+\.md)(?:#([a-z0-9-]+))?\)")
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
#: What is not there cannot be tested.
NO_TEST = "–"
MUTANTS = load()


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of *page*."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading) for heading in headings]
    return {re.sub(r"[-\s]+", "-", text.strip().lower()) for text in plain}


def leads_somewhere(cell: str) -> bool:
    link = LINK.fullmatch(cell)
    if link is None or not (DOCS / link[1]).is_file():
        return False
    return link[2] is None or link[2] in anchors(DOCS / link[1])


def has_test(cell: str) -> bool:
    """Return whether a cell names a test function that exists."""
    named = TEST.fullmatch(cell)
    if named is None or not (TESTS / named[1]).is_file():
        return False
    defined = rf"^(?:async )?def {named[2]}\("
    return bool(re.search(defined, (TESTS / named[1]).read_text(), re.MULTILINE))


def test_the_rows_are_numbered_from_1_to_80() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 81)]
    assert {len(row) for row in ROWS} == {6}
    assert [row for row in ROWS if not all(row)] == []


def test_every_row_has_one_of_three_statuses() -> None:
    status = re.compile(r"yes|no|partly: .+")

    assert [row for row in ROWS if not status.fullmatch(row[2])] == []


def test_every_row_links_to_a_page_and_an_anchor_that_exist() -> None:
    assert [row for row in ROWS if not leads_somewhere(row[4])] == []


def test_every_feature_that_is_there_names_a_test_that_exists() -> None:
    there = [row for row in ROWS if row[2] != "no"]

    assert [row for row in there if not has_test(row[5])] == []
    assert [row for row in ROWS if row[2] == "no" and row[5] != NO_TEST] == []


def test_every_feature_that_is_there_has_a_mutant_that_its_test_must_notice() -> None:
    there = {int(row[0]) for row in ROWS if row[2] != "no"}

    assert {mutant.row for mutant in MUTANTS if mutant.row} == there


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.label)
def test_every_mutant_fits_the_source(mutant: Mutant) -> None:
    check(mutant)


def test_the_methods_and_functions_that_are_named_exist() -> None:
    methods = re.findall(r"\bq\.(\w+)", TEXT)
    functions = re.findall(r"(?<!/)\bkue\.(\w+)", TEXT)

    assert len(methods) > 20
    assert [name for name in methods if not hasattr(kue.Kue, name)] == []
    assert [name for name in functions if not hasattr(kue, name)] == []
