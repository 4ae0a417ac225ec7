"""
Codecs: how a body is copied for a local consumer, and encoded for a remote one.

JSON values and bytes need none.  A user's class gets one by name (``codec=`` with each
message) or permanently (`Codecs.register_default`).  What arrives from other nodes is
decoded by a codec that is registered here, by its name: a message cannot make this
process build anything else.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kue.bus.errors import FailureKind, RequestFailed
from kue.model.payload import MAX_DEPTH

T = TypeVar("T")


class Codec(Protocol):
    """Copies, encodes and decodes the bodies of one kind."""

    @property
    def name(self) -> str:
        """Its name in messages between nodes."""

    def copy(self, body: Any, /) -> Any:
        """Return what a consumer of this process gets; an immutable body may be
        returned itself."""

    def encode(self, body: Any, /) -> bytes: ...

    def decode(self, encoded: bytes, /) -> Any: ...


_ATOMS = frozenset({str, int, bool, type(None)})
_BASES: tuple[Any, ...] = (dict, list, tuple, str, int, float)


def copy_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """
    Return a copy of *value* made of dict, list, str, int, float, bool and None only.

    The same as after encoding and decoding, so that a consumer sees no difference.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if depth < 0:
        raise ValueError(f"the body nests deeper than {MAX_DEPTH} levels")
    if kind is dict:
        copied = {}
        for key, item in value.items():
            if type(key) is not str:
                key = _text_key(key)
            copied[key] = item if type(item) in _ATOMS else copy_json(item, depth - 1)
        return copied
    if kind is list or kind is tuple:
        return [
            item if type(item) in _ATOMS else copy_json(item, depth - 1)
            for item in value
        ]
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"the body has {value}, which JSON cannot express")
        return value
    return copy_json(_plain(value), depth)


def _plain(value: Any) -> Any:
    """Return a value of a subclass as its JSON base type."""
    if isinstance(value, Enum):
        return value.value
    for base in _BASES:
        if isinstance(value, base):
            return base(value)
    raise TypeError(
        f"the body has a {type(value).__name__}, which JSON cannot express; "
        "register a codec for its class"
    )


def _text_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the body has the key {key!r}; JSON keys are text")
    return str.__str__(key)


class _Json:
    name = "json"
    copy = staticmethod(copy_json)

    def encode(self, body: Any) -> bytes:
        # Copied first: that rejects what JSON cannot express and what nests too deep.
        return msgspec.json.encode(copy_json(body))

    def decode(self, encoded: bytes) -> Any:
        return msgspec.json.decode(encoded)


class _Bytes:
    name = "bytes"
    # A bytearray becomes bytes; bytes stay the same object.
    copy = encode = decode = staticmethod(bytes)


class _Failed:
    """A failure, sent in place of a reply."""

    name = "failure"

    def copy(self, body: RequestFailed) -> RequestFailed:
        return RequestFailed(
            body.text, code=body.code, kind=body.kind, debug=copy_json(body.debug)
        )

    def encode(self, body: RequestFailed) -> bytes:
        return msgspec.json.encode((body.kind, body.code, body.text, body.debug))

    def decode(self, encoded: bytes) -> RequestFailed:
        kind, code, text, debug = _FAILED.decode(encoded)
        return RequestFailed(text, code=code, kind=kind, debug=debug)


class ClassCodec(Generic[T]):
    """The codec of a dataclass or msgspec Struct, which is sent as JSON."""

    def __init__(self, cls: type[T], name: str = "") -> None:
        self.name = name or cls.__name__
        self._decoder = msgspec.json.Decoder(cls)

    def copy(self, body: T) -> T:
        return self.decode(self.encode(body))

    def encode(self, body: T) -> bytes:
        return msgspec.json.encode(body)

    def decode(self, encoded: bytes) -> T:
        return self._decoder.decode(encoded)


_FAILED = msgspec.json.Decoder(tuple[FailureKind, int, str, dict[str, Any]])
_JSON, _BYTES, _FAILURE = _Json(), _Bytes(), _Failed()
_NAMED: dict[str, Codec] = {codec.name: codec for codec in (_JSON, _BYTES, _FAILURE)}
_BUILT_IN: dict[type, Codec] = {
    **dict.fromkeys((type(None), bool, int, str, float, dict, list, tuple), _JSON),
    **dict.fromkeys((bytes, bytearray), _BYTES),
    RequestFailed: _FAILURE,
}


class Codecs:
    """The codecs of one bus: the built-in ones and what users register."""

    def __init__(self) -> None:
        self._by_name = dict(_NAMED)
        self._by_class = dict(_BUILT_IN)

    def register(self, codec: Codec) -> None:
        """Make *codec* available by its name."""
        name = codec.name
        if not isinstance(name, str) or not 1 <= len(name) <= 200:
            raise ValueError(
                f"the name of a codec must have 1 to 200 characters, not {name!r}"
            )
        if name in self._by_name:
            raise ValueError(f"there is a codec named {name!r} already")
        self._by_name[name] = codec

    def register_default(self, cls: type[T], codec: Codec | None = None) -> None:
        """Encode bodies of class *cls* with *codec*, else as a `ClassCodec`."""
        if cls in self._by_class:
            raise ValueError(f"there is a codec for {cls.__name__} already")
        codec = ClassCodec(cls) if codec is None else codec
        self.register(codec)
        self._by_class[cls] = codec

    def unregister(self, name: str) -> None:
        """Remove the codec of that name; built-in ones cannot be removed."""
        if name in _NAMED:
            raise ValueError(f"the codec {name!r} is built in")
        codec = self._by_name.pop(name, None)
        for cls in [cls for cls, it in self._by_class.items() if it is codec]:
            del self._by_class[cls]

    def unregister_default(self, cls: type) -> None:
        """Remove the codec for bodies of class *cls*."""
        if cls in _BUILT_IN:
            raise ValueError(f"the codec for {cls.__name__} is built in")
        codec = self._by_class.get(cls)
        if codec is not None:
            self.unregister(codec.name)

    def choose(self, body: object, name: str | None = None) -> Codec:
        """Return the codec for a body: the one called *name*, else by its class."""
        if name is not None:
            return self.named(name)
        codec = self._by_class.get(type(body))
        if codec is None:
            if isinstance(body, _BASES):
                return _JSON
            if isinstance(body, RequestFailed):
                return _FAILURE
            raise TypeError(
                f"there is no codec for {type(body).__name__}; register one "
                "(bus.codecs.register_default) or send JSON values or bytes"
            )
        return codec

    def named(self, name: str) -> Codec:
        """Return the codec of that name."""
        codec = self._by_name.get(name)
        if codec is None:
            raise ValueError(f"there is no codec named {name!r}")
        return codec
