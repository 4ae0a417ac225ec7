"""The checklist of features: complete, and naming only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import kue

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "checklist.md").read_text()
#: Number, feature, status, how it is done here, a link.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if re.match(r"\| \d", line)
]
LINK = re.compile(r"\[[^\]]+\]\(([a-z0-9/-]+\.md)(?:#([a-z0-9-]+))?\)")


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


def test_the_rows_are_numbered_from_1_to_80() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 81)]
    assert {len(row) for row in ROWS} == {5}
    assert [row for row in ROWS if not all(row)] == []


def test_every_row_has_one_of_three_statuses() -> None:
    status = re.compile(r"yes|no|partly: .+")

    assert [row for row in ROWS if not status.fullmatch(row[2])] == []


def test_every_row_links_to_a_page_and_an_anchor_that_exist() -> None:
    assert [row for row in ROWS if not leads_somewhere(row[4])] == []


def test_the_methods_and_functions_that_are_named_exist() -> None:
    methods = re.findall(r"\bq\.(\w+)", TEXT)
    functions = re.findall(r"(?<!/)\bkue\.(\w+)", TEXT)

    assert len(methods) > 20
    assert [name for name in methods if not hasattr(kue.Kue, name)] == []
    assert [name for name in functions if not hasattr(kue, name)] == []
