"""The steps of an LSTM: the short one for what is ordinary, and the one for everything else.

https://onnx.ai/onnx/operators/onnx__LSTM.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._cells import Activation, Step

__all__ = ["any_lstm", "halved", "plain_lstm"]


def any_lstm(
    r: Array,
    cell: Array,
    peepholes: Array | None,
    functions: Sequence[Activation],
    clipped: Activation,
    *,
    forgets: bool,
) -> Step:
    """One step with everything that the operator allows.

    Args:
        r: [hidden, 4 * hidden].
        peepholes: [3, hidden] for i, o and f, or None.
        functions: f, g and h.
        clipped: Brings an array into the range of ``clip``.
        forgets: The forget gate is 1 - i.
    """
    hidden = r.shape[0]
    first, second, third = functions

    def step(gates: Array, state: Array, out: Array) -> None:
        total = np.matmul(state, r)
        total += gates
        i, o, f, c = (total[:, k * hidden : (k + 1) * hidden] for k in range(4))
        if peepholes is not None:
            i += peepholes[0] * cell
            f += peepholes[2] * cell
        for part in (i, f, c):
            clipped(part)
        first(i)
        if forgets:
            np.subtract(1, i, f)
        else:
            first(f)
        second(c)
        np.multiply(cell, f, cell)
        np.add(cell, i * c, cell)
        if peepholes is not None:
            o += peepholes[1] * cell
        clipped(o)
        first(o)
        np.copyto(out, cell)
        third(out)
        np.multiply(out, o, out)

    return step


def halved(r: Array) -> Array:
    """A copy of R' [..., hidden, 4 * hidden] in which the sigmoids' part is halved."""
    copy: Array = np.array(r, order="C")
    copy[..., : 3 * r.shape[-2]] *= 0.5
    return copy


def plain_lstm(r: Array, cell: Array) -> Step:
    """Sigmoids as tanh of the half, so that one call of tanh serves all four gates.

    Args:
        r: [..., hidden, 4 * hidden], for as many directions as *cell* [..., batch, hidden] has; halved for the
            sigmoids, as the gates of each step are.
    """
    hidden = r.shape[-2]
    total = np.empty((*cell.shape[:-1], 4 * hidden), cell.dtype)
    three, last = total[..., : 3 * hidden], total[..., 3 * hidden :]
    i, o, f = (total[..., k * hidden : (k + 1) * hidden] for k in range(3))

    def step(gates: Array, state: Array, out: Array) -> None:
        np.matmul(state, r, total)
        np.add(total, gates, total)
        np.tanh(total, total)
        np.multiply(three, 0.5, three)
        np.add(three, 0.5, three)
        np.multiply(cell, f, cell)
        np.multiply(last, i, last)
        np.add(cell, last, cell)
        np.tanh(cell, out)
        np.multiply(out, o, out)

    return step
