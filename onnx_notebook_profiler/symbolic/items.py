"""What is known of values that are no tensors."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.engine_sizes import Shape

__all__ = ["Items", "Maps"]


@dataclasses.dataclass(frozen=True, slots=True)
class Items:
    """A sequence of tensors: their element type, and the shape of each or of all."""

    dtype: ir.DataType | None
    shapes: tuple[Shape | None, ...] | None
    """One for each item; None where it is not known how many there are."""
    common: Shape | None
    """The shape that every item has."""


@dataclasses.dataclass(frozen=True, slots=True)
class Maps:
    """A map, or a sequence of them."""

    dtype: ir.DataType
    """Type of the map's values."""
    many: bool
