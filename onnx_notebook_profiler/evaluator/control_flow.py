"""If, Loop, Scan, SequenceMap and calls of the model's functions: nodes that run graphs of their own.

A region takes (frame, op, inputs) and gives one (value, buffer) for each output, in the account of that output.
Values that a body borrows are kept alive by the frame or by the region until the body is done.
Rules: https://onnx.ai/onnx/operators/ (If, Loop, Scan, SequenceMap).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from onnx_notebook_profiler.allocators import Allocator
from onnx_notebook_profiler.evaluator.holdings import accounts_of, copies, drop, empty_output, hold
from onnx_notebook_profiler.evaluator.kernel import NodeSpec
from onnx_notebook_profiler.evaluator.scan_loop import batched_scan, scan

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
        return batched_scan
    return _REGIONS.get(spec.op_type)


def _truth(value: Any) -> bool:
    if np.size(value) != 1:
        raise ValueError(f"the condition must be one bool, not {np.size(value)} elements")
    return bool(np.reshape(value, ())[()])


def _call(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    body = op.bodies[0]
    accounts = accounts_of(frame, op)
    accounts += [frame.run.execution] * (len(body.program.plan.outputs) - len(accounts))
    results = frame.run_body(op, body, [(value, None) for value in inputs], accounts)
    drop(results[op.output_count :])
    return results[: op.output_count]


def _if(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    branch = "then_branch" if _truth(inputs[0]) else "else_branch"
    body = next(body for body in op.bodies if body.name == branch)
    return frame.run_body(op, body, [], accounts_of(frame, op))


def _loop(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    body = op.bodies[0]
    trips = None if inputs[0] is None else int(np.reshape(inputs[0], ())[()])
    going = len(inputs) < 2 or inputs[1] is None or _truth(inputs[1])
    states: list[Holding] = [(value, None) for value in inputs[2:]]
    count = len(states)
    accounts = accounts_of(frame, op)
    scanned = len(body.program.plan.outputs) - 1 - count
    accounts += [frame.run.execution] * (count + scanned - len(accounts))
    execution = frame.run.execution
    inner = [execution, *accounts[:count], *[execution] * scanned]
    pieces: list[list[Holding]] = [[] for _ in range(scanned)]
    stacked: list[Holding] = []
    iteration = 0
    try:
        while going and (trips is None or iteration < trips):
            given = copies(frame, (np.array(iteration, np.int64), np.array(True)), [execution] * 2)
            given += [(value, None) for value, _ in states]
            results = frame.run_body(op, body, given, inner)
            drop(states)
            condition, states = results[:1], results[1 : count + 1]
            for kept, piece in zip(pieces, results[count + 1 :], strict=True):
                kept.append(piece)
            results.clear()
            try:
                going = _truth(condition[0][0])
            finally:
                drop(condition)
            iteration += 1
        if iteration == 0:
            states = copies(frame, [value for value, _ in states], accounts)
        for number, kept in enumerate(pieces):
            account = accounts[count + number]
            stacked.append(_stack(frame, body, count + 1 + number, kept, account))
    except BaseException:
        for left in (states, stacked, *pieces):
            drop(left)
        raise
    return [*states, *stacked]


def _stack(
    frame: Frame, body: BodyProgram, number: int, pieces: list[Holding], account: Allocator
) -> Holding:
    """The scanned values of all iterations as one tensor; each piece goes once it is copied."""
    name = body.program.plan.outputs[number]
    if not pieces:
        return hold(frame, empty_output(body, number), account, name)
    first = pieces[0][0]
    holding = hold(frame, np.empty((len(pieces), *first.shape), first.dtype), account, name)
    while pieces:
        value, buffer = pieces.pop()
        if value.shape != first.shape:
            drop([holding, (value, buffer)])
            raise ValueError(
                f"scan output {name!r} has shape {list(first.shape)} in one iteration and "
                f"{list(value.shape)} in another: they must agree"
            )
        holding[0][len(pieces)] = value
        drop([(value, buffer)])
    return holding


def _sequence_map(frame: Frame, op: Op, inputs: Sequence[Any]) -> list[Holding]:
    """The body once for each element of the first sequence; other sequences go along, tensors stay."""
    body = op.bodies[0]
    execution = frame.run.execution
    accounts = accounts_of(frame, op)
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
            drop(collected[number])
            joined.append(hold(frame, elements, accounts[number], "sequence"))
    except BaseException:
        drop(joined)
        raise
    finally:
        for kept in collected:
            drop(kept)
    return joined


_REGIONS: Final[Mapping[str, Region]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": scan,
    "SequenceMap": _sequence_map,
}

REGION_OPERATORS: Final = frozenset(("", name) for name in _REGIONS)
"""(domain, operator) of the nodes whose bodies run here, node by node."""
