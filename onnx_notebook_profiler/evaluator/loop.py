"""The loop over the nodes of a graph, and what it writes into the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_notebook_profiler.evaluator.failures import explained
from onnx_notebook_profiler.evaluator.scratch import held_bytes
from onnx_notebook_profiler.evaluator.tiers import ONNXRUNTIME
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.rows import STEP, first_of
from onnx_notebook_profiler.plan.graph_plan import ABSENT

if TYPE_CHECKING:
    from onnx_notebook_profiler.evaluator.frame import Frame
    from onnx_notebook_profiler.evaluator.program import Op

__all__ = ["execute"]

# Plain integers: the members of an IntEnum cost more to put into a row and to compare.
_ADD = int(RuntimeEventAction.ADD)
_REMOVE = int(RuntimeEventAction.REMOVE)
_RUN_NODE = int(RuntimeEventAction.RUN_NODE)
_FAIL_NODE = int(RuntimeEventAction.FAIL_NODE)

_NOTHING = np.empty(0)


def execute(frame: Frame) -> None:  # noqa: C901, PLR0912, PLR0915 - one loop, whose calls would cost more than small nodes
    """Run every node of *frame* in order.

    Raises:
        KernelError, AllocationError: A node failed; the message names it. The log ends with its ``fail_node``.
    """
    run, values, buffers, scope = frame.run, frame.values, frame.buffers, frame.scope
    append, accounted, observe_node = run.append, run.accounted, run.observe_node
    unchecked, meter, release = run.limit.unchecked, run.meter, run.release
    merged = append is not None and run.merges and release and meter is None
    started, ended, empty, clock = 0, 0, np.empty, perf_counter_ns
    for op in frame.program.ops:
        inputs = op.fetch(values)
        if append is not None:
            if meter is not None:
                meter.begin()
            started = clock()
        direct, plan, held = op.direct, None, 0  # a kernel that gives up changes the op
        try:
            if direct is not None:
                # One output, nearly every node: Frame.compute without its generality.
                slot, view, account, name, compute = direct
                if (plan := op.fixed) is None:
                    plans = frame.output_plans(op, inputs)
                    plan = plans[0] if plans else None
                if plan is None:
                    frame.take_results(op, inputs)
                elif view != ABSENT:
                    value = values[slot] = inputs[view].reshape(plan[0])
                else:
                    shape, dtype, held, _ = plan
                    if held > unchecked:
                        frame.make_room(held, name)
                    if accounted:
                        buffers[slot] = frame.accounts[account].allocate(held, name)
                    value = values[slot] = empty(shape, dtype)
                    compute(inputs, (value,))
            elif op.constant is not None:
                plan, value = op.constant
                held = plan[2]
                frame.lend(op.outputs[0], held, value)
            elif op.kernel is not None:
                frame.compute(op, inputs)
            elif op.adopting is not None:
                frame.take_results(op, inputs)
            else:
                frame.run_region(op, inputs)
        except BaseException as error:
            _write_failure(frame, op, started, error)
            if isinstance(error, Exception):
                # In no variable: its traceback would refer to it, and hold the values of the run.
                raise explained(op, inputs, error) from error
            raise
        if merged and plan is not None and (stamp := op.stamp) is not None:
            # One row for all events of the node.
            ended = clock()
            shape, dtype, _, small = plan
            first = value.tobytes() if small else first_of(value)
            inputs, value = (), _NOTHING  # what is released must really go
            if accounted:
                memory = run.memory()
                lives = _release(frame, op, ended, None)
            else:
                memory, held, lives = (0, 0, 0, 0), 0, stamp.zeros
                for slot, _, _ in op.releases:
                    values[slot] = None
            append((STEP, started, ended, scope, *memory, stamp, held, dtype, shape, first, lives))  # type: ignore[misc]
        else:
            if append is not None:
                ended = _write_node(frame, op, started)
            inputs, value = (), _NOTHING
            if release and op.releases:
                if append is not None or accounted:
                    _release(frame, op, ended, append)
                else:
                    for slot, _, _ in op.releases:
                        values[slot] = None
        if observe_node is not None:
            observe_node(op, scope)


def _release(
    frame: Frame, op: Op, now: int, append: Callable[[tuple[Any, ...]], None] | None
) -> Sequence[int]:
    """Drop what no later node reads, with an event for each tensor where *append* writes one.

    Returns:
        The live bytes of the execution account after each value: the plan frees only what that account holds.
    """
    values, buffers, run = frame.values, frame.buffers, frame.run
    execution, lives = run.execution, []
    for slot, frees, name in op.releases:
        shown = append is not None and isinstance(values[slot], np.ndarray)
        values[slot] = None
        if frees != ABSENT:
            buffer = buffers[frees]
            if buffer is not None:
                buffers[frees] = None
                execution.free(buffer)
        lives.append(execution.total_allocated_size)
        if shown and append is not None:
            append((_REMOVE, now, frame.scope, *run.memory(), name))
    return lives


def _write_node(frame: Frame, op: Op, started: int) -> int:
    """The add events of a node's outputs, then its run_node event; all at one instant, which is returned."""
    now = perf_counter_ns()
    run, scope, index, call = frame.run, frame.scope, op.index, op.call
    append, scratch = run.append, None
    assert append is not None
    if frame.taken != ABSENT:
        call = call._replace(in_place=call.inputs[frame.taken])
    if run.meter is not None:
        scratch = _scratch(frame, op)
    frame.taken = ABSENT
    memory = run.memory()
    for output in op.outputs:
        value, buffer = frame.values[output.slot], frame.buffers[output.slot]
        if isinstance(value, np.ndarray):
            held = buffer.nbytes if buffer is not None else 0
            seen = (value.dtype, value.shape, first_of(value))
            append((_ADD, now, scope, *memory, op.kind, output.name, index, held, *seen))
    append((_RUN_NODE, started, scope, *memory, index, call, now - started, "", scratch))
    return now


def _scratch(frame: Frame, op: Op) -> int | None:
    """What the meter says of the node that has just run; None where its memory is not numpy's."""
    assert frame.run.meter is not None
    fresh = [
        frame.values[output.slot]
        for output in op.outputs
        if output.view == ABSENT and (output.position or frame.taken == ABSENT)
    ]
    if op.constant is not None:
        fresh = []
    return frame.run.meter.end(
        held_bytes(fresh),
        has_bodies=op.region is not None,
        is_seen=op.call.tier != ONNXRUNTIME,
    )


def _write_failure(frame: Frame, op: Op, started: int, error: BaseException) -> None:
    """The ``fail_node`` event."""
    append = frame.run.append
    if append is not None:
        took = perf_counter_ns() - started
        reason = f"{type(error).__name__}: {error}"
        head = (_FAIL_NODE, started, frame.scope, *frame.run.memory())
        append((*head, op.index, op.call, took, reason, None))
