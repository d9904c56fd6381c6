"""One step of a recurrent cell, for all its directions at once.

States are [directions, batch, hidden], gates [gates, directions, batch, hidden], R comes from :func:`turned`. Formulas:
https://onnx.ai/onnx/operators/onnx__LSTM.html, onnx__GRU.html, onnx__RNN.html. With the usual activations a gate's
1 / (1 + exp(-x)) stays the divisor 1 + exp(-x), and the input's part of the gates comes negated: ten calls of numpy
make a step of an LSTM. Scratch: the gates of one step, and a turned copy of R for larger batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.kernels._cells import Activation

__all__ = ["Cell", "any_gru", "any_lstm", "rnn", "turned", "usual_gru", "usual_lstm"]

Step = Callable[[Array, Array, Array], None]
"""Takes the input's part of the gates, the state and where the new state goes, which must be another array."""


class Cell(NamedTuple):
    """What the loop over the steps needs."""

    step: Step
    negated: bool = False
    """True where the step wants the input's part of the gates with the opposite sign."""
    memory: Array | None = None
    """The second state of an LSTM, which each step updates."""


def turned(r: Array, gates: int, batch: int, steps: int) -> Array:
    """R [directions, gates * hidden, hidden] as matrices [directions, gates, hidden, hidden] that a state multiplies.

    A copy where products of a small batch with it are many times as fast as with a view, and there are enough of them.
    """
    hidden = r.shape[2]
    view = r.reshape(r.shape[0], gates, hidden, hidden).swapaxes(2, 3)
    return np.ascontiguousarray(view) if batch > 1 and steps > 2 else view


def _product(r: Array, out: Array) -> Callable[[Array], None]:
    """What fills *out* [gates, directions, batch, hidden], contiguous, with H R' of a state."""
    directions, gates, hidden, _ = r.shape
    if directions == 1 and out.shape[2] == 1:
        matrix, flat = r.swapaxes(2, 3).reshape(gates * hidden, hidden), out.reshape(-1)

        def single(state: Array) -> None:
            np.dot(matrix, state[0, 0], flat)

        return single
    target = out.swapaxes(0, 1)

    def many(state: Array) -> None:
        np.matmul(state[:, None], r, target)

    return many


def _clipped(limit: float, values: Array) -> None:
    if limit > 0:
        np.clip(values, -limit, limit, out=values)


def rnn(r: Array, initial: Array, function: Activation, limit: float) -> Cell:
    """H = f(X W' + H R' + bias)."""
    total = np.empty((1, *initial.shape), initial.dtype)
    product, sums = _product(r, total), total[0]

    def step(gates: Array, state: Array, out: Array) -> None:
        product(state)
        np.add(sums, gates[0], out)
        _clipped(limit, out)
        function(out)

    return Cell(step)


def usual_gru(r: Array, initial: Array, bias: Array | None, *, linear: bool) -> Cell:
    """The GRU with sigmoid and tanh; *bias* [directions, 1, hidden] belongs to H R' of the last gate.

    With Z = 1 + exp(..), the divisor of z, and n for the new content: (1 - z) * n + z * H = (H - n) / Z + n.
    """
    total = np.empty((3, *initial.shape), initial.dtype)
    both, (forget, reset, last) = total[:2], total
    one = np.ones((), initial.dtype)
    scaled = np.empty_like(initial)
    if linear:
        product = _product(r, total)
    else:
        product, second = _product(r[:, :2], both), _product(r[:, 2:], total[2:])

    def step(gates: Array, state: Array, out: Array) -> None:
        product(state)
        np.subtract(gates[:2], both, both)
        np.exp(both, both)
        np.add(both, one, both)
        if linear:
            if bias is not None:
                np.add(last, bias, last)
            np.divide(last, reset, last)
        else:
            np.divide(state, reset, scaled)
            second(scaled)
        np.subtract(gates[2], last, last)
        np.tanh(last, last)  # the new content with the opposite sign
        np.add(state, last, out)
        np.divide(out, forget, out)
        np.subtract(out, last, out)

    return Cell(step, negated=True)


def any_gru(
    r: Array,
    initial: Array,
    bias: Array | None,
    functions: Sequence[Activation],
    limit: float,
    *,
    linear: bool,
) -> Cell:
    """The GRU with any activations and a clip."""
    total = np.empty((3, *initial.shape), initial.dtype)
    both, (update, reset, last) = total[:2], total
    scaled = np.empty_like(initial)
    product, second = _product(r[:, :2], both), _product(r[:, 2:], total[2:])
    first, other = functions

    def step(gates: Array, state: Array, out: Array) -> None:
        product(state)
        np.add(both, gates[:2], both)
        _clipped(limit, both)
        first(both)
        if linear:
            second(state)
            if bias is not None:
                np.add(last, bias, last)
            np.multiply(last, reset, last)
        else:
            np.multiply(state, reset, scaled)
            second(scaled)
        np.add(last, gates[2], last)
        _clipped(limit, last)
        other(last)
        np.subtract(state, last, out)
        np.multiply(out, update, out)
        np.add(out, last, out)

    return Cell(step)


def usual_lstm(r: Array, initial: Array, memory: Array | None) -> Cell:
    """The LSTM with sigmoid and tanh, without peepholes: C = C / F + g / I, H = tanh(C) / O with the divisors."""
    total = np.empty((4, *initial.shape), initial.dtype)
    cell = np.zeros_like(initial) if memory is None else np.array(memory, order="C")
    three, (i, o, f, content) = total[:3], total
    product = _product(r, total)
    one = np.ones((), initial.dtype)

    def step(gates: Array, state: Array, out: Array) -> None:
        product(state)
        np.subtract(gates, total, total)
        np.exp(three, three)
        np.add(three, one, three)
        np.tanh(content, content)  # with the opposite sign
        np.divide(content, i, content)
        np.divide(cell, f, cell)
        np.subtract(cell, content, cell)
        np.tanh(cell, out)
        np.divide(out, o, out)

    return Cell(step, negated=True, memory=cell)


def any_lstm(
    r: Array,
    initial: Array,
    memory: Array | None,
    peepholes: Array | None,
    functions: Sequence[Activation],
    limit: float,
    *,
    forgets: bool,
) -> Cell:
    """The LSTM with any activations, *peepholes* [3, directions, 1, hidden], a clip and coupled gates."""
    total = np.empty((4, *initial.shape), initial.dtype)
    cell = np.zeros_like(initial) if memory is None else np.array(memory, order="C")
    product = _product(r, total)
    i, o, f, c = total
    first, second, third = functions

    def step(gates: Array, state: Array, out: Array) -> None:
        product(state)
        np.add(total, gates, total)
        if peepholes is not None:
            np.add(i, peepholes[0] * cell, i)
            np.add(f, peepholes[2] * cell, f)
        for part in (i, f, c):
            _clipped(limit, part)
        first(i)
        if forgets:
            np.subtract(1, i, f)
        else:
            first(f)
        second(c)
        np.multiply(cell, f, cell)
        np.multiply(c, i, c)
        np.add(cell, c, cell)
        if peepholes is not None:
            np.add(o, peepholes[1] * cell, o)
        _clipped(limit, o)
        first(o)
        np.copyto(out, cell)
        third(out)
        np.multiply(out, o, out)

    return Cell(step, memory=cell)
