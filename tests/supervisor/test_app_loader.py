"""Finding the queue that a target names, and saying what is wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kue.supervisor.app_loader import BadTarget, load, split

QUEUE = "import kue\nq = kue.Kue('memory://')\n"
TWO = f"{QUEUE}other = kue.Kue('memory://')\nnumber = 3\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder of its own; what is imported from it is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)


@pytest.mark.parametrize(
    "target",
    [
        "shop_a:q",
        "shop_a",
        "shop_a.py:q",
        "./shop_a.py",
        "shop_a:Holder.queue",
        "deep_b.inner.shop:q",
        "deep_b/inner/shop.py:q",
        "deep_b/inner/shop.py",
        "aside/shop_c.py:q",
    ],
)
def test_a_queue_is_found(target: str, folder: Path) -> None:
    write(folder / "shop_a.py", f"{QUEUE}class Holder:\n    queue = q\n")
    write(folder / "deep_b/__init__.py", "")
    write(folder / "deep_b/inner/__init__.py", "")
    # Relative imports work as they do anywhere in the package.
    write(folder / "deep_b/inner/names.py", QUEUE)
    write(folder / "deep_b/inner/shop.py", "from .names import q\n")
    write(folder / "aside/shop_c.py", QUEUE)

    queue, module = load(target)

    assert repr(queue) == "<Kue on memory://>"
    assert module.__name__ in ("shop_a", "deep_b.inner.shop", "shop_c")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("shop_d:nothing", "the module 'shop_d' has no 'nothing'; its queues are"),
        ("shop_d:number", "shop_d:number is an int, not a queue"),
        ("shop_d:nothing", "shop_d:other, shop_d:q"),
        ("shop_d", "which queue of the module 'shop_d' is meant?"),
        ("shop_e", "there is no queue in it: write q = kue.Kue()"),
        ("shop_f:q", "there is no module 'shop_f'"),
        ("shop_d.part:q", "there is no module 'shop_d.part'"),
        ("gone/shop.py:q", "there is no file 'gone/shop.py'"),
        ("json.py:q", "Python already has another module 'json'"),
        ("shop_g:q", "importing 'shop_g' failed: KeyError: 'missing'"),
        ("shop_h:q", "importing 'shop_h' failed: ModuleNotFoundError: No module named"),
        ("shop_i:q", "importing 'shop_i' failed: SystemExit: 4"),
        ("shop_j:q", "importing 'shop_j' failed: SyntaxError: invalid syntax"),
    ],
)
def test_what_is_wrong_with_a_target_is_told(
    target: str, message: str, folder: Path
) -> None:
    write(folder / "shop_d.py", TWO)
    write(folder / "shop_e.py", "")
    write(folder / "json.py", QUEUE)
    write(folder / "shop_g.py", "{}['missing']\n")
    write(folder / "shop_h.py", "import a_package_that_is_not_installed\n")
    write(folder / "shop_i.py", "raise SystemExit(4)\n")
    write(folder / "shop_j.py", "def\n")

    with pytest.raises(BadTarget) as wrong:
        load(target)

    assert message in str(wrong.value)


def test_the_traceback_of_code_that_fails_begins_with_that_code(folder: Path) -> None:
    write(folder / "shop_k.py", "def fail():\n    1 / 0\n\nfail()\n")

    with pytest.raises(BadTarget) as wrong:
        load("shop_k:q")

    lines = wrong.value.detail.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('shop_k.py", line 4, in <module>')
    assert lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    "target", ["", ":", ":q", "app:", "app:q!", "app:a b", "app:1"]
)
def test_a_target_that_cannot_be_read_is_refused(target: str) -> None:
    with pytest.raises(BadTarget, match="write module:attribute, such as app:q"):
        split(target)
