"""What shape inference finds out: types of values, sizes that only data decides, and why a value has no size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.limits import Limit

__all__ = ["DataDim", "Inferred", "UnknownSize", "ValueType"]


@dataclasses.dataclass(frozen=True, slots=True)
class ValueType:
    """A tensor's element type (TensorProto code) and its dimensions."""

    data_type: int
    shape: tuple[Expr, ...]

    @property
    def elements(self) -> Expr:
        """How many elements it has."""
        return Expr.product(self.shape)


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownSize:
    """Why a value has no size."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class DataDim:
    """A dimension that only data decides, such as how many elements are not zero."""

    name: str
    """The symbol that stands for it in shapes."""
    value: str
    """The value that has it first."""
    axis: int
    node: int
    """Index of the node that makes the value, in its own graph."""
    op: str
    bound: Expr | None
    """At most so large, over the dimensions that the node's inputs have; None where nothing bounds it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Inferred:
    """The values of a graph, by name, and what the bodies that its nodes run hold."""

    types: Mapping[str, ValueType | UnknownSize]
    data_dims: Mapping[str, DataDim]
    """By name: the dimensions of this graph that only data decides, those of its bodies left out."""
    bodies: Mapping[tuple[int, str], Inferred]
    """By index of the node and name of the body, as in the plan; in a loop's body, what holds in every iteration."""
    runs: Mapping[tuple[int, str], Expr] = dataclasses.field(default_factory=dict)
    """By the same: how often a body runs each time that its node does; bodies of which nobody knows are left out."""
    limits: tuple[Limit, ...] = ()
    """What has to hold for the graph to run, that of its bodies left out."""
    abbreviations: Mapping[str, Expr] = dataclasses.field(default_factory=dict)
    """Names of sizes whose expressions are too large to be handed on; those of the bodies too."""
