"""What follows a convolution while its result is still in the cache: a bias, a sum with a tensor, an activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["Activate", "Finish"]

Activate = Callable[[Array], None]
"""Changes an array, of any strides, where it is."""


class Finish(NamedTuple):
    """Applied to each tile of Y [N, group, filter, place] once its sums are there."""

    bias: Array | None
    """[group, filter, 1]"""
    addend: Array | None
    """A tensor [N, group, filter, place] to be added."""
    activate: Activate | None

    @classmethod
    def of(
        cls,
        bias: Array | None,
        group: int,
        addend: Array | None = None,
        activate: Activate | None = None,
    ) -> Finish | None:
        """None where nothing is to be done."""
        if bias is None and addend is None and activate is None:
            return None
        if addend is not None:
            addend = addend.reshape(addend.shape[0], group, addend.shape[1] // group, -1)
        return cls(None if bias is None else bias.reshape(group, -1, 1), addend, activate)

    def of_part(self, items: slice, groups: slice) -> Finish:
        """The same for these items and groups alone, which are then counted from 0."""
        bias, addend = self.bias, self.addend
        return Finish(
            None if bias is None else bias[groups],
            None if addend is None else addend[items, groups],
            self.activate,
        )

    def __call__(self, tile: Array, items: Any, groups: Any, places: Any) -> None:
        """Change *tile*, which is ``Y[items, groups, :, places]``; *items* is a number or a range."""
        if self.bias is not None:
            np.add(tile, self.bias[groups], tile, casting="unsafe")
        if self.addend is not None:
            np.add(tile, self.addend[items, groups, :, places], tile, casting="unsafe")
        if self.activate is not None:
            self.activate(tile)
