"""What ``import kue`` gives."""

from __future__ import annotations

import inspect

import kue
import kue.testing


def test_the_public_names_are_sorted() -> None:
    assert kue.__all__ == sorted(kue.__all__)
    assert kue.testing.__all__ == sorted(kue.testing.__all__)


def test_every_public_name_exists() -> None:
    assert all(hasattr(kue, name) for name in kue.__all__)
    assert all(hasattr(kue.testing, name) for name in kue.testing.__all__)


def test_every_error_is_public() -> None:
    errors = {
        name
        for name, value in vars(kue.model.errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }

    assert errors <= set(kue.__all__)
