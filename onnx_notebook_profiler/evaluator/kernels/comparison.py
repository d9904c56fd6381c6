"""Comparison, logic, bits and Where, from the opset on since which they broadcast as numpy does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    BLOCK,
    BOOL,
    Elementwise,
    broadcast_shape,
    chosen_bits,
    operands,
    same_type,
)
from onnx_notebook_profiler.evaluator.registry import register

_PREDICATES: Final[Mapping[str, tuple[int, np.ufunc]]] = {
    "And": (7, np.logical_and),
    "Equal": (7, np.equal),
    "Greater": (7, np.greater),
    "GreaterOrEqual": (12, np.greater_equal),
    "Less": (7, np.less),
    "LessOrEqual": (12, np.less_equal),
    "Or": (7, np.logical_or),
    "Xor": (7, np.logical_xor),
}
_BITS: Final[Mapping[str, tuple[int, np.ufunc]]] = {
    "BitwiseAnd": (18, np.bitwise_and),
    "BitwiseOr": (18, np.bitwise_or),
    "BitwiseXor": (18, np.bitwise_xor),
}


class Predicate(Elementwise):
    """A question about pairs of elements, strings included where the operator takes them."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._ufunc = _PREDICATES[spec.op_type][1]

    def result_type(self, dtype: np.dtype[Any]) -> np.dtype[Any]:  # noqa: ARG002
        """Always bool."""
        return BOOL

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        self._ufunc(inputs[0], inputs[1], outputs[0])


class Bitwise(Elementwise):
    """An operation on the bits of integers."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._ufunc = _BITS[spec.op_type][1]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        self._ufunc(inputs[0], inputs[1], outputs[0])


for _name, (_version, _) in _PREDICATES.items():
    register(_name, since_version=_version)(Predicate)
for _name, (_version, _) in _BITS.items():
    register(_name, since_version=_version)(Bitwise)


@register("BitShift", since_version=11)
class BitShift(Elementwise):
    """Shift to the left or right; bits pushed out are lost, a sign is kept on the way right."""

    in_place: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        direction = spec.attributes.get("direction")
        if direction not in {"LEFT", "RIGHT"}:
            raise ValueError(f"BitShift expects direction LEFT or RIGHT, got {direction!r}")
        self._ufunc = np.left_shift if direction == "LEFT" else np.right_shift

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One call of the ufunc."""
        self._ufunc(inputs[0], inputs[1], outputs[0])


def _select(mask: Array, x: Array, y: Array, out: Array) -> None:
    """Integers of *x* where *mask* is true, of *y* elsewhere: y ^ ((x ^ y) & bits)."""
    bits = chosen_bits(mask, out.itemsize)
    np.bitwise_xor(x, y, out)
    np.bitwise_and(out, bits, out)
    np.bitwise_xor(out, y, out)


@register("Where", since_version=9)
class Where(Kernel):
    """Elements of the second input where the first is true, else of the third."""

    in_place: ClassVar[tuple[int, ...]] = (1, 2)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape to which all three broadcast, the type of the last two."""
        values = operands(self.spec, inputs, 3)
        if values[0].dtype != BOOL:
            raise ValueError(f"Where expects a bool condition, got {values[0].dtype}")
        return (TensorSpec(broadcast_shape(self.spec, values), same_type(self.spec, values[1:])),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Two copies, the second under the condition; for large numeric tensors by their bits."""
        mask, x, y = inputs[:3]
        out = outputs[0]
        if out is x:
            np.copyto(out, y, where=~mask)
            return
        if out is y or out.size < BLOCK or out.dtype.kind == "O" or out.itemsize > 8:
            np.copyto(out, y)
            np.copyto(out, x, where=mask)
            return
        bits = np.dtype(f"i{out.itemsize}")
        x, y, result = x.view(bits), y.view(bits), out.view(bits)
        if mask.shape != out.shape or any(v.size > 1 and v.shape != out.shape for v in (x, y)):
            _select(mask, x, y, result)
            return
        mask, x, y, result = (v.reshape(-1) for v in (mask, x, y, result))
        for start in range(0, result.size, BLOCK):
            part = slice(start, start + BLOCK)
            _select(
                mask[part],
                x if x.size == 1 else x[part],
                y if y.size == 1 else y[part],
                result[part],
            )
