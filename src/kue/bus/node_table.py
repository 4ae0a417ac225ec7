"""Nodes of the cluster and the addresses at which they listen, as one node knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class NodeChange(msgspec.Struct, omit_defaults=True):
    """One change, as it is published."""

    node: str
    #: It joined, maybe again: it listens only at what is added.
    joined: bool = False
    left: bool = False
    added: list[str] = []
    removed: list[str] = []


_decoder = msgspec.json.Decoder(NodeChange)


def read_change(message: bytes) -> tuple[int, NodeChange]:
    """Return the number of a change, and the change."""
    number, _, change = message.partition(b"\t")
    return int(number), _decoder.decode(change)


class NodeTable:
    """
    The cluster as of one change; lookups need no lock and do not wait.

    *node* is the node that looks up others, and is never among them.
    """

    def __init__(self, node: str = "") -> None:
        self._node = node
        #: The number of the last change applied.
        self.number = 0
        self._at: dict[str, set[str]] = {}
        #: The same by address, without this node.
        self._nodes_at: dict[str, tuple[str, ...]] = {}
        #: Replaced as a whole: other threads read it.
        self.nodes: frozenset[str] = frozenset()

    def nodes_at(self, address: str) -> tuple[str, ...]:
        """Return the other nodes that listen at *address*."""
        return self._nodes_at.get(address, ())

    def apply(self, number: int, change: NodeChange) -> None:
        self.number = number
        if change.joined or change.left:
            self.forget(change.node)
        if not change.left:
            self.add(change.node, change.added)
            for address in change.removed:
                self.remove(change.node, address)

    def add(self, node: str, addresses: Iterable[str]) -> None:
        """Add the addresses at which a node listens."""
        known = self._at.get(node)
        if known is None:
            known = self._at[node] = set()
            self.nodes = frozenset(self._at)
        for address in addresses:
            if address not in known:
                known.add(address)
                if node != self._node:
                    nodes = self._nodes_at.get(address, ())
                    self._nodes_at[address] = (*nodes, node)

    def forget(self, node: str) -> None:
        """Remove a node."""
        for address in self._at.get(node, ()):
            self._remove_listener(node, address)
        self._at.pop(node, None)
        self.nodes = frozenset(self._at)

    def replace(self, number: int, seen: Mapping[str, Iterable[str]]) -> set[str]:
        """Apply what was read; return the nodes that are missing from it."""
        self.number = number
        for node, addresses in seen.items():
            wanted = set(addresses)
            for address in self._at.get(node, set()) - wanted:
                self.remove(node, address)
            self.add(node, wanted)
        return set(self._at) - set(seen)

    def remove(self, node: str, address: str) -> None:
        """Remove an address of a node."""
        known = self._at.get(node)
        if known is not None and address in known:
            known.remove(address)
            self._remove_listener(node, address)

    def _remove_listener(self, node: str, address: str) -> None:
        rest = tuple(it for it in self._nodes_at.get(address, ()) if it != node)
        if rest:
            self._nodes_at[address] = rest
        else:
            self._nodes_at.pop(address, None)
