"""The plan of a graph: steps over numbered slots, and the life of every buffer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from onnx import NodeProto, SparseTensorProto, TensorProto

__all__ = ["ABSENT", "EXECUTION", "Body", "BufferPlan", "GraphPlan", "Release", "Step", "Weight"]

Weight = TensorProto | SparseTensorProto
"""A constant of a graph; a sparse one is loaded as a dense tensor."""

ABSENT = -1
"""Slot of an optional input or output that a node leaves out; no view, no buffer to free."""

EXECUTION = -1
"""Account of values that stay inside the run; 0, 1, … is the account of that output of the graph."""


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """The value in *slot* is dropped.

    *frees* is the slot whose buffer goes with it, or ABSENT while a view or the caller still needs it.
    """

    slot: int
    name: str
    frees: int


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """A graph that a node runs: a branch, a loop's body, the body of a function."""

    name: str
    """Attribute that holds it, or the function's name."""
    plan: GraphPlan
    captures: tuple[tuple[int, int], ...]
    """(slot in the owner's graph, slot in the body) of each outer value that it reads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One node. Slots index the values of its graph."""

    index: int
    node: NodeProto
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    views: tuple[int, ...]
    """For each output the position of the input that it is a view of, or ABSENT where it has bytes of its own."""
    accounts: tuple[int, ...]
    bodies: tuple[Body, ...]
    is_call: bool
    """True where the only body is that of a function of the model."""
    releases: tuple[Release, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BufferPlan:
    """The life of one buffer, with every value that shares it.

    Alive at the run_node event of each step from *born* to *last*, both included. Borrowed bytes (inputs, initializers,
    values of an outer graph) are no buffers of the graph and have no entry.
    """

    names: tuple[str, ...]
    """The value that owns the bytes, then its views."""
    account: int
    born: int
    last: int


@dataclasses.dataclass(frozen=True, slots=True)
class GraphPlan:
    """What evaluator and formulas follow."""

    name: str
    opsets: Mapping[str, int]
    slots: Mapping[str, int]
    inputs: tuple[str, ...]
    required: tuple[str, ...]
    """Inputs without an initializer."""
    initializers: Mapping[str, Weight]
    outputs: tuple[str, ...]
    captures: tuple[str, ...]
    """Names of outer graphs that this one, or a body inside it, reads."""
    steps: tuple[Step, ...]
    buffers: tuple[BufferPlan, ...]
    value_count: int
