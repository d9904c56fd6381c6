"""What regions do with values and the buffers that account for them: take hold of them, copy them, let them go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from onnx_notebook_profiler.allocators import Allocator
from onnx_notebook_profiler.evaluator.adopt import value_bytes
from onnx_notebook_profiler.evaluator.kernel import Array

if TYPE_CHECKING:
    from onnx_notebook_profiler.evaluator.frame import Frame
    from onnx_notebook_profiler.evaluator.program import BodyProgram, Op
    from onnx_notebook_profiler.evaluator.run import Holding

__all__ = ["accounts_of", "copies", "drop", "empty_output", "hold"]


def accounts_of(frame: Frame, op: Op) -> list[Allocator]:
    """The allocator of each output of *op*; outputs that nobody wants are execution's."""
    accounts = [frame.run.execution] * op.output_count
    for output in op.outputs:
        accounts[output.position] = frame.accounts[output.account]
    return accounts


def hold(frame: Frame, value: Any, account: Allocator, name: str) -> Holding:
    """A value that the region made, accounted for in *account*."""
    nbytes = value_bytes(value)
    frame.make_room(nbytes, name)
    return (value, account.allocate(nbytes, name) if frame.run.accounted else None)


def empty_output(body: BodyProgram, number: int, axis: int = 0) -> Array:
    """A scanned output of no iterations: its declared shape, 0 where that is not known."""
    assert body.graph is not None
    kind = body.graph.output[number].type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    shape.insert(axis % (len(shape) + 1), 0)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type or onnx.TensorProto.FLOAT)
    return np.empty(shape, dtype)


def copies(frame: Frame, values: Sequence[Any], accounts: Sequence[Allocator]) -> list[Holding]:
    """A copy of each value in its account: all of them, or an error and none."""
    made: list[Holding] = []
    try:
        for value, account in zip(values, accounts, strict=False):
            made.append(frame.copy_held(value, account, "state"))
    except BaseException:
        drop(made)
        raise
    return made


def drop(holdings: list[Holding]) -> None:
    """Give back and forget values that nobody needs any more; the list is empty then, so that they really go."""
    for _, buffer in holdings:
        if buffer is not None:
            buffer.give_back()
    holdings.clear()
