"""What a value is for: tensor data (``weight``), a shape, axes, or several of these (``ambiguous``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from onnx import GraphProto, NodeProto

__all__ = ["Tag", "tag_values"]

Tag = Literal["", "shape", "axes", "weight", "ambiguous"]

_TAGS: Mapping[str, Tag] = {
    "shape": "shape",
    "axes": "axes",
    "weight": "weight",
    "ambiguous": "ambiguous",
}

_METADATA_KEY = "onnx_light.value_tag"

_MARKS: Mapping[str, Mapping[int, Tag]] = {
    "Reshape": {1: "shape"},
    "Expand": {1: "shape"},
    "Slice": {1: "shape", 2: "shape", 3: "axes", 4: "shape"},
    **{
        op: {1: "axes"}
        for op in ("Squeeze", "Unsqueeze", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
    },
}
"""Inputs whose purpose the operator gives away."""

_PASSES_BACK = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Slice"})

# fmt: off
_BINARY = frozenset({
    "Add", "And", "BitAnd", "BitOr", "BitShift", "BitXor", "Div", "Equal", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "Mod", "Mul", "Or", "Pow", "PRelu", "Sub", "Xor",
})
# fmt: on


def merge(old: Tag, new: Tag) -> Tag:
    """The tag of a value that had *old* and is found to be *new*: weight gives way, shape and axes contradict."""
    if not new or old in (new, "ambiguous"):
        return old
    if old in ("", "weight"):
        return new
    return old if new == "weight" else "ambiguous"


def tag_values(graph: GraphProto) -> tuple[dict[str, Tag], list[Tag]]:
    """The tag of each value and of each node of *graph*.

    Inputs and initializers start as their metadata says, else as weights; tags then travel along the nodes, forwards
    and backwards, until nothing changes.
    """
    tagger = _Tagger(graph)
    while tagger.sweep():
        pass
    return tagger.values, tagger.nodes


def _declared(entries: Sequence[object]) -> Tag:
    for entry in entries:
        if getattr(entry, "key", "") == _METADATA_KEY:
            return _TAGS.get(str(getattr(entry, "value", "")).strip().lower(), "")
    return ""


class _Tagger:
    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self.values: dict[str, Tag] = {}
        self.nodes: list[Tag] = [""] * len(graph.node)
        for value in (*graph.input, *graph.initializer):
            self.values[value.name] = _declared(value.metadata_props) or "weight"
        for info in (*graph.value_info, *graph.output):
            tag = _declared(info.metadata_props)
            if tag:
                self.values[info.name] = tag

    def sweep(self) -> bool:
        """One pass over the nodes; True where a tag changed."""
        before = (dict(self.values), list(self.nodes))
        for index, node in enumerate(self.graph.node):
            self._visit(index, node)
        return before != (self.values, self.nodes)

    def _mark(self, name: str, tag: Tag) -> None:
        if name:
            self.values[name] = merge(self.values.get(name, ""), tag)

    def _common(self, names: Sequence[str]) -> Tag:
        tags = {self.values.get(name, "") for name in names if name}
        return next(iter(tags)) if len(tags) == 1 else ""

    def _visit(self, index: int, node: NodeProto) -> None:
        before = self._common(node.output)
        explicit: Tag = ""
        if node.op_type in ("Shape", "Size"):
            explicit = "shape"
        elif node.op_type == "Constant":
            explicit = before or "weight"
        for position, tag in _MARKS.get(node.op_type, {}).items():
            if position < len(node.input):
                self._mark(node.input[position], tag)
        tag = explicit or self._inherited(node) or self.nodes[index]
        self.nodes[index] = tag
        for name in node.output:
            self._mark(name, tag)
        self._pass_back(node, before)

    def _inherited(self, node: NodeProto) -> Tag:
        tags = [self.values.get(name, "") for name in node.input if name]
        if node.op_type != "Concat":
            return tags[0] if tags else ""
        if "weight" in tags:
            return "weight"
        known = {tag for tag in tags if tag}
        if len(known) > 1:
            return "ambiguous"
        return next(iter(known), "")

    def _pass_back(self, node: NodeProto, before: Tag) -> None:
        if not before or not node.input:
            return
        if node.op_type in _PASSES_BACK:
            self._mark(node.input[0], before)
        elif node.op_type == "Concat" and before != "ambiguous":
            for name in node.input:
                self._mark(name, before)
        elif node.op_type in _BINARY and before == "weight":
            for name in node.input[:2]:
                self._mark(name, before)
