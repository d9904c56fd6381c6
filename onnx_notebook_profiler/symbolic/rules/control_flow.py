"""If, Loop, Scan and SequenceMap: their bodies are gone through like any other graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir
from onnx import GraphProto

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.model import body_graphs
from onnx_notebook_profiler.symbolic.engine_sizes import Shape
from onnx_notebook_profiler.symbolic.expression import Expr, maximum
from onnx_notebook_profiler.symbolic.items import Items
from onnx_notebook_profiler.symbolic.rules.registry import rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided, axis_of
from onnx_notebook_profiler.symbolic.value_types import Inferred

__all__ = ["pass_on"]

_MOST_PASSES = 4
"""A loop's body is gone through until its state keeps its shapes: each pass gives up those that it changes."""


def _body(call: Call, name: str) -> tuple[ir.Graph, GraphProto]:
    attribute = call.node.attributes.get(name)
    graph = attribute.as_graph() if attribute is not None else None
    if graph is None:
        raise Undecided(f"its {name} is missing")
    return graph, body_graphs(call.proto)[name]


def _go_through(call: Call, name: str) -> tuple[ir.Graph, Inferred]:
    graph, proto = _body(call, name)
    inference = call.inference
    inferred = inference.graph(graph, proto.node, inference.opsets)
    inference.keep_body(call, name, inferred)
    return graph, inferred


def pass_on(call: Call, result: ir.Value, output: ir.Value, inferred: Inferred) -> None:
    """A body's result is what the node gives; sizes that data decides inside are the node's own, seen from outside."""
    call.inference.hand_over(result, output)
    for size in call.inference.sizes.read(output.shape) or ():
        for name in size.symbols & inferred.data_dims.keys():
            call.inference.sizes.data_dims.setdefault(
                name,
                dataclasses.replace(
                    inferred.data_dims[name],
                    value=output.name or "",
                    node=call.index,
                    op=call.op_type,
                ),
            )


def _set(call: Call, target: ir.Value, shape: Shape | None, dtype: ir.DataType | None) -> None:
    """Start an input of a body anew."""
    call.inference.forget(target)
    if dtype is not None:
        target.type = ir.TensorType(dtype)
    if shape is not None:
        target.shape = call.inference.sizes.to_shape(shape)


# If


@rule("If")
def infer_if(call: Call) -> None:
    """What both branches give alike, or the one that a known condition chooses."""
    branches = [_go_through(call, name) for name in ("then_branch", "else_branch")]
    condition = call.numbers(0)
    if condition is not None:
        place = 0 if condition[0] else 1
        for number, name in enumerate(("then_branch", "else_branch")):
            call.inference.keep_runs(call, name, Expr.constant(int(number == place)))
        chosen, inferred = branches[place]
        for output, result in zip(call.node.outputs, chosen.outputs, strict=False):
            pass_on(call, result, output, inferred)
        return
    for output, first, second in zip(
        call.node.outputs, branches[0][0].outputs, branches[1][0].outputs, strict=False
    ):
        _merge(call, output, first, second)


def _merge(call: Call, output: ir.Value, first: ir.Value, second: ir.Value) -> None:
    inference = call.inference
    output.type = first.type if first.type is not None else second.type
    left, right = inference.items.get(first), inference.items.get(second)
    if left is not None and right is not None:
        inference.items[output] = (
            left
            if left == right
            else Items(left.dtype, None, left.common if left.common == right.common else None)
        )
        return
    shapes = [inference.sizes.read(one.shape) for one in (first, second)]
    texts = [_text(shape) for shape in shapes]
    reason = f"the branches of an If give different shapes: {texts[0]} or {texts[1]}"
    one, other = shapes
    for branch, shape in zip((first, second), shapes, strict=True):
        if shape is None:
            reason = inference.root_reason(branch)
    if one is None or other is None or len(one) != len(other):
        inference.why(output, reason)
        return
    merged = [a if a == b else call.unknown(reason) for a, b in zip(one, other, strict=True)]
    output.shape = inference.sizes.to_shape(tuple(merged))
    one_holds, other_holds = inference.content(first), inference.content(second)
    if one_holds is not None and other_holds is not None and np.array_equal(one_holds, other_holds):
        inference.set_content(output, one_holds)


def _text(shape: Shape | None) -> str:
    return "unknown" if shape is None else f"[{', '.join(map(str, shape))}]"[:120]


# Loop and Scan


class _States:
    """The state of a loop: shapes that hold in every iteration."""

    def __init__(self, call: Call, inits: Sequence[ir.Value | None]) -> None:
        self._call = call
        self._inits = inits
        self.inside: frozenset[str] = frozenset()
        """Sizes that data decides in an iteration: others have others."""
        read = call.inference.sizes.read
        self.shapes = [None if one is None else read(one.shape) for one in inits]
        self.items = [None if one is None else call.inference.items.get(one) for one in inits]

    def settle(
        self,
        targets: Sequence[ir.Value],
        run: Callable[[], tuple[ir.Graph, Inferred]],
        skipped: int,
    ) -> None:
        """Go through the body until the state that it gives looks like the state that it takes."""
        for _ in range(_MOST_PASSES + len(targets)):
            self._enter(targets)
            graph, inferred = run()
            self.inside = frozenset(inferred.data_dims)
            if not self._widen(graph.outputs[skipped:]):
                return

    def lasting(self, result: ir.Value) -> Shape | None:
        """The shape of what an iteration gives, where all iterations give it."""
        sizes = self._call.inference.sizes
        shape = sizes.read(result.shape)
        if shape is None or any(
            sizes.why_unknown(size) or size.symbols & self.inside for size in shape
        ):
            return None
        return shape

    def _enter(self, targets: Sequence[ir.Value]) -> None:
        for target, init, shape, items in zip(
            targets, self._inits, self.shapes, self.items, strict=False
        ):
            if init is None:
                continue
            _set(self._call, target, shape, None)
            target.type = init.type
            if items is not None:
                self._call.inference.items[target] = items

    def _widen(self, results: Sequence[ir.Value]) -> bool:
        """Give up what an iteration changes; False where nothing had to be."""
        changed = False
        inference = self._call.inference
        for place, result in enumerate(results[: len(self.shapes)]):
            if self.items[place] is not None:
                changed |= self._widen_items(place, inference.items.get(result))
                continue
            known, made = self.shapes[place], inference.sizes.read(result.shape)
            if known is None:
                continue
            if made is None or len(made) != len(known):
                self.shapes[place] = None
                changed = True
                continue
            wider = tuple(
                a if a == b or inference.sizes.why_unknown(a) else self._lost()
                for a, b in zip(known, made, strict=True)
            )
            changed |= wider != known
            self.shapes[place] = wider
        return changed

    def _widen_items(self, place: int, made: Items | None) -> bool:
        known = self.items[place]
        assert known is not None
        if known == made:
            return False
        common = known.common if made is not None and known.common == made.common else None
        if known.shapes == () and made is not None:
            common = made.common  # nothing in it yet
        wider = Items(known.dtype or (made.dtype if made else None), None, common)
        self.items[place] = wider
        return wider != known

    def _lost(self) -> Expr:
        return self._call.unknown("each iteration changes it")


@rule("Loop")
def infer_loop(call: Call) -> None:
    """State keeps the shapes that no iteration changes; what is stacked has one entry for each iteration.

    https://onnx.ai/onnx/operators/onnx__Loop.html
    """
    graph, _ = _body(call, "body")
    states = _States(call, call.node.inputs[2:])

    def run() -> tuple[ir.Graph, Inferred]:
        _set(call, graph.inputs[0], (), ir.DataType.INT64)
        _set(call, graph.inputs[1], (), ir.DataType.BOOL)
        starts = _true(call.content(1)) if call.has(1) else np.array(True)
        call.inference.set_content(graph.inputs[1], starts)
        return _go_through(call, "body")

    states.settle(graph.inputs[2:], run, 1)
    count = len(states.shapes)
    for place, output in enumerate(call.node.outputs[:count]):
        _leave(call, output, graph.outputs[place + 1], states, place)
    most, exact = _trips(call, graph)
    trips = most if exact else None
    for place, output in enumerate(call.node.outputs[count:], count):
        if not output.name:
            continue
        result = graph.outputs[place + 1]
        shape = states.lasting(result)
        call.give(place, None, result.dtype)
        if shape is None:
            call.inference.why(output, "what an iteration gives has no shape that all have")
            continue
        trips = call.data_dim(place, 0, most) if trips is None else trips
        call.give(place, (trips, *shape), result.dtype)
    if trips is not None:
        call.inference.keep_runs(call, "body", trips)


def _true(content: Array | None) -> Array | None:
    """A condition that is known to hold."""
    known = content is not None and content.dtype != object and bool(content.all())
    return np.array(True) if known else None


def _leave(call: Call, output: ir.Value, result: ir.Value, states: _States, place: int) -> None:
    """The final state: as it is in every iteration, and before the first."""
    inference = call.inference
    output.type = result.type
    items, shape = states.items[place], states.shapes[place]
    if items is not None:
        inference.items[output] = items
    elif shape is not None:
        output.shape = inference.sizes.to_shape(shape)
    else:
        inference.why(output, "each iteration changes its shape")


def _trips(call: Call, graph: ir.Graph) -> tuple[Expr | None, bool]:
    """How many iterations there are at most, None for any number; and whether no condition ends the loop earlier."""
    most = call.entries(0)[0] if call.has(0) and call.content(0) is not None else None
    bound = None if most is None else maximum(0, most)
    going = graph.outputs[0]
    content = call.inference.content(going)
    endless = going is graph.inputs[1] or _true(content) is not None
    starts = not call.has(1) or _true(call.content(1)) is not None
    return bound, bound is not None and endless and starts


class _Cut(NamedTuple):
    """What a scan makes of an input: its batch (before opset 9), how many slices, and the shape of each."""

    batch: Shape
    length: Expr
    slice: Shape


def _cut(shape: Shape | None, axis: int, *, batched: bool) -> _Cut | None:
    if shape is None:
        return None
    if batched:
        return _Cut(shape[:1], shape[1], shape[2:])
    place = axis_of(axis, len(shape))
    return _Cut((), shape[place], (*shape[:place], *shape[place + 1 :]))


@rule("Scan")
def infer_scan(call: Call) -> None:
    """As Loop, over slices of its inputs.

    https://onnx.ai/onnx/operators/onnx__Scan.html
    """
    graph, _ = _body(call, "body")
    attributes = call.attributes
    batched = call.opset < 9
    scanned = int(attributes["num_scan_inputs"])
    inputs = call.node.inputs[1:] if batched else call.node.inputs
    count = len(inputs) - scanned
    axes = attributes.get("scan_input_axes") or [0] * scanned
    states = _States(call, inputs[:count])
    if batched:
        states.shapes = [None if shape is None else shape[1:] for shape in states.shapes]
    shapes = [
        None if value is None else call.inference.sizes.read(value.shape)
        for value in inputs[count:]
    ]
    cuts = [_cut(shape, axis, batched=batched) for shape, axis in zip(shapes, axes, strict=True)]

    def run() -> tuple[ir.Graph, Inferred]:
        for target, value, cut in zip(graph.inputs[count:], inputs[count:], cuts, strict=True):
            _set(call, target, cut and cut.slice, None if value is None else value.dtype)
        return _go_through(call, "body")

    states.settle(graph.inputs[:count], run, 0)
    known = [cut for cut in cuts if cut is not None]
    if not known:
        raise Undecided("the length of what it scans is not known")
    length = next((cut.length for cut in known if cut.length.is_constant), known[0].length)
    lead = known[0].batch
    if not batched:
        call.inference.keep_runs(call, "body", length)
    for place, output in enumerate(call.node.outputs[:count]):
        _leave(call, output, graph.outputs[place], states, place)
        if batched and output.shape is not None:
            shape = call.inference.sizes.read(output.shape)
            assert shape is not None
            output.shape = call.inference.sizes.to_shape((*lead, *shape))
    given = attributes.get("scan_output_axes") or [0] * len(graph.outputs)
    for place, result in enumerate(graph.outputs[count:], count):
        shape = states.lasting(result)
        if shape is None:
            call.give(place, None, result.dtype)
            continue
        axis = axis_of(given[place - count], len(shape) + 1)
        call.give(place, (*lead, *shape[:axis], length, *shape[axis:]), result.dtype)


@rule("SequenceMap")
def infer_sequence_map(call: Call) -> None:
    """The body's results for the items, which have one shape."""
    graph, _ = _body(call, "body")
    inference = call.inference
    many: int | None = None
    for target, value in zip(graph.inputs, call.node.inputs, strict=False):
        items = None if value is None else inference.items.get(value)
        if value is not None and not isinstance(value.type, ir.SequenceType):
            inference.forget(target)
            inference.hand_over(value, target)
            continue
        _set(call, target, items.common if items else None, items.dtype if items else None)
        if items is not None and items.shapes is not None:
            many = len(items.shapes)
    _go_through(call, "body")
    for output, result in zip(call.node.outputs, graph.outputs, strict=False):
        shape = inference.sizes.read(result.shape)
        output.type = ir.SequenceType(ir.TensorType(result.dtype or ir.DataType.UNDEFINED))
        shapes = None if many is None else (shape,) * many
        inference.items[output] = Items(result.dtype, shapes, shape)
