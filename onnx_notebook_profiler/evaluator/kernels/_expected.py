"""A check of the shapes of inputs, with one message for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_notebook_profiler.evaluator.kernel import NodeSpec

__all__ = ["expect"]


def expect(spec: NodeSpec, name: str, value: Any, shape: Sequence[int | str | None]) -> None:
    """Raise where *value* is given and has another shape: a number is a size, "n|1" n or 1, None any size.

    Raises:
        ValueError: It has.
    """
    if value is None:
        return
    fits = value.ndim == len(shape) and all(
        wanted is None or str(size) in str(wanted).split("|")
        for size, wanted in zip(value.shape, shape, strict=True)
    )
    if not fits:
        sizes = ", ".join("?" if wanted is None else str(wanted) for wanted in shape)
        raise ValueError(f"{spec.op_type} expects {name} [{sizes}], got {list(value.shape)}")
