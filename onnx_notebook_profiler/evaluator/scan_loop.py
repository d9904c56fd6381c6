"""Scan: a body run once for each step of the scanned inputs, whose results are put together along an axis.

https://onnx.ai/onnx/operators/onnx__Scan.html. Opset 8 scans each item of a batch by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onnx_notebook_profiler.allocators import Allocator
from onnx_notebook_profiler.evaluator.holdings import accounts_of, copies, drop, empty_output, hold
from onnx_notebook_profiler.evaluator.kernel import Array

if TYPE_CHECKING:
    from onnx_notebook_profiler.evaluator.frame import Frame
    from onnx_notebook_profiler.evaluator.program import Op
    from onnx_notebook_profiler.evaluator.run import Holding

__all__ = ["batched_scan", "scan"]


class _ScanRules(NamedTuple):
    """Axes and directions of a Scan, one entry for each scanned input or output."""

    in_axes: Sequence[int]
    backwards: Sequence[int]
    out_axes: Sequence[int]
    reversed_outputs: Sequence[int]


def scan(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    """Scan since opset 9: states, then scanned inputs, along any axis and in any direction."""
    attributes = op.spec.attributes
    scans = int(attributes["num_scan_inputs"])
    outputs = len(op.bodies[0].program.plan.outputs) - (len(inputs) - scans)
    rules = _ScanRules(
        attributes.get("scan_input_axes") or [0] * scans,
        attributes.get("scan_input_directions") or [0] * scans,
        attributes.get("scan_output_axes") or [0] * outputs,
        attributes.get("scan_output_directions") or [0] * outputs,
    )
    return _scan_steps(frame, op, inputs, rules, accounts_of(frame, op))


def batched_scan(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    """Scan of opset 8: one scan for each batch item, of a length of its own; outputs are 0 beyond it."""
    attributes = op.spec.attributes
    scans = int(attributes["num_scan_inputs"])
    lengths, values = inputs[0], inputs[1:]
    count = len(values) - scans
    outputs = len(op.bodies[0].program.plan.outputs) - count
    rules = _ScanRules(
        [0] * scans, attributes.get("directions") or [0] * scans, [0] * outputs, [0] * outputs
    )
    batch, steps = _batch_of(values, count)
    going = [steps] * batch if lengths is None else lengths.reshape(-1).tolist()
    if len(going) != batch or not all(0 <= length <= steps for length in going):
        raise ValueError(
            f"sequence_lens has a number from 0 to {steps} for each of the {batch} batch items, not {going}"
        )
    execution = frame.run.execution
    accounts = accounts_of(frame, op)
    accounts += [execution] * (count + outputs - len(accounts))
    results: list[Holding] = [(None, None)] * (count + outputs)
    made: list[Holding] = []
    try:
        for item, length in enumerate(going):
            given = [value[item, ...] for value in values[:count]]
            given += [value[item, :length] for value in values[count:]]
            made = _scan_steps(frame, op, given, rules, [execution] * len(results))
            for number in range(len(made)):
                room = (batch,) if number < count else (batch, steps)
                if length or number < count:
                    _place_item(frame, results, made, number, (item, room), accounts[number])
            drop(made)
        for number, (whole, _) in enumerate(results):
            if whole is None:
                nothing = _nothing_of(op, values, number, count, (batch, steps))
                results[number] = hold(frame, nothing, accounts[number], "scan output")
    except BaseException:
        drop(made)
        drop(results)
        raise
    return results


def _batch_of(values: Sequence[Array], count: int) -> tuple[int, int]:
    """Batch items and steps that the values agree on: states [batch, ...], scanned inputs [batch, steps, ...]."""
    found = {value.shape[:1] for value in values[:count]}
    sizes = {value.shape[:2] for value in values[count:]}
    if len(sizes) != 1 or len(found | {size[:1] for size in sizes}) != 1:
        shapes = [list(value.shape) for value in values]
        raise ValueError(
            f"states begin with the batch, scanned inputs with batch and steps: these shapes differ there: {shapes}"
        )
    ((batch, steps),) = sizes
    return batch, steps


def _nothing_of(
    op: Op, values: Sequence[Array], number: int, count: int, room: tuple[int, int]
) -> Array:
    """An output that no step of any batch item has made."""
    if number < count:
        return np.zeros_like(values[number])
    element = empty_output(op.bodies[0], number)
    return np.zeros((*room, *element.shape[1:]), element.dtype)


def _place_item(
    frame: Frame,
    results: list[Holding],
    made: list[Holding],
    number: int,
    where: tuple[int, tuple[int, ...]],
    account: Allocator,
) -> None:
    """Put what one batch item has made into the output of all, which the first one makes: *room* by an element."""
    item, room = where
    piece = made[number][0]
    element = piece.shape[len(room) - 1 :]
    if results[number][0] is None:
        whole = np.zeros((*room, *element), piece.dtype)
        results[number] = hold(frame, whole, account, "scan output")
    whole = results[number][0]
    if whole.shape[len(room) :] != element:
        raise ValueError(
            f"output {number} of Scan has elements of shape {list(whole.shape[len(room) :])} in one batch item and "
            f"{list(element)} in another: they must agree"
        )
    whole[(item, *map(slice, piece.shape))] = piece


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
            drop(states)
            states, pieces = made[:count], made[count:]
            made.clear()
            where = [steps - 1 - step if back else step for back in rules.reversed_outputs]
            _place_all(frame, results, pieces, where, steps, rules.out_axes, accounts[count:])
        if steps == 0:
            states = copies(frame, [value for value, _ in states], accounts)
            for number in range(outputs):
                nothing = empty_output(body, count + number, rules.out_axes[number])
                results[number] = hold(frame, nothing, accounts[count + number], "scan output")
    except BaseException:
        drop(states)
        drop(results)
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
        drop(slices)
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
        drop(pieces)


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
        holding = hold(frame, np.empty(shape, piece.dtype), account, "scan output")
    np.moveaxis(holding[0], axis, 0)[step, ...] = piece
    return holding
