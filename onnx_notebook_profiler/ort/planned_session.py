"""A session's requests by the rules alone: nothing of onnxruntime is asked, and nothing runs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx import AttributeProto, TensorProto

from onnx_notebook_profiler.errors import ModelError, SizeError
from onnx_notebook_profiler.model import LoadedModel, describe_node, shorten
from onnx_notebook_profiler.ort.events import (
    PlannedEvent,
    request_bytes,
    reserved_events,
    run_events,
)
from onnx_notebook_profiler.ort.pattern import pattern_key
from onnx_notebook_profiler.ort.replay import Session, session_of
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan, plan_allocation
from onnx_notebook_profiler.plan.ort_order import is_constant
from onnx_notebook_profiler.symbolic.context import ComputeContext

__all__ = ["PlannedModel", "plan_model"]

_LARGEST_RESERVED = 127
"""Initializers of more bytes are kept outside of the arena (1.23 and later)."""


@dataclasses.dataclass(frozen=True)
class PlannedModel:
    """A model's plan and formulas: the requests of a run at any sizes."""

    model: LoadedModel
    plan: AllocationPlan
    context: ComputeContext

    name = "rules"
    is_bound = True
    caveat = (
        "What kernels ask for while they run (scratch) and packed weights are not in it: no rule gives them. "
        "So the figures are lower bounds."
    )

    @functools.cached_property
    def labels(self) -> Mapping[int, str]:
        """What each node is called."""
        return {at: describe_node(at, node) for at, node in enumerate(self.model.proto.graph.node)}

    @property
    def dims(self) -> tuple[str, ...]:
        """Its symbolic dimensions."""
        return self.context.dims

    def made(self) -> tuple[PlannedEvent, ...]:
        """What is reserved when a session is made, but for packed weights, which no rule gives: small initializers."""
        weights = _weights(self.model)
        return reserved_events({name: size for name, size in weights if size <= _LARGEST_RESERVED})

    def key(self, sizes: Mapping[str, int]) -> int:
        """The key of the memory pattern for runs of these sizes."""
        shapes = self.context.input_shapes(sizes)
        return pattern_key(shape for shape in shapes.values() if shape is not None)

    def prepare(self, sizes: Iterable[Mapping[str, int]], *, pattern: bool) -> None:
        """Nothing has to be prepared: what a run asks for follows."""

    def session(self, sizes: Sequence[Mapping[str, int]], *, pattern: bool) -> Session:
        """What a session asks for whose runs have these sizes.

        Raises:
            SizeError: As :meth:`run`.
        """
        runs = [(self.key(one), self.run(one)) for one in sizes]
        return session_of(self.made(), runs, use_patterns=pattern)

    def run(self, sizes: Mapping[str, int]) -> tuple[PlannedEvent, ...]:
        """The events of a run at these sizes without a pattern, scratch left out.

        Raises:
            SizeError: A dimension is missing or unknown, or data decides the size of a value that gets a buffer.
        """
        every = self.context.value_bytes(sizes)
        needed = {
            name: every[name] for name, one in self.plan.placements.items() if one.is_allocated
        }
        missing = [name for name, nbytes in needed.items() if nbytes is None]
        if missing:
            raise SizeError(
                f"data decides the size of {', '.join(map(shorten, missing[:3]))}"
                f"{f' and {len(missing) - 3} more' if len(missing) > 3 else ''}: the rules cannot follow it. "
                f"Trace the real onnxruntime instead (source='trace')"
            )
        nbytes = {name: size for name, size in needed.items() if size is not None}
        return run_events(self.plan, nbytes).events


def plan_model(model: LoadedModel) -> PlannedModel:
    """Plan the graph of *model* as it is: what a session with optimizations off runs.

    Raises:
        ModelError: There are nodes at which no verified rule says what onnxruntime does; the message has the first.
    """
    plan = plan_allocation(model)
    if plan.unplanned:
        first = plan.unplanned[0]
        raise ModelError(
            f"onnxruntime's plan of this model is not known at {len(plan.unplanned)} of its "
            f"{len(model.proto.graph.node)} nodes; the first is node {first.node}: {first.reason}. "
            f"Trace the real onnxruntime instead (source='trace')"
        )
    context = ComputeContext(account="onnxruntime")
    context.compute(model)
    return PlannedModel(model, plan, context)


def _weights(model: LoadedModel) -> Iterator[tuple[str, int]]:
    """Initializers and constants with their bytes."""
    graph = model.proto.graph
    for node in graph.node:
        if is_constant(node):
            sizes = {one.name: _constant_bytes(one) for one in node.attribute}
            yield from ((node.output[0], size) for size in sizes.values() if size is not None)
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.STRING:
            yield tensor.name, _tensor_bytes(tensor)


def _constant_bytes(value: AttributeProto) -> int | None:
    """Bytes of what a Constant holds; None where it is something else, or of texts."""
    if value.name == "value":
        return None if value.t.data_type == TensorProto.STRING else _tensor_bytes(value.t)
    sizes = {"value_int": 8, "value_float": 4}
    lists = {"value_ints": 8 * len(value.ints), "value_floats": 4 * len(value.floats)}
    return sizes.get(value.name, lists.get(value.name))


def _tensor_bytes(tensor: TensorProto) -> int:
    return request_bytes(tensor.data_type, tensor.dims)
