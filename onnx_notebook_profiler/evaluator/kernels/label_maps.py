"""Looking values up: LabelEncoder, CategoryMapper, DictVectorizer and CastMap.

https://onnx.ai/onnx/operators/ under ai.onnx.ml. Numbers are looked up in a sorted table, texts in a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import (
    AdoptingKernel,
    Array,
    Kernel,
    NodeSpec,
    TensorSpec,
)
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["CastMap", "CategoryMapper", "DictVectorizer", "LabelEncoder"]

_ML: Final = "ai.onnx.ml"
_TYPES: Final = {"strings": object, "int64s": np.int64, "floats": np.float32}
_DEFAULTS: Final[dict[str, tuple[str, Any]]] = {
    "strings": ("default_string", "_Unused"),
    "int64s": ("default_int64", -1),
    "floats": ("default_float", -0.0),
}


class _Table:
    """Maps keys to values, and everything else to a default; a NaN among the keys stands for all NaN.

    Of equal keys the last one counts; where *first* is set, as in onnxruntime's later LabelEncoder, the first one.
    """

    def __init__(self, keys: Array, values: Array, default: Any, first: bool = False) -> None:
        if first:
            keys, values = keys[::-1], values[::-1]
        self.keys, self.values, self.default = keys, values, default
        self._nan: int | None = None
        self._positions: dict[Any, int] = {}
        if keys.dtype == object:
            self._positions = {key: i for i, key in enumerate(keys.tolist())}
            return
        if keys.dtype.kind == "f" and np.isnan(keys).any():
            self._nan = int(np.flatnonzero(np.isnan(keys))[-1])
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def look_up(self, x: Array, y: Array) -> None:
        """The value of each element."""
        flat, target = x.reshape(-1), y.reshape(-1)
        if self.keys.dtype == object:
            count = len(self.keys)
            found = np.fromiter(
                (self._positions.get(one, count) for one in flat.tolist()), np.intp, flat.size
            )
            known = found < count
            found[~known] = 0
        elif not len(self.keys):
            found, known = np.zeros(flat.size, np.intp), np.zeros(flat.size, np.bool_)
        else:
            place = np.searchsorted(self._sorted, flat, side="right") - 1
            place[place < 0] = 0
            found, known = self._order[place], self._sorted[place] == flat
            if self._nan is not None:
                missing = np.isnan(flat)
                found[missing], known = self._nan, known | missing
        if len(self.values):
            target[...] = self.values[found]
        target[~known] = self.default


@register("LabelEncoder", since_version=1, domain=_ML)
class LabelEncoder(Kernel):
    """Keys to values; in version 1 texts to their positions and back."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._back: _Table | None = None
        classes = attributes.get("classes_strings")
        if classes:
            texts, numbers = np.array(list(classes), object), np.arange(len(classes))
            self._table = _Table(texts, numbers, int(attributes.get("default_int64", -1)))
            self._back = _Table(numbers, texts, str(attributes.get("default_string", "_Unused")))
            return
        keys, _ = self._side("keys")
        values, kind = self._side("values")
        tensor = attributes.get("default_tensor")
        name, fallback = _DEFAULTS[kind]
        default = attributes.get(name, fallback) if tensor is None else tensor.reshape(-1)[0]
        if len(keys) != len(values):
            raise ValueError(f"LabelEncoder has {len(keys)} keys and {len(values)} values")
        self._table = _Table(keys, values, default, first=True)

    def _side(self, side: str) -> tuple[Array, str]:
        """The keys or the values, and which kind of default they have."""
        attributes = self.spec.attributes
        tensor = attributes.get(f"{side}_tensor")
        if tensor is not None:
            flat = tensor.reshape(-1)
            if flat.dtype.kind in "OSU":
                return np.array([_text(one) for one in flat.tolist()], object), "strings"
            return flat, "floats" if flat.dtype.kind == "f" else "int64s"
        for kind, dtype in _TYPES.items():
            if attributes.get(f"{side}_{kind}"):
                return np.array(list(attributes[f"{side}_{kind}"]), dtype), kind
        raise ValueError(f"LabelEncoder has no {side}")

    def _chosen(self, x: Array) -> _Table:
        return self._back if self._back is not None and x.dtype.kind != "O" else self._table

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The shape of X, the type of the values."""
        (x,) = operands(self.spec, inputs, 1)
        keys = self._chosen(x).keys.dtype
        if x.dtype != keys:
            expected = "strings" if keys.kind == "O" else keys
            raise ValueError(f"{self.spec.op_type} expects X of {expected}, got {x.dtype}")
        return (TensorSpec(x.shape, self._chosen(x).values.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Look up."""
        self._chosen(inputs[0]).look_up(inputs[0], outputs[0])


def _text(value: Any) -> str:
    return (
        value.decode("utf-8", errors="surrogateescape") if isinstance(value, bytes) else str(value)
    )


@register("CategoryMapper", since_version=1, domain=_ML)
class CategoryMapper(LabelEncoder):
    """Texts to numbers and back, by two lists."""

    def __init__(self, spec: NodeSpec) -> None:
        Kernel.__init__(self, spec)
        attributes = spec.attributes
        texts = np.array(list(attributes.get("cats_strings") or ()), object)
        numbers = np.array(list(attributes.get("cats_int64s") or ()), np.int64)
        if len(texts) != len(numbers):
            raise ValueError(f"CategoryMapper has {len(texts)} texts and {len(numbers)} numbers")
        self._table = _Table(texts, numbers, int(attributes.get("default_int64", -1)))
        self._back = _Table(numbers, texts, str(attributes.get("default_string", "_Unused")))


@register("DictVectorizer", since_version=1, domain=_ML)
class DictVectorizer(AdoptingKernel):
    """A map, or a sequence of maps, as rows [N, vocabulary]; keys that are not there give 0 or an empty text."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._vocabulary = list(
            attributes.get("string_vocabulary") or attributes.get("int64_vocabulary") or ()
        )

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """One row for each map."""
        maps = inputs[0] if isinstance(inputs[0], list) else [inputs[0]]
        sample = next((value for one in maps for value in one.values()), 0.0)
        dtype: Any = object
        if not isinstance(sample, str):
            dtype = np.asarray(sample).dtype if isinstance(sample, np.generic) else np.float32
            if isinstance(sample, int):
                dtype = np.int64
        empty: Any = "" if dtype is object else 0
        rows = [[one.get(key, empty) for key in self._vocabulary] for one in maps]
        return [np.array(rows, dtype).reshape(len(maps), len(self._vocabulary))]


@register("CastMap", since_version=1, domain=_ML)
class CastMap(AdoptingKernel):
    """The values of a map as a tensor [1, n]: in the order of their keys, or each at the place that its key names."""

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Dense, or sparse with zeros in the gaps up to ``max_map``, from which on keys are left out."""
        attributes = self.spec.attributes
        kind = str(attributes.get("cast_to", "TO_FLOAT"))
        types: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}
        if kind not in types:
            raise ValueError(f"cast_to is one of {', '.join(types)}, not {kind!r}")
        given = inputs[0]

        def cast(value: Any) -> Any:
            if kind == "TO_STRING":
                return str(value)
            if kind == "TO_FLOAT":
                return float(value)
            fraction = isinstance(value, str) and not value.strip().lstrip("+-").isdigit()
            return int(float(value)) if fraction else int(value)

        if str(attributes.get("map_form", "DENSE")) == "DENSE":
            values = [cast(given[key]) for key in sorted(given)]
        else:
            length = int(attributes.get("max_map", 1))
            if any(int(key) < 0 for key in given):
                raise ValueError(f"a key of the map is {min(given)}: they are 0 or more")
            values = [
                cast(given.get(key, "" if kind == "TO_STRING" else 0)) for key in range(length)
            ]
        return [np.array(values, types[kind]).reshape(1, -1)]
