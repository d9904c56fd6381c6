"""LSTM, GRU and RNN: X [seq, batch, input] -> Y [seq, directions, batch, hidden], Y_h, Y_c [directions, batch, hidden].

https://onnx.ai/onnx/operators/onnx__LSTM.html, onnx__GRU.html, onnx__RNN.html; with ``layout`` 1 the batch comes first.
The input's part of all gates is one matrix product for each direction, the steps add the state's part. Scratch: the
gates of all steps, seq * batch * gates * hidden numbers for each direction, and a copy of R; float16 is computed in
float32, on copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._cells import Activation, Step, cell_activations
from onnx_notebook_profiler.evaluator.kernels._lstm_steps import any_lstm, halved, plain_lstm
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["GRU", "LSTM", "RNN", "Recurrent"]


class Recurrent(Kernel):
    """What the three cells share: shapes, directions, sequence lengths, the loop over the steps."""

    gates: ClassVar[int]
    default_activations: ClassVar[tuple[str, ...]]

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
        names = list(attributes.get("activations") or ())
        names = names or [*self.default_activations] * self.directions
        wanted = len(self.default_activations) * self.directions
        if len(names) > wanted and spec.op_type == "RNN":
            names = names[:wanted]  # the schema's default is for two directions
        if len(names) != wanted:
            raise ValueError(
                f"{spec.op_type} needs {len(self.default_activations)} activations for each direction, got {names}"
            )
        self._functions = cell_activations(
            names, attributes.get("activation_alpha") or (), attributes.get("activation_beta") or ()
        )
        self.standard = [name.lower() for name in names] == [
            name.lower() for name in self.default_activations
        ] * self.directions

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Y, Y_h and, for LSTM, Y_c."""
        x, w, r = operands(self.spec, inputs, 3)
        if x.ndim != 3 or w.ndim != 3 or r.ndim != 3:
            raise ValueError(
                f"{self.spec.op_type} expects X, W and R of rank 3, got {x.shape}, {w.shape}, {r.shape}"
            )
        hidden = r.shape[2]
        batch, seq = x.shape[:2] if self._batch_first else x.shape[1::-1]
        rows = (self.directions, self.gates * hidden)
        if self.hidden not in {0, hidden} or w.shape != (*rows, x.shape[2]) or r.shape[:2] != rows:
            raise ValueError(
                f"{self.spec.op_type}: W {w.shape} and R {r.shape} do not fit X {x.shape}, {self.directions} "
                f"direction(s), hidden_size {self.hidden or hidden} and {self.gates} gates"
            )
        if self._batch_first:
            whole: tuple[int, ...] = (batch, seq, self.directions, hidden)
            last: tuple[int, ...] = (batch, self.directions, hidden)
        else:
            whole, last = (seq, self.directions, batch, hidden), (self.directions, batch, hidden)
        specs = [TensorSpec(whole, x.dtype), *[TensorSpec(last, x.dtype)] * 2]
        return specs[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Everything as the layout with the steps first has it, in the type that is computed in."""
        wide = row_type(inputs[0].dtype)
        given = [
            None if one is None else one if position == 4 else one.astype(wide, copy=False)
            for position, one in enumerate(inputs)
        ]
        given += [None] * (8 - len(given))
        x: Any = given[0]
        results = [*outputs, *[None] * (3 - len(outputs))]
        if self._batch_first:
            # [batch, seq, ...] and [batch, directions, hidden] as the other layout has them
            given[0] = x.swapaxes(0, 1)
            given[5:7] = [None if one is None else one.swapaxes(0, 1) for one in given[5:7]]
            if results[0] is not None:
                results[0] = results[0].transpose(1, 2, 0, 3)
            results[1:] = [None if one is None else one.swapaxes(0, 1) for one in results[1:]]
        self.run_directions(given, results)

    def run_directions(self, given: Sequence[Any], results: Sequence[Any]) -> None:
        """One direction after the other."""
        for direction in range(self.directions):
            self._run(direction, given, results)

    def _run(self, direction: int, given: Sequence[Any], results: Sequence[Any]) -> None:
        x, w, r, bias, lengths = given[:5]
        seq, batch, _ = x.shape
        hidden = r.shape[2]
        backwards = self._direction == "reverse" or direction == 1
        order = _order(lengths, seq, batch, backwards=backwards)
        gates = self.input_part(x, w[direction], None if bias is None else bias[direction])
        if order is not None:
            gates = np.take_along_axis(gates, order[:, :, None], axis=0)
        elif backwards:
            gates = gates[::-1]
        states = [
            np.zeros((batch, hidden), x.dtype)
            if one is None
            else np.array(one[direction], order="C")
            for one in given[5:7]
        ]
        step = self.step(direction, given, states[1])
        y = None if results[0] is None else results[0][:, direction]
        direct = (
            y is not None and y.dtype == x.dtype and lengths is None and y[:1].flags.c_contiguous
        )
        state, spare = states[0], np.empty((batch, hidden), x.dtype)
        for number in range(seq):
            place = seq - 1 - number if backwards else number
            target = spare if y is None or not direct else y[place]
            kept = None if lengths is None else states[1].copy()
            step(gates[number], state, target)
            if lengths is not None:
                done = lengths <= number
                target[done] = state[done]
                if kept is not None:
                    states[1][done] = kept[done]
                _place(y, target, number, order, done)
            elif y is not None and target is spare:
                y[place] = target
            if target is spare:
                state, spare = target, state
            else:
                state = target
        for output, value in zip(results[1:], (state, states[1]), strict=True):
            if output is not None:
                output[direction] = value

    def input_part(self, x: Array, w: Array, bias: Array | None) -> Array:
        """X W' with the biases that need no state, [seq, batch, gates * hidden]."""
        seq, batch, width = x.shape
        gates: Array
        if x.flags.c_contiguous:
            gates = np.matmul(x.reshape(seq * batch, width), w.T).reshape(seq, batch, w.shape[0])
        else:
            gates = np.matmul(x, w.T)
        if bias is not None:
            np.add(gates, self.input_bias(bias), gates)
        return gates

    def input_bias(self, bias: Array) -> Array:
        """The part of the biases Wb and Rb [2 * gates * hidden] that is added to X W'."""
        half = bias.shape[0] // 2
        both: Array = np.add(bias[:half], bias[half:])
        return both

    def functions(self, direction: int) -> Sequence[Activation]:
        """The activations of *direction*."""
        count = len(self.default_activations)
        return self._functions[direction * count : (direction + 1) * count]

    def clipped(self, values: Array) -> None:
        """Bring *values* into [-clip, clip] where there is a clip."""
        if self.clip > 0:
            np.clip(values, -self.clip, self.clip, out=values)

    def step(self, direction: int, given: Sequence[Any], cell: Array) -> Step:
        """What one step does; *cell* [batch, hidden] is the second state of an LSTM, to be updated."""
        raise NotImplementedError


def _order(lengths: Any, seq: int, batch: int, *, backwards: bool) -> Any:
    """The place of each step's input [seq, batch], where sequences of their own lengths run backwards; else None."""
    if lengths is None or not backwards:
        return None
    steps = np.arange(seq)[:, None]
    return np.where(steps < lengths, lengths - 1 - steps, steps).reshape(seq, batch)


def _place(y: Any, state: Array, number: int, order: Any, done: Array) -> None:
    """Put a step's states into Y, and zeros for the sequences that are over."""
    if y is None:
        return
    if order is None:
        y[number] = state
        y[number][done] = 0
        return
    for item, place in enumerate(order[number]):
        y[place, item] = 0 if done[item] else state[item]


@register("RNN", since_version=1)
class RNN(Recurrent):
    """H = f(X W' + H R' + Wb + Rb)."""

    gates: ClassVar[int] = 1
    default_activations: ClassVar[tuple[str, ...]] = ("Tanh",)

    def step(self, direction: int, given: Sequence[Any], cell: Array) -> Step:  # noqa: ARG002
        """One product and the activation."""
        r = given[2][direction].T
        (activate,) = self.functions(direction)

        def step(gates: Array, state: Array, out: Array) -> None:
            np.matmul(state, r, out)
            np.add(out, gates, out)
            self.clipped(out)
            activate(out)

        return step


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
            hidden = bias.shape[0] // 6
            both[2 * hidden :] = bias[2 * hidden : 3 * hidden]
        return both

    def step(self, direction: int, given: Sequence[Any], cell: Array) -> Step:
        """Two products without linear_before_reset, one with it."""
        r = given[2][direction].T
        hidden, batch = r.shape[0], cell.shape[0]
        state_bias = 0 if given[3] is None else given[3][direction][5 * hidden :]
        first, second = self.functions(direction)
        linear = self._linear
        product = np.empty((batch, 3 * hidden if linear else 2 * hidden), cell.dtype)
        reset = np.empty((batch, hidden), cell.dtype)
        both = r if linear else np.ascontiguousarray(r[:, : 2 * hidden])
        last = None if linear else np.ascontiguousarray(r[:, 2 * hidden :])

        def step(gates: Array, state: Array, out: Array) -> None:
            np.matmul(state, both, product)
            update = product[:, : 2 * hidden]
            np.add(update, gates[:, : 2 * hidden], update)
            self.clipped(update)
            first(update)
            if last is None:
                np.add(product[:, 2 * hidden :], state_bias, reset)
                np.multiply(reset, update[:, hidden:], reset)
            else:
                np.matmul(np.multiply(state, update[:, hidden:], out), last, reset)
            np.add(reset, gates[:, 2 * hidden :], reset)
            self.clipped(reset)
            second(reset)
            # (1 - z) * h + z * H = h + z * (H - h)
            np.subtract(state, reset, out)
            np.multiply(out, update[:, :hidden], out)
            np.add(out, reset, out)

        return step


@register("LSTM", since_version=1)
class LSTM(Recurrent):
    """i, o, f = f(... + P * C); C = f * C + i * g(...); H = o * h(C); gates i, o, f, c."""

    gates: ClassVar[int] = 4
    default_activations: ClassVar[tuple[str, ...]] = ("Sigmoid", "Tanh", "Tanh")

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._forgets = bool(spec.attributes.get("input_forget", 0))
        peephole = 7
        self._ordinary = (
            self.standard and not self._forgets and self.clip <= 0 and spec.input_count <= peephole
        )

    def input_part(self, x: Array, w: Array, bias: Array | None) -> Array:
        """Halved for the sigmoids where nothing is out of the ordinary."""
        gates = super().input_part(x, w, bias)
        if self._ordinary:
            three = gates[..., : 3 * (w.shape[0] // 4)]
            np.multiply(three, 0.5, three)
        return gates

    def run_directions(self, given: Sequence[Any], results: Sequence[Any]) -> None:
        """Two directions step by step together where all sequences are of one length: half as many calls of numpy."""
        if self._ordinary and self.directions == 2 and given[4] is None:
            self._run_both(given, results)
        else:
            super().run_directions(given, results)

    def _run_both(self, given: Sequence[Any], results: Sequence[Any]) -> None:
        """Gates [seq, 2, batch, 4 * hidden], the second direction's from the end; states [2, batch, hidden]."""
        x, w, r, bias = given[:4]
        seq, batch, hidden = x.shape[0], x.shape[1], r.shape[2]
        gates = np.empty((seq, 2, batch, 4 * hidden), x.dtype)
        for direction, order in ((0, 1), (1, -1)):
            own = self.input_part(x, w[direction], None if bias is None else bias[direction])
            np.copyto(gates[:, direction], own[::order])
        states = [
            np.zeros((2, batch, hidden), x.dtype) if one is None else np.array(one, order="C")
            for one in given[5:7]
        ]
        step = plain_lstm(halved(r.swapaxes(1, 2)), states[1])
        y, state, spare = results[0], states[0], np.empty((2, batch, hidden), x.dtype)
        for number in range(seq):
            step(gates[number], state, spare)
            state, spare = spare, state
            if y is not None:
                y[number, 0] = state[0]
                y[seq - 1 - number, 1] = state[1]
        for output, value in zip(results[1:], (state, states[1]), strict=True):
            if output is not None:
                output[...] = value

    def step(self, direction: int, given: Sequence[Any], cell: Array) -> Step:
        """The short way where nothing is out of the ordinary, which is nearly always."""
        peepholes = given[7]
        r = given[2][direction].T
        if self._ordinary:
            return plain_lstm(halved(r), cell)
        weights = None if peepholes is None else peepholes[direction].reshape(3, -1)
        functions = self.functions(direction)
        return any_lstm(r, cell, weights, functions, self.clipped, forgets=self._forgets)
