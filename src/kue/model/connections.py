"""
Named connections: what each name stands for, from code or from ``KUE_CONNECTIONS``.

The variable has pairs ``name=URL`` with spaces between them, or a JSON object whose
values are URLs, or objects of settings with a ``url``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model import settings
from kue.model.errors import ConfigError
from kue.model.names import check_path_name

if TYPE_CHECKING:
    from kue.model.settings import Settings

VARIABLE = "KUE_CONNECTIONS"
#: The connection of `Kue()`, unless another is defined by this name.
DEFAULT = "default"
FAILOVER = "failover"

Definition = str | Mapping[str, Any]
_decode = msgspec.json.Decoder(dict[str, str | dict[str, Any]]).decode


def read(text: str) -> dict[str, Definition]:
    """
    Return the definitions in *text*, by name.

    Raises:
        ConfigError: It cannot be read.
    """
    if text.lstrip().startswith("{"):
        try:
            return dict(_decode(text))
        except msgspec.DecodeError as exc:
            raise ConfigError(
                f"{VARIABLE} is not a JSON object of URLs: {exc}"
            ) from exc
    found: dict[str, Definition] = {}
    for pair in text.split():
        name, equals, url = pair.partition("=")
        if not equals or "://" in name:
            raise ConfigError(
                f"{VARIABLE} has pairs such as mail=redis://host/0, with spaces "
                "between them"
            )
        found[name] = url
    return found


class Connections:
    """Definitions by name; those of code win over those of the environment."""

    def __init__(self) -> None:
        self._given: dict[str, Definition] = {}

    def define(self, given: Mapping[str, Definition | None]) -> None:
        """
        Define connections; None forgets one.

        Raises:
            ConfigError: A name or a setting makes no sense; nothing is defined then.
        """
        for name, definition in given.items():
            if definition is not None:
                _settings(name, definition)
        for name, definition in given.items():
            self._given.pop(name, None)
            if definition is not None:
                self._given[name] = definition

    def definitions(self) -> dict[str, Definition]:
        """Return what is defined, by name."""
        return {**read(os.environ.get(VARIABLE, "")), **self._given}

    def names(self) -> list[str]:
        """Return the names of all connections, the default one included."""
        return list(dict.fromkeys([DEFAULT, *self.definitions()]))

    def settings(self, name: str, **given: Any) -> Settings:
        """
        Return the settings of the connection *name*; those *given* win.

        Raises:
            ConfigError: There is none, or it is not defined well.
        """
        defined = self.definitions()
        if name in defined:
            return _settings(name, defined[name], given)
        if name == DEFAULT:
            return settings.load(**given)
        raise ConfigError(
            f"there is no connection {name!r}; there are: {', '.join(self.names())}; "
            f"define it in {VARIABLE}, or by kue.configure({name}=url)"
        )


def _settings(
    name: str, definition: Definition, more: Mapping[str, Any] = MappingProxyType({})
) -> Settings:
    given = {"url": definition} if isinstance(definition, str) else dict(definition)
    try:
        check_path_name(name, what="the name of a connection")
        if not given.get("url"):
            raise ConfigError("it has no url")
        if str(given["url"]).startswith("sqlite:"):
            # $KUE_PREFIX is for the connections to Redis beside it.
            given.setdefault("prefix", settings.DEFAULT_PREFIX)
        refuse_own_settings(str(given["url"]), given)
        return settings.load(**{**given, **more})
    except (ConfigError, ValueError, TypeError) as exc:
        raise ConfigError(f"connection {name!r}: {exc}") from exc


def refuse_own_settings(url: str, given: Iterable[str]) -> None:
    """Raise `ConfigError` if settings were *given* to a fail-over, which has none."""
    own = sorted(set(given) - {"url"})
    if own and url.startswith(f"{FAILOVER}:"):
        raise ConfigError(
            f"{url} has no settings of its own, such as {own[0]}: give them to its "
            f"connections, as in kue.configure(first={{'url': …, {own[0]!r}: …}})"
        )


def members_of(url: str) -> list[str]:
    """
    Return the names of the connections in ``failover://first,second``.

    Raises:
        ConfigError: There are fewer than two, or one is named twice.
    """
    names = url.partition("://")[2].rstrip("/").split(",")
    if len(names) < 2 or "" in names or len(set(names)) < len(names):
        raise ConfigError(
            f"{url!r} should name two or more connections: failover://first,second"
        )
    return names


#: Those of this program.
connections = Connections()
