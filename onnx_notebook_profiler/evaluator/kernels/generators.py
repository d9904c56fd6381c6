"""Operators that make a tensor of shapes, attributes or scalars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import (
    FLOAT32,
    INT64,
    element_type,
    integers,
    operands,
    same_type,
    work_type,
)
from onnx_notebook_profiler.evaluator.registry import register

_VALUE_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "value_float": FLOAT32,
    "value_floats": FLOAT32,
    "value_int": INT64,
    "value_ints": INT64,
    "value_string": np.dtype(object),
    "value_strings": np.dtype(object),
}


@register("Shape", since_version=1)
class Shape(Kernel):
    """The dimensions of a tensor, or a slice of them."""

    of_shapes: ClassVar[bool] = True

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._slice = slice(spec.attributes.get("start", 0), spec.attributes.get("end"))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One int64 for each dimension."""
        x = operands(self.spec, inputs, 1)[0]
        return (TensorSpec((len(x.shape[self._slice]),), INT64),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Write the dimensions."""
        outputs[0][:] = inputs[0].shape[self._slice]


@register("Size", since_version=1)
class Size(Kernel):
    """The number of elements of a tensor."""

    of_shapes: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """An int64 scalar."""
        operands(self.spec, inputs, 1)
        return (TensorSpec((), INT64),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Write the number."""
        outputs[0].fill(inputs[0].size)


@register("ConstantOfShape", since_version=9)
class ConstantOfShape(Kernel):
    """One value, by default a float32 zero, in every element of a given shape."""

    value_inputs: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        value = spec.attributes.get("value")
        self._value = np.zeros((), FLOAT32) if value is None else value
        if self._value.size != 1:
            raise ValueError(f"ConstantOfShape expects one value, got {self._value.size}")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape that the input lists, the type of the value."""
        operands(self.spec, inputs, 1)
        shape = tuple(integers(inputs, 0) or ())
        if min(shape, default=0) < 0:
            raise ValueError(f"ConstantOfShape expects sizes of 0 or more, got {shape}")
        return (TensorSpec(shape, self._value.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:  # noqa: ARG002
        """Fill."""
        np.copyto(outputs[0], self._value.reshape(()))


@register("Constant", since_version=1)
class Constant(Kernel):
    """A tensor from an attribute; one in sparse form is left to others."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        if "sparse_value" in spec.attributes:
            raise UnsupportedOperatorError("Constant with a sparse value")
        self._value = self._read()
        self.constant = self._value.view()
        self.constant.flags.writeable = False

    def _read(self) -> Array:
        found = [name for name in self.spec.attributes if name.startswith("value")]
        if len(found) != 1:
            raise ValueError(f"Constant expects exactly one value, got {found or 'none'}")
        value = self.spec.attributes[found[0]]
        if found[0] == "value":
            tensor: Array = value
            return tensor
        if found[0] not in _VALUE_TYPES:
            raise ValueError(f"Constant has the unknown attribute {found[0]!r}")
        return np.array(value, _VALUE_TYPES[found[0]])

    @property
    def value(self) -> Array:
        """The tensor itself; not to be written to."""
        return self._value

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:  # noqa: ARG002
        """Shape and type of the tensor."""
        return (TensorSpec(self._value.shape, self._value.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:  # noqa: ARG002
        """Copy."""
        np.copyto(outputs[0], self._value)


@register("Range", since_version=11)
class Range(Kernel):
    """``start + i * delta`` for as long as it has not reached the limit."""

    value_inputs: ClassVar[tuple[int, ...]] = (0, 1, 2)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """``ceil((limit - start) / delta)`` elements; floats are divided in float64."""
        values = operands(self.spec, inputs, 3)
        dtype = same_type(self.spec, values)
        if any(value.size != 1 for value in values):
            raise ValueError(f"Range expects scalars, got shapes {[v.shape for v in values]}")
        wide = work_type(dtype)
        start, limit, delta = (value.reshape(-1).astype(wide) for value in values)
        if delta[0] == 0:
            raise ValueError("Range expects a delta other than 0")
        if dtype.kind in "iu":
            count = -((int(start[0]) - int(limit[0])) // int(delta[0]))
        else:
            steps = float((limit - start)[0]) / float(delta[0])
            if not math.isfinite(steps):
                raise ValueError("Range has no number of elements for these inputs")
            count = math.ceil(steps)
        return (TensorSpec((max(count, 0),), dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Number the elements, then scale and move them; narrow floats in float32."""
        out = outputs[0]
        wide = work_type(out.dtype)
        start, delta = (inputs[i].reshape(()).astype(wide) for i in (0, 2))
        total = out if wide == out.dtype else np.empty(out.shape, wide)
        np.copyto(total, np.arange(out.size), casting="unsafe")
        np.multiply(total, delta, total)
        np.add(total, start, total)
        if total is not out:
            np.copyto(out, total, casting="unsafe")


@register("EyeLike", since_version=9)
class EyeLike(Kernel):
    """Ones on one diagonal of a matrix, zeros elsewhere."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        number = spec.attributes.get("dtype")
        self._dtype = None if number is None else element_type(number)
        self._offset: int = spec.attributes.get("k", 0)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of the input, and its type unless an attribute names another."""
        x = operands(self.spec, inputs, 1)[0]
        if x.ndim != 2:
            raise ValueError(f"EyeLike expects a matrix, got shape {x.shape}")
        return (TensorSpec(x.shape, self._dtype or x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:  # noqa: ARG002
        """Zeros, then every (columns + 1)-th element of the flat output."""
        out = outputs[0]
        rows, columns = out.shape
        down, right = max(-self._offset, 0), max(self._offset, 0)
        count = min(rows - down, columns - right)
        out.fill(0)
        if count > 0:
            first = down * columns + right
            out.reshape(-1)[first : first + (count - 1) * (columns + 1) + 1 : columns + 1] = 1
