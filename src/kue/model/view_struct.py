"""View structs: JSON that is filled from the values it shows."""

from __future__ import annotations

from typing import Any, Self

import msgspec

_MISSING = object()


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A value as a reader outside the program sees it."""

    @classmethod
    def of(cls, *sources: object, **given: Any) -> Self:
        """
        Return the view of *sources*.

        A field is the one *given*, or else the attribute of its name of the first
        source that has one, or else its default.
        """
        for name in cls.__struct_fields__:
            if name not in given:
                for source in sources:
                    value = getattr(source, name, _MISSING)
                    if value is not _MISSING:
                        given[name] = value
                        break
        return cls(**given)
