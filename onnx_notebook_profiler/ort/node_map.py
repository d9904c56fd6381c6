"""Which of the author's nodes a node that onnxruntime ran stands for.

A model goes to the session with names of ours, ``onp7_`` for the node of that number, which fusions carry along; what
a session put in place of several nodes is found by walking back from its outputs in the author's graph.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from onnx import GraphProto, ModelProto, NodeProto

from onnx_notebook_profiler.model import all_nodes, body_graphs
from onnx_notebook_profiler.plan.names import captured_names

__all__ = ["NodeMap", "NodeOrigin", "Place", "name_nameless", "name_nodes"]

Place = tuple[tuple[tuple[int, str], ...], int]
"""A node of the author's: the owning nodes and bodies from the main graph inwards, and its index in its graph."""

_TOKEN: Final = re.compile(r"onp(\d+)_")
_BLOCKED: Final = re.compile(r"_nchwc(_token_\d+)?$")
"""How a node in blocked layout is named: after the value that it made before."""
_LAYOUT: Final = frozenset({"ReorderInput", "ReorderOutput"})
_HELPERS: Final = _LAYOUT | {
    "Cast", "Transpose", "Identity", "Reshape", "Squeeze", "Unsqueeze", "QuantizeLinear", "DequantizeLinear",
    "MemcpyFromHost", "MemcpyToHost",
}  # fmt: skip
"""What a session puts in between nodes of the author's."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeOrigin:
    """What a node that ran is in the author's model."""

    how: Literal["same", "fused", "part", "added", "unknown"]
    """``same``: that node; ``fused``: it does the work of several; ``part``: one of several that do the work of one;
    ``added``: the runtime put it in, nothing of the author's; ``unknown``: it cannot be told."""
    nodes: tuple[int, ...] = ()
    """Indices in the author's graph, the one that makes its output last."""
    path: tuple[tuple[int, str], ...] = ()
    """For a node in a body: from the main graph inwards, the owning node and the body's name."""

    @property
    def index(self) -> int | None:
        """The author's node that makes what it makes; None where there is none."""
        return self.nodes[-1] if self.nodes else None

    def node_in(self, author: ModelProto) -> NodeProto | None:
        """That node in the author's model."""
        if self.index is None or any(owner < 0 for owner, _ in self.path):
            return None
        return author_nodes(author.graph, self.path)[self.index]


def author_nodes(graph: GraphProto, path: tuple[tuple[int, str], ...]) -> Sequence[NodeProto]:
    """The nodes of the body that *path* leads to."""
    for owner, name in path:
        graph = body_graphs(graph.node[owner])[name]
    nodes: Sequence[NodeProto] = graph.node
    return nodes


UNKNOWN: Final = NodeOrigin("unknown")


def name_nodes(model: ModelProto) -> tuple[ModelProto, tuple[Place, ...]]:
    """A copy of *model* whose nodes, those in bodies too, are named by number, and the place of each number."""
    copy = ModelProto()
    copy.CopyFrom(model)
    places: list[Place] = []
    _name(copy.graph, (), places)
    return copy, tuple(places)


def name_nameless(model: ModelProto) -> bool:
    """Give each node without a name one of its own, bodies included; whether there were any.

    A profile tells nodes without a name by operator and number, and the numbers are in no file.
    """
    nameless = [node for node in all_nodes(model.graph.node) if not node.name]
    for number, node in enumerate(nameless):
        node.name = f"onp{number}_"
    return bool(nameless)


def _name(graph: GraphProto, path: tuple[tuple[int, str], ...], places: list[Place]) -> None:
    for index, node in enumerate(graph.node):
        node.name = f"onp{len(places)}_"
        places.append((path, index))
        for name, body in body_graphs(node).items():
            _name(body, (*path, (index, name)), places)


class NodeMap:
    """The origins of the nodes that a session ran.

    Args:
        author: The author's model.
        places: As :func:`name_nodes` gave them for that model; empty where the session ran it under the author's names.
        ran: The model that the session saved, its initializers' data not needed.
    """

    def __init__(self, author: ModelProto, places: tuple[Place, ...], ran: ModelProto) -> None:
        self._author = author.graph
        self._places = places
        self.results = frozenset(value.name for value in ran.graph.output)
        """What the caller gets."""
        self._origins: dict[str, NodeOrigin] = {}
        self._nodes: dict[str, NodeProto] = {}
        self._nameless: dict[str, list[NodeProto]] = {}
        self._nameless_origins: dict[int, NodeOrigin] = {}
        self._map(_Walk(author.graph), ran.graph, ())

    def origin(self, name: str, number: int, op_type: str) -> NodeOrigin:
        """Of the node that a profile calls *name* and *number*."""
        node = self.node(name, number, op_type)
        if node is None:
            return NodeOrigin("added") if op_type in _LAYOUT else UNKNOWN
        if node.name:
            return self._origins[node.name]
        return self._nameless_origins[id(node)]

    def node(self, name: str, number: int, op_type: str) -> NodeProto | None:
        """The node itself in the graph that ran; None where it cannot be told which one it is."""
        found = self._nameless.get(op_type, [])
        known = self._nodes.get(name)
        if known is None and name == f"{op_type}_{number}" and len(found) == 1:
            known = found[0]
        return known if known is not None and known.op_type == op_type else None

    def _map(self, walk: _Walk, graph: GraphProto, path: tuple[tuple[int, str], ...]) -> None:
        ends = {at: tuple(walk.ends(node)) for at, node in enumerate(graph.node)}
        made = {name for node in graph.node for name in node.output if name}
        made.update(name for found in ends.values() for name in found)
        made.update(value.name for value in (*graph.initializer, *graph.input))
        regions = {
            at: walk.region(found, made.difference(graph.node[at].output, found))
            for at, found in ends.items()
        }
        told = {at: self._told(walk, node, regions[at], path) for at, node in enumerate(graph.node)}
        _spread(graph, told)
        for at, node in enumerate(graph.node):
            if node.name:
                self._origins[node.name], self._nodes[node.name] = told[at], node
            else:
                self._nameless.setdefault(node.op_type, []).append(node)
                self._nameless_origins[id(node)] = told[at]
            self._map_bodies(node, told[at])

    def _map_bodies(self, node: NodeProto, origin: NodeOrigin) -> None:
        theirs: dict[str, GraphProto] = {}
        if origin.index is not None:
            theirs = body_graphs(author_nodes(self._author, origin.path)[origin.index])
        for name, body in body_graphs(node).items():
            inner = (*origin.path, (-1 if origin.index is None else origin.index, name))
            self._map(_Walk(theirs.get(name, GraphProto())), body, inner)

    def _told(
        self,
        walk: _Walk,
        node: NodeProto,
        region: tuple[int, ...],
        path: tuple[tuple[int, str], ...],
    ) -> NodeOrigin:
        places: list[Place] = []
        if self._places:
            places = [self._places[int(one)] for one in _TOKEN.findall(node.name)]
        named = [index for where, index in places if where == path]
        if places and not named:
            return self._moved(node, places)
        if named and not region and node.op_type not in _LAYOUT:
            region = (named[0],)
        if not region:
            return NodeOrigin("added" if node.op_type in _HELPERS else "unknown", (), path)
        if len(region) > 1:
            return NodeOrigin("fused", region, path)
        is_same = walk.nodes[region[0]].op_type == node.op_type
        return NodeOrigin("same" if is_same or named else "part", region, path)

    def _moved(self, node: NodeProto, places: Sequence[Place]) -> NodeOrigin:
        """Of a node that came out of a body, such as a branch that is always taken."""
        path = max((where for where, _ in places), key=len)
        indices = tuple(sorted({index for where, index in places if where == path}))
        if len(indices) > 1:
            return NodeOrigin("fused", indices, path)
        is_same = author_nodes(self._author, path)[indices[0]].op_type == node.op_type
        return NodeOrigin("same" if is_same else "part", indices, path)


def _spread(graph: GraphProto, told: dict[int, NodeOrigin]) -> None:
    """A node of unknown origin does a part of what its readers stand for, where they all stand for the same.

    What it makes is no value of the author's, so that the walk back from its readers went past it.
    """
    readers: dict[str, set[int]] = {}
    for at, node in enumerate(graph.node):
        for name in (*node.input, *captured_names(node)):
            readers.setdefault(name, set()).add(at)
    for at in reversed(range(len(graph.node))):
        if told[at].how != "unknown":
            continue
        read_by = {one for name in graph.node[at].output for one in readers.get(name, ())}
        origins = {(told[one].path, told[one].nodes) for one in read_by}
        if len(origins) == 1:
            ((path, nodes),) = origins
            if nodes:
                told[at] = NodeOrigin("part", nodes, path)


class _Walk:
    """The author's graph, walked from values backwards."""

    def __init__(self, graph: GraphProto) -> None:
        self.nodes = graph.node
        self._makers = {
            name: index for index, node in enumerate(graph.node) for name in node.output if name
        }

    def ends(self, node: NodeProto) -> Iterator[str]:
        """The author's values that a node that ran makes, be it under another name."""
        if node.op_type in _LAYOUT:
            return
        found = [name for name in node.output if name in self._makers]
        if not found and _BLOCKED.search(node.name):
            found = [name for name in (_BLOCKED.sub("", node.name),) if name in self._makers]
        yield from found

    def region(self, ends: Iterable[str], stops: set[str]) -> tuple[int, ...]:
        """The author's nodes between *stops* and *ends*, in order; the last one makes an end."""
        found: set[int] = set()
        stack = [name for name in ends if name not in stops]
        while stack:
            index = self._makers.get(stack.pop())
            if index is None or index in found:
                continue
            found.add(index)
            node = self.nodes[index]
            stack += [name for name in (*node.input, *captured_names(node)) if name not in stops]
        return tuple(sorted(found))
