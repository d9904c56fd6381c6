"""If, Loop, Scan, SequenceMap and calls of the model's functions: nodes that run graphs of their own.

A region takes (frame, op, inputs) and gives one (value, buffer) for each output, in the account of that output.
Values that a body borrows are kept alive by the frame or by the region until the body is done.
Rules: https://onnx.ai/onnx/operators/ (If, Loop, Scan, SequenceMap).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import onnx

from onnx_notebook_profiler.allocators import Allocator
from onnx_notebook_profiler.evaluator.adopt import value_bytes
from onnx_notebook_profiler.evaluator.kernel import Array, NodeSpec

if TYPE_CHECKING:
    from onnx_notebook_profiler.evaluator.frame import Frame
    from onnx_notebook_profiler.evaluator.program import BodyProgram, Op
    from onnx_notebook_profiler.evaluator.run import Holding

__all__ = ["REGION_OPERATORS", "find_region"]

Region = Callable[["Frame", "Op", Sequence[Any]], "list[Holding]"]

_SCAN_WITHOUT_BATCH = 9


def find_region(spec: NodeSpec, *, is_call: bool) -> Region | None:
    """How a node with bodies runs; None where its operator keeps its bodies to itself."""
    if is_call:
        return _call
    if spec.domain not in ("", "ai.onnx"):
        return None
    if spec.op_type == "Scan" and spec.opset < _SCAN_WITHOUT_BATCH:
        return _batched_scan
    return _REGIONS.get(spec.op_type)


def _accounts(frame: Frame, op: Op) -> list[Allocator]:
    """The allocator of each output of *op*; outputs that nobody wants are execution's."""
    accounts = [frame.run.execution] * op.output_count
    for output in op.outputs:
        accounts[output.position] = frame.accounts[output.account]
    return accounts


def _truth(value: Any) -> bool:
    if np.size(value) != 1:
        raise ValueError(f"the condition must be one bool, not {np.size(value)} elements")
    return bool(np.reshape(value, ())[()])


def _call(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    body = op.bodies[0]
    accounts = _accounts(frame, op)
    accounts += [frame.run.execution] * (len(body.program.plan.outputs) - len(accounts))
    results = frame.run_body(op, body, [(value, None) for value in inputs], accounts)
    _drop(results[op.output_count :])
    return results[: op.output_count]


def _if(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    branch = "then_branch" if _truth(inputs[0]) else "else_branch"
    body = next(body for body in op.bodies if body.name == branch)
    return frame.run_body(op, body, [], _accounts(frame, op))


def _loop(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    body = op.bodies[0]
    trips = None if inputs[0] is None else int(np.reshape(inputs[0], ())[()])
    going = len(inputs) < 2 or inputs[1] is None or _truth(inputs[1])
    states: list[Holding] = [(value, None) for value in inputs[2:]]
    count = len(states)
    accounts = _accounts(frame, op)
    scanned = len(body.program.plan.outputs) - 1 - count
    accounts += [frame.run.execution] * (count + scanned - len(accounts))
    execution = frame.run.execution
    inner = [execution, *accounts[:count], *[execution] * scanned]
    pieces: list[list[Holding]] = [[] for _ in range(scanned)]
    stacked: list[Holding] = []
    iteration = 0
    try:
        while going and (trips is None or iteration < trips):
            given = _copies(frame, (np.array(iteration, np.int64), np.array(True)), [execution] * 2)
            given += [(value, None) for value, _ in states]
            results = frame.run_body(op, body, given, inner)
            _drop(states)
            condition, states = results[:1], results[1 : count + 1]
            for kept, piece in zip(pieces, results[count + 1 :], strict=True):
                kept.append(piece)
            results.clear()
            try:
                going = _truth(condition[0][0])
            finally:
                _drop(condition)
            iteration += 1
        if iteration == 0:
            states = _copies(frame, [value for value, _ in states], accounts)
        for number, kept in enumerate(pieces):
            account = accounts[count + number]
            stacked.append(_stack(frame, body, count + 1 + number, kept, account))
    except BaseException:
        for left in (states, stacked, *pieces):
            _drop(left)
        raise
    return [*states, *stacked]


def _stack(
    frame: Frame, body: BodyProgram, number: int, pieces: list[Holding], account: Allocator
) -> Holding:
    """The scanned values of all iterations as one tensor; each piece goes once it is copied."""
    name = body.program.plan.outputs[number]
    if not pieces:
        return _hold(frame, _empty(body, number), account, name)
    first = pieces[0][0]
    holding = _hold(frame, np.empty((len(pieces), *first.shape), first.dtype), account, name)
    while pieces:
        value, buffer = pieces.pop()
        if value.shape != first.shape:
            _drop([holding, (value, buffer)])
            raise ValueError(
                f"scan output {name!r} has shape {list(first.shape)} in one iteration and "
                f"{list(value.shape)} in another: they must agree"
            )
        holding[0][len(pieces)] = value
        _drop([(value, buffer)])
    return holding


class _ScanRules(NamedTuple):
    """Axes and directions of a Scan, one entry for each scanned input or output."""

    in_axes: Sequence[int]
    backwards: Sequence[int]
    out_axes: Sequence[int]
    reversed_outputs: Sequence[int]


def _scan(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    attributes = op.spec.attributes
    scans = int(attributes["num_scan_inputs"])
    outputs = len(op.bodies[0].program.plan.outputs) - (len(inputs) - scans)
    rules = _ScanRules(
        attributes.get("scan_input_axes") or [0] * scans,
        attributes.get("scan_input_directions") or [0] * scans,
        attributes.get("scan_output_axes") or [0] * outputs,
        attributes.get("scan_output_directions") or [0] * outputs,
    )
    return _scan_steps(frame, op, inputs, rules, _accounts(frame, op))


def _batched_scan(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    """Scan of opset 8: one scan for each batch item, of a length of its own; what lies beyond that is 0."""
    attributes = op.spec.attributes
    scans = int(attributes["num_scan_inputs"])
    lengths, values = inputs[0], inputs[1:]
    count = len(values) - scans
    outputs = len(op.bodies[0].program.plan.outputs) - count
    rules = _ScanRules(
        [0] * scans, attributes.get("directions") or [0] * scans, [0] * outputs, [0] * outputs
    )
    batch, steps = values[count].shape[:2]
    execution = frame.run.execution
    accounts = _accounts(frame, op)
    accounts += [execution] * (count + outputs - len(accounts))
    results: list[Holding] = [(None, None)] * (count + outputs)
    made: list[Holding] = []
    try:
        for item in range(batch):
            length = steps if lengths is None else int(lengths.reshape(-1)[item])
            given = [value[item] for value in values[:count]]
            given += [value[item, :length] for value in values[count:]]
            made = _scan_steps(frame, op, given, rules, [execution] * len(results))
            for number, (piece, _) in enumerate(made):
                scanned = number >= count
                shape = (batch, steps, *piece.shape[1:]) if scanned else (batch, *piece.shape)
                if results[number][0] is None:
                    whole = np.zeros(shape, piece.dtype)
                    results[number] = _hold(frame, whole, accounts[number], "scan output")
                target = results[number][0][item]
                target[tuple(slice(0, size) for size in piece.shape)] = piece
            _drop(made)
    except BaseException:
        _drop(made)
        _drop(results)
        raise
    return results


def _scan_steps(
    frame: Frame, op: Op, inputs: Sequence[Any], rules: _ScanRules, accounts: list[Allocator]
) -> list[Holding]:
    """One run of the body for each step; the last states, then the scanned outputs."""
    body = op.bodies[0]
    count = len(inputs) - len(rules.in_axes)
    outputs = len(rules.out_axes)
    lengths = {value.shape[axis] for value, axis in zip(inputs[count:], rules.in_axes, strict=True)}
    if len(lengths) != 1:
        raise ValueError(f"the scanned inputs have {sorted(lengths)} steps: they must agree")
    (steps,) = lengths
    execution = frame.run.execution
    accounts = accounts + [execution] * (count + outputs - len(accounts))
    states: list[Holding] = [(value, None) for value in inputs[:count]]
    results: list[Holding] = [(None, None)] * outputs
    try:
        for step in range(steps):
            where = [steps - 1 - step if back else step for back in rules.backwards]
            given: list[Holding] = [(value, None) for value, _ in states]
            given += _slices(frame, inputs[count:], rules.in_axes, where)
            made = frame.run_body(op, body, given, [*accounts[:count], *[execution] * outputs])
            _drop(states)
            states, pieces = made[:count], made[count:]
            made.clear()
            where = [steps - 1 - step if back else step for back in rules.reversed_outputs]
            _place_all(frame, results, pieces, where, steps, rules.out_axes, accounts[count:])
        if steps == 0:
            states = _copies(frame, [value for value, _ in states], accounts)
            for number in range(outputs):
                nothing = _empty(body, count + number, rules.out_axes[number])
                results[number] = _hold(frame, nothing, accounts[count + number], "scan output")
    except BaseException:
        _drop(states)
        _drop(results)
        raise
    return [*states, *results]


def _slices(
    frame: Frame, values: Sequence[Array], axes: Sequence[int], steps: Sequence[int]
) -> list[Holding]:
    """One step of each scanned input: borrowed along the first axis, a copy along any other."""
    slices: list[Holding] = []
    try:
        for value, axis, step in zip(values, axes, steps, strict=True):
            part = np.moveaxis(value, axis, 0)[step, ...]
            if axis % value.ndim == 0:
                slices.append((part, None))
            else:
                slices.append(frame.copy_held(part, frame.run.execution, "scan input"))
    except BaseException:
        _drop(slices)
        raise
    return slices


def _place_all(
    frame: Frame,
    results: list[Holding],
    pieces: list[Holding],
    where: Sequence[int],
    steps: int,
    axes: Sequence[int],
    accounts: Sequence[Allocator],
) -> None:
    """Put the pieces of one step into the scanned outputs; each piece goes, whatever happens."""
    try:
        for number, (piece, _) in enumerate(pieces):
            results[number] = _place(
                frame,
                results[number],
                piece,
                (where[number], steps),
                axes[number],
                accounts[number],
            )
    finally:
        _drop(pieces)


def _place(
    frame: Frame,
    holding: Holding,
    piece: Array,
    where: tuple[int, int],
    axis: int,
    account: Allocator,
) -> Holding:
    """Put a step's result into the scanned output, which the first step makes."""
    step, steps = where
    axis %= piece.ndim + 1
    if holding[0] is None:
        shape = (*piece.shape[:axis], steps, *piece.shape[axis:])
        holding = _hold(frame, np.empty(shape, piece.dtype), account, "scan output")
    np.moveaxis(holding[0], axis, 0)[step, ...] = piece
    return holding


def _sequence_map(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    """The body once for each element of the first sequence; other sequences go along, tensors stay."""
    body = op.bodies[0]
    execution = frame.run.execution
    accounts = _accounts(frame, op)
    collected: list[list[Holding]] = [[] for _ in body.program.plan.outputs]
    joined: list[Holding] = []
    try:
        for position in range(len(inputs[0])):
            given: list[Holding] = [
                (value[position] if isinstance(value, list) else value, None) for value in inputs
            ]
            inner = [*accounts, *[execution] * (len(collected) - len(accounts))]
            for kept, made in zip(collected, frame.run_body(op, body, given, inner), strict=True):
                kept.append(made)
        for number in range(op.output_count):
            elements = [value for value, _ in collected[number]]
            _drop(collected[number])
            joined.append(_hold(frame, elements, accounts[number], "sequence"))
    except BaseException:
        _drop(joined)
        raise
    finally:
        for kept in collected:
            _drop(kept)
    return joined


def _hold(frame: Frame, value: Any, account: Allocator, name: str) -> Holding:
    """A value that the region made, accounted for in *account*."""
    nbytes = value_bytes(value)
    frame.make_room(nbytes, name)
    return (value, account.allocate(nbytes, name) if frame.run.accounted else None)


def _empty(body: BodyProgram, number: int, axis: int = 0) -> Array:
    """A scanned output of no iterations: its declared shape, 0 where that is not known."""
    assert body.graph is not None
    kind = body.graph.output[number].type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    shape.insert(axis % (len(shape) + 1), 0)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type or onnx.TensorProto.FLOAT)
    return np.empty(shape, dtype)


def _copies(frame: Frame, values: Sequence[Any], accounts: Sequence[Allocator]) -> list[Holding]:
    """A copy of each value in its account: all of them, or an error and none."""
    copies: list[Holding] = []
    try:
        for value, account in zip(values, accounts, strict=False):
            copies.append(frame.copy_held(value, account, "state"))
    except BaseException:
        _drop(copies)
        raise
    return copies


def _drop(holdings: list[Holding]) -> None:
    """Give back and forget values that nobody needs any more; the list is empty then, so that they really go."""
    for _, buffer in holdings:
        if buffer is not None:
            buffer.give_back()
    holdings.clear()


_REGIONS: Final[Mapping[str, Region]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
}

REGION_OPERATORS: Final = frozenset(("", name) for name in _REGIONS)
"""(domain, operator) of the nodes whose bodies run here, node by node."""
