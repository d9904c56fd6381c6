"""LSTM, GRU and RNN: X [seq, batch, input] -> Y [seq, directions, batch, hidden], Y_h, Y_c [directions, batch, hidden].

https://onnx.ai/onnx/operators/onnx__LSTM.html, onnx__GRU.html, onnx__RNN.html; with ``layout`` 1 the batch comes first.
The input's part of all gates is one matrix product for each direction and as many steps as the scratch takes, the steps
add the state's part, two directions together. Scratch: 1 MiB of gates, or those of one step where they are more, the
states of as many steps, and a turned copy of R for batches; float16 is computed in float32, on copies.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._cells import Activation, cell_activations
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.kernels._steps import (
    Cell,
    any_gru,
    any_lstm,
    rnn,
    turned,
    usual_gru,
    usual_lstm,
)
from onnx_notebook_profiler.evaluator.kernels._walk import Walk
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["GRU", "LSTM", "RNN", "Operands", "Recurrent"]

_GATES: Final = 2**18
"""Elements of gates that are computed at once, unless a single step has more."""

_NONE: Final = np.empty(0, np.intp)


class Operands(NamedTuple):
    """The inputs, in the type to compute in, with the steps first; for a cell those of its directions."""

    x: Any
    w: Any
    r: Any
    bias: Any = None
    lengths: Any = None
    state: Any = None
    memory: Any = None
    peepholes: Any = None


class Recurrent(Kernel):
    """What the cells share: shapes, directions, sequence lengths, the loop over the steps."""

    gates: ClassVar[int]
    default_activations: ClassVar[tuple[str, ...]]

    clears: ClassVar[bool] = False
    """True where the states of sequences that are over have to be 0, since steps look at all states together."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self.hidden = int(attributes.get("hidden_size", 0))
        self._direction = str(attributes.get("direction", "forward"))
        if self._direction not in {"forward", "reverse", "bidirectional"}:
            raise ValueError(
                f"direction is forward, reverse or bidirectional, not {self._direction!r}"
            )
        self.directions = 2 if self._direction == "bidirectional" else 1
        self._batch_first = bool(attributes.get("layout", 0))
        self.clip = float(attributes.get("clip", 0.0))
        count = len(self.default_activations)
        names = list(attributes.get("activations") or ())
        names = names or [*self.default_activations] * self.directions
        wanted = count * self.directions
        if len(names) > wanted and spec.op_type == "RNN":
            names = names[:wanted]  # the schema's default is for two directions
        if len(names) != wanted:
            raise ValueError(
                f"{spec.op_type} needs {count} activations for each direction, got {names}"
            )
        found = cell_activations(
            names, attributes.get("activation_alpha") or (), attributes.get("activation_beta") or ()
        )
        self._functions = [found[start : start + count] for start in range(0, wanted, count)]
        usual = [name.lower() for name in self.default_activations] * self.directions
        self.usual = [name.lower() for name in names] == usual and self.clip <= 0
        alike = self._functions[0] == self._functions[-1]
        self.together: list[slice] = (
            [slice(0, self.directions)] if alike else [slice(0, 1), slice(1, 2)]
        )

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y, Y_h and, for LSTM, Y_c."""
        x, w, r = operands(self.spec, inputs, 3)
        if x.ndim != 3 or w.ndim != 3 or r.ndim != 3:
            raise ValueError(
                f"{self.spec.op_type} expects X, W and R of rank 3, got {x.shape}, {w.shape}, {r.shape}"
            )
        hidden = r.shape[2]
        rows = (self.directions, self.gates * hidden)
        if self.hidden not in {0, hidden} or w.shape != (*rows, x.shape[2]) or r.shape[:2] != rows:
            raise ValueError(
                f"{self.spec.op_type}: W {w.shape} and R {r.shape} do not fit X {x.shape}, {self.directions} "
                f"direction(s), hidden_size {self.hidden or hidden} and {self.gates} gates"
            )
        return self.results(inputs, x, hidden)

    def results(
        self, inputs: Sequence[Array | None], x: Array, hidden: int
    ) -> Sequence[TensorSpec]:
        """The outputs, where the optional inputs fit.

        Raises:
            ValueError: One of them has another shape.
        """
        directions = self.directions
        if self._batch_first:
            batch, seq = x.shape[:2]
            whole: tuple[int, ...] = (batch, seq, directions, hidden)
            last: tuple[int, ...] = (batch, directions, hidden)
        else:
            seq, batch = x.shape[:2]
            whole, last = (seq, directions, batch, hidden), (directions, batch, hidden)
        expected = {
            "B": (directions, 2 * self.gates * hidden),
            "sequence_lens": (batch,),
            "initial_h": last,
            "initial_c": last,
            "P": (directions, 3 * hidden),
        }
        for (name, shape), value in zip(expected.items(), inputs[3:8], strict=False):
            if value is not None and value.shape != shape:
                raise ValueError(
                    f"{self.spec.op_type} expects {name} of shape {shape}, got {value.shape}"
                )
        specs = [TensorSpec(whole, x.dtype), *[TensorSpec(last, x.dtype)] * 2]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """All directions together, or one after the other where their activations differ."""
        wide = row_type(inputs[0].dtype)
        given = Operands(
            *(
                one if one is None or position == 4 else one.astype(wide, copy=False)
                for position, one in enumerate(inputs[:8])
            )
        )
        self.run(given, outputs)

    def run(self, given: Operands, outputs: Sequence[Any]) -> None:
        """Fill the outputs."""
        results = [*outputs, *[None] * (3 - len(outputs))]
        if self._batch_first:
            # [batch, seq, ...] and [batch, directions, hidden] as the other layout has them
            given = given._replace(
                x=given.x.swapaxes(0, 1),
                state=None if given.state is None else given.state.swapaxes(0, 1),
                memory=None if given.memory is None else given.memory.swapaxes(0, 1),
            )
            if results[0] is not None:
                results[0] = results[0].transpose(1, 2, 0, 3)
            results[1:] = [None if one is None else one.swapaxes(0, 1) for one in results[1:]]
        seq, lengths = given.x.shape[0], given.lengths
        if lengths is not None and lengths.size and not 0 <= lengths.min() <= lengths.max() <= seq:
            raise ValueError(
                f"{self.spec.op_type}: sequence_lens are from 0 to {seq}, got {lengths.tolist()}"
            )
        for part in self.together:
            parts = [None if one is None else one[part] for one in results[1:]]
            self._walk(part, given, None if results[0] is None else results[0][:, part], parts)

    def _walk(self, part: slice, given: Operands, y: Any, results: Sequence[Any]) -> None:
        """The steps of the directions *part*; *y* and *results* are theirs."""
        batch, hidden = given.x.shape[1], given.r.shape[-1]
        numbers = range(part.start, part.stop)
        backwards = [number == 1 or self._direction == "reverse" for number in numbers]
        walk = Walk(given.x, backwards, given.lengths)
        own = given._replace(
            w=given.w[part],
            r=turned(given.r[part], self.gates, batch, walk.steps),
            bias=None if given.bias is None else given.bias[part],
            memory=None if given.memory is None else given.memory[part],
            peepholes=None if given.peepholes is None else given.peepholes[part],
        )
        if given.state is None:
            state = np.zeros((len(numbers), batch, hidden), given.x.dtype)
        else:
            state = np.ascontiguousarray(given.state[part])
        cell = self.cell(own, state, self._functions[part.start])
        finals: list[Any] = [state, cell.memory]
        if walk.ends:
            finals = [None if one is None else np.zeros_like(one) for one in finals]
        number = 0
        done = walk.ends.get(0, _NONE) if self.clears else _NONE
        for start, stop, gates in self._gates(walk, own, negated=cell.negated):
            targets, placed = walk.targets(y, start, stop, state)
            for piece, target in zip(gates, targets, strict=True):
                cell.step(piece, state, target)
                state = target
                number += 1
                if number in walk.ends:
                    over = walk.ends[number]
                    _keep(finals, (state, cell.memory), over)
                    if self.clears:
                        state, done = state.copy(), np.concatenate((done, over))
                if done.size:
                    state[:, done] = 0
            if not placed:
                walk.place(y, targets, start, stop)
        walk.clear(y)
        if not walk.ends:
            finals[0] = state
        for output, value in zip(results, finals, strict=True):
            if output is not None:
                output[...] = value

    def _gates(
        self, walk: Walk, own: Operands, *, negated: bool
    ) -> Iterator[tuple[int, int, Array]]:
        """The steps from where to where, and their X W' with the biases [step, gate, direction, batch, hidden]."""
        directions, width = own.w.shape[0], own.w.shape[2]
        batch, hidden, count = own.x.shape[1], own.r.shape[-1], self.gates
        size = directions * count * batch * hidden
        height = max(1, min(walk.steps, _GATES // max(size, 1)))
        room = np.empty(height * size, own.x.dtype)
        offset = None
        if own.bias is not None:
            offset = self.input_bias(own.bias).reshape(directions, count, 1, hidden)
            offset = offset.swapaxes(0, 1)
            offset = np.negative(offset) if negated else offset
        for start in range(0, walk.steps, height):
            stop = min(start + height, walk.steps)
            steps, flat = stop - start, room[: (stop - start) * size]
            if batch == 1:
                gates = flat.reshape(steps, count, directions, 1, hidden)
            else:
                gates = flat.reshape(count, directions, steps, batch, hidden)
                gates = gates.transpose(2, 0, 1, 3, 4)
            for direction, w in enumerate(own.w):
                rows = walk.rows(direction, start, stop)
                if batch == directions == 1:
                    np.matmul(rows, w.T, flat.reshape(steps, count * hidden))
                    continue
                made = gates[:, :, direction].swapaxes(0, 1)
                made = made.reshape(count, steps * batch, hidden)
                np.matmul(rows, w.reshape(count, hidden, width).swapaxes(1, 2), made)
            if offset is None:
                if negated:
                    np.negative(gates, gates)
            elif negated:
                np.subtract(offset, gates, gates)
            else:
                np.add(gates, offset, gates)
            yield start, stop, gates

    def input_bias(self, bias: Array) -> Array:
        """The part of the biases Wb and Rb [directions, 2 * gates * hidden] that is added to X W'."""
        half = bias.shape[1] // 2
        both: Array = np.add(bias[:, :half], bias[:, half:])
        return both

    @abc.abstractmethod
    def cell(self, own: Operands, state: Array, functions: Sequence[Activation]) -> Cell:
        """What takes the steps, for directions with the same *functions*; *state* is the first one."""


def _keep(finals: Sequence[Any], values: Sequence[Any], over: Array) -> None:
    """Copy the states of the sequences *over*, which are those at their end."""
    for final, value in zip(finals, values, strict=True):
        if final is not None:
            final[:, over] = value[:, over]


@register("RNN", since_version=1)
class RNN(Recurrent):
    """H = f(X W' + H R' + Wb + Rb)."""

    gates: ClassVar[int] = 1
    default_activations: ClassVar[tuple[str, ...]] = ("Tanh",)

    def cell(self, own: Operands, state: Array, functions: Sequence[Activation]) -> Cell:
        """One product and the activation."""
        return rnn(own.r, state, functions[0], self.clip)


@register("GRU", since_version=1)
class GRU(Recurrent):
    """z, r = f(...); h = g(X W' + (r * H) R' + Wb + Rb), or r * (H R' + Rb) with linear_before_reset; gates z, r, h."""

    gates: ClassVar[int] = 3
    default_activations: ClassVar[tuple[str, ...]] = ("Sigmoid", "Tanh")

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._linear = bool(spec.attributes.get("linear_before_reset", 0))

    def input_bias(self, bias: Array) -> Array:
        """With linear_before_reset the reset gate applies to Rb of the last gate, too: it comes with the state."""
        both = super().input_bias(bias)
        if self._linear:
            hidden = bias.shape[1] // 6
            both[:, 2 * hidden :] = bias[:, 2 * hidden : 3 * hidden]
        return both

    def cell(self, own: Operands, state: Array, functions: Sequence[Activation]) -> Cell:
        """Two products without linear_before_reset, one with it."""
        bias = None
        if own.bias is not None and self._linear:
            bias = own.bias[:, None, 5 * state.shape[2] :]
        if self.usual:
            return usual_gru(own.r, state, bias, linear=self._linear)
        return any_gru(own.r, state, bias, functions, self.clip, linear=self._linear)


@register("LSTM", since_version=1)
class LSTM(Recurrent):
    """i, o, f = f(... + P * C); C = f * C + i * g(...); H = o * h(C); gates i, o, f, c."""

    gates: ClassVar[int] = 4
    default_activations: ClassVar[tuple[str, ...]] = ("Sigmoid", "Tanh", "Tanh")

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._forgets = bool(spec.attributes.get("input_forget", 0))

    def cell(self, own: Operands, state: Array, functions: Sequence[Activation]) -> Cell:
        """The short way where nothing is out of the ordinary, which is nearly always."""
        weights = own.peepholes
        if self.usual and weights is None and not self._forgets:
            return usual_lstm(own.r, state, own.memory)
        if weights is not None:
            weights = weights.reshape(weights.shape[0], 3, 1, -1).swapaxes(0, 1)
        return any_lstm(
            own.r, state, own.memory, weights, functions, self.clip, forgets=self._forgets
        )
