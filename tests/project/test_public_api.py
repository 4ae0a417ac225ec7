"""What ``import kue`` gives."""

from __future__ import annotations

import inspect

import kue


def test_the_public_names_are_sorted() -> None:
    assert kue.__all__ == sorted(kue.__all__)


def test_every_public_name_exists() -> None:
    assert all(hasattr(kue, name) for name in kue.__all__)


def test_every_error_is_public() -> None:
    errors = {
        name
        for name, value in vars(kue.model.errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }

    assert errors <= set(kue.__all__)
