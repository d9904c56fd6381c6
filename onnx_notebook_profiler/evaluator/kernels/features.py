"""Preparing features: Scaler, Normalizer, Imputer, Binarizer, OneHotEncoder, ArrayFeatureExtractor, FeatureVectorizer.

https://onnx.ai/onnx/operators/ under ai.onnx.ml. No scratch beyond one tensor of the input's size in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = [
    "ArrayFeatureExtractor",
    "Binarizer",
    "FeatureVectorizer",
    "Imputer",
    "Normalizer",
    "OneHotEncoder",
    "Scaler",
]

_ML = "ai.onnx.ml"


@register("Scaler", since_version=1, domain=_ML)
class Scaler(Kernel):
    """(X - offset) * scale, one number for each feature or one for all."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._offset = np.asarray(spec.attributes.get("offset") or [0], np.float32)
        self._scale = np.asarray(spec.attributes.get("scale") or [1], np.float32)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of X, float32."""
        (x,) = operands(self.spec, inputs, 1)
        for name, value in (("offset", self._offset), ("scale", self._scale)):
            if len(value) not in {1, x.shape[-1] if x.ndim else 1}:
                raise ValueError(f"Scaler: {len(value)} numbers of {name} for X {x.shape}")
        return (TensorSpec(x.shape, FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Two passes."""
        (y,) = outputs
        np.subtract(inputs[0], self._offset, y, casting="unsafe")
        np.multiply(y, self._scale, y)


@register("Normalizer", since_version=1, domain=_ML)
class Normalizer(Kernel):
    """Rows of X [N, C] divided by their MAX, L1 or L2 norm; rows of norm 0 stay."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._norm = str(spec.attributes.get("norm", "MAX"))
        if self._norm not in {"MAX", "L1", "L2"}:
            raise ValueError(f"norm is MAX, L1 or L2, not {self._norm!r}")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of X, float32."""
        (x,) = operands(self.spec, inputs, 1)
        if x.ndim not in {1, 2}:
            raise ValueError(f"Normalizer expects X [C] or [N, C], got {x.shape}")
        return (TensorSpec(x.shape, FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Norms, then one division."""
        x = inputs[0].astype(FLOAT32, copy=False)
        if self._norm == "MAX":
            norm = x.max(axis=-1, keepdims=True, initial=-np.inf)
        elif self._norm == "L1":
            norm = np.abs(x).sum(axis=-1, keepdims=True)
        else:
            norm = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
        norm[norm == 0] = 1
        np.divide(x, norm, outputs[0])


@register("Imputer", since_version=1, domain=_ML)
class Imputer(Kernel):
    """Elements equal to replaced_value (NaN included) become that of their feature."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        floats = attributes.get("imputed_value_floats")
        whole = attributes.get("imputed_value_int64s")
        if not floats and not whole:
            raise ValueError("Imputer needs imputed_value_floats or imputed_value_int64s")
        of_floats = (
            np.asarray(floats or (), np.float32),
            attributes.get("replaced_value_float", 0.0),
        )
        of_integers = (np.asarray(whole or (), np.int64), attributes.get("replaced_value_int64", 0))
        self._floats: tuple[Array, Any] = of_floats if floats else of_integers
        self._integers: tuple[Array, Any] = of_integers if whole else of_floats

    def _of(self, x: Array) -> tuple[Array, Any]:
        """What to put into X, and in whose place: the attributes of X's kind, or else the others."""
        return self._floats if x.dtype.kind == "f" else self._integers

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        (x,) = operands(self.spec, inputs, 1)
        values, _ = self._of(x)
        if values.size not in {1, x.shape[-1] if x.ndim else 1}:
            raise ValueError(f"Imputer: {values.size} values for X {x.shape}")
        if x.dtype.kind in "iu" and (values != np.trunc(values)).any():
            raise ValueError(f"Imputer cannot put {values.tolist()} into X of {x.dtype}")
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Copy, then replace."""
        x, (y,) = inputs[0], outputs
        np.copyto(y, x)
        values, replaced = self._of(x)
        mask = np.isnan(x) if math.isnan(replaced) else x == replaced
        np.copyto(y, values, where=mask, casting="unsafe")


@register("Binarizer", since_version=1, domain=_ML)
class Binarizer(Kernel):
    """1 where X is greater than the threshold, else 0."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec(x.shape, x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One comparison."""
        threshold = self.spec.attributes.get("threshold", 0.0)
        if inputs[0].dtype.kind in "iu" and math.isfinite(threshold):
            threshold = math.floor(threshold)
        np.copyto(outputs[0], inputs[0] > threshold)


@register("OneHotEncoder", since_version=1, domain=_ML)
class OneHotEncoder(Kernel):
    """X [...] -> Y [..., categories]; unknown ones are all zeros, or an error without ``zeros``."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        texts = spec.attributes.get("cats_strings")
        self._categories = list(texts or spec.attributes.get("cats_int64s") or ())
        self._positions = {category: i for i, category in enumerate(self._categories)}
        self._zeros = bool(spec.attributes.get("zeros", 1))
        self._sorted: Any = None
        if not texts:
            order = np.argsort(np.asarray(self._categories, np.int64), kind="stable")
            self._sorted = (np.asarray(self._categories, np.int64)[order], order)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One more axis, float32."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec((*x.shape, len(self._categories)), FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Find the position of each element and put a one there."""
        x = inputs[0].reshape(-1)
        y = outputs[0].reshape(x.size, len(self._categories))
        y.fill(0)
        if self._sorted is None:
            found = np.fromiter(
                (self._positions.get(one, -1) for one in x.tolist()), np.intp, x.size
            )
        else:
            values, order = self._sorted
            with np.errstate(invalid="ignore"):
                whole = x.astype(np.int64)
            place = np.searchsorted(values, whole, side="right") - 1
            place[place < 0] = 0
            found = np.where(values[place] == whole, order[place], -1) if len(values) else place - 1
        known = found >= 0
        if not self._zeros and not known.all():
            strange = x[~known][0]
            raise ValueError(
                f"{strange!r} is none of the {len(self._categories)} categories, and zeros is 0"
            )
        rows = np.flatnonzero(known)
        y[rows, found[rows]] = 1


@register("ArrayFeatureExtractor", since_version=1, domain=_ML)
class ArrayFeatureExtractor(Kernel):
    """The elements of the last axis of X that Y [n] lists."""

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[..., n]; a vector becomes [1, n]."""
        x, indices = operands(self.spec, inputs, 2)
        if not x.ndim:
            raise ValueError("ArrayFeatureExtractor expects X of rank 1 or more, got a scalar")
        lead = x.shape[:-1] if x.ndim > 1 else (1,)
        return (TensorSpec((*lead, indices.size), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One take."""
        x, indices = inputs[0], inputs[1].reshape(-1)
        size = x.shape[-1]
        if indices.size and not ((indices >= 0) & (indices < size)).all():
            raise ValueError(f"indices are from 0 to {size - 1}, got {indices.tolist()[:8]}")
        source = x if x.ndim > 1 else x[None]
        outputs[0][...] = np.take(source, indices, axis=-1)


@register("FeatureVectorizer", since_version=1, domain=_ML)
class FeatureVectorizer(Kernel):
    """All inputs side by side as float32, each cut or filled with zeros to its length."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._lengths = [int(one) for one in spec.attributes.get("inputdimensions") or ()]

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, sum of the lengths]."""
        values = operands(self.spec, inputs, max(1, len(inputs)))
        widths = self._widths(values)
        rows = _rows(values[0])
        for value in values:
            if _rows(value) != rows:
                raise ValueError(
                    f"FeatureVectorizer expects {rows} rows in all inputs, got {value.shape}"
                )
        return (TensorSpec((rows, sum(widths)), FLOAT32),)

    def _widths(self, values: Sequence[Array]) -> list[int]:
        if self._lengths and len(self._lengths) != len(values):
            raise ValueError(f"{len(self._lengths)} inputdimensions for {len(values)} inputs")
        return self._lengths or [_width(one) for one in values]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Side by side."""
        (y,) = outputs
        y.fill(0)
        start = 0
        for x, width in zip(inputs, self._widths(inputs), strict=True):
            flat = x.reshape(y.shape[0], _width(x))[:, :width]
            y[:, start : start + flat.shape[1]] = flat
            start += width


def _rows(x: Array) -> int:
    return x.shape[0] if x.ndim > 1 else 1


def _width(x: Array) -> int:
    return math.prod(x.shape[1:] if x.ndim > 1 else x.shape)
