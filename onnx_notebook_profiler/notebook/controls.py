"""A slider and a number box for one symbolic dimension, always at the same size."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import ipywidgets as widgets

from onnx_notebook_profiler.render.clean import shorten

__all__ = ["LARGEST_SIZE", "DimensionControl", "slider_sizes"]

LARGEST_SIZE = 2**53 - 1
"""The largest integer that a browser keeps exactly."""

_LINEAR = 64
_STEPS = 32
_NAME_COLUMNS = 24


def slider_sizes(lowest: int, highest: int) -> tuple[int, ...]:
    """The sizes that a slider stops at: every integer up to 64, then 32 for each doubling; both ends included.

    So a short range is linear and a wide one logarithmic, and the sizes that people use (powers of
    two, 96, 384, 768) are among them.
    """
    sizes = set(range(lowest, min(highest, _LINEAR) + 1)) | {lowest, highest}
    start = _LINEAR
    while start <= highest:
        sizes.update(
            size for size in range(start, 2 * start, start // _STEPS) if lowest <= size <= highest
        )
        start *= 2
    return tuple(sorted(sizes))


class DimensionControl(widgets.HBox):
    """The controls of one dimension.

    Args:
        name: The dimension.
        size: Where the controls start.
        lowest, highest: Ends of the slider; it grows where the box gets a size beyond them.
        note: What the tooltip says besides the name.
        changed: Called after a person moved the slider or set the box.
    """

    def __init__(
        self,
        name: str,
        size: int,
        lowest: int,
        highest: int,
        note: str,
        changed: Callable[[], None],
        columns: int = _NAME_COLUMNS,
    ) -> None:
        self._size = size
        self._changed = changed
        self._moving = False
        self._sizes = slider_sizes(min(lowest, size), max(highest, size))
        tooltip = shorten(f"{name}: {note}" if note else name, 300)
        description = shorten(name, _NAME_COLUMNS)
        self.slider = widgets.IntSlider(
            value=self._position(),
            min=0,
            max=len(self._sizes) - 1,
            readout=False,
            description=description,
            description_allow_html=False,
            tooltip=tooltip,
            style={"description_width": f"{columns + 1}ch"},
            layout={"width": "auto", "flex": "1 1 20em"},
        )
        # The box has a label of its own for screen readers; it takes no room.
        self.box = widgets.BoundedIntText(
            value=size,
            min=0,
            max=LARGEST_SIZE,
            description=description,
            description_allow_html=False,
            tooltip=tooltip,
            style={"description_width": "0px"},
            layout={"width": "9em", "flex": "0 0 auto"},
        )
        super().__init__([self.slider, self.box], layout={"max_width": "48em"})
        self.add_class("onp-dimension")
        self.slider.observe(self._slid, "value")
        self.box.observe(self._typed, "value")

    @property
    def size(self) -> int:
        """The size that both controls show; setting it moves them and calls nobody."""
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._size = size
        before, self._moving = self._moving, True
        try:
            if not self._sizes[0] <= size <= self._sizes[-1]:
                self._grow()
            self.box.value = size
            self.slider.value = self._position()
        finally:
            self._moving = before

    def _grow(self) -> None:
        highest = max(self._sizes[-1], 1 << (self._size - 1).bit_length() if self._size else 0)
        self._sizes = slider_sizes(min(self._sizes[0], self._size), min(highest, LARGEST_SIZE))
        self.slider.max = len(self._sizes) - 1

    def _position(self) -> int:
        """Where the slider stands: at the size, or the next larger one that it has."""
        return min(bisect_left(self._sizes, self._size), len(self._sizes) - 1)

    def _slid(self, change: dict[str, int]) -> None:
        self._take(self._sizes[change["new"]])

    def _typed(self, change: dict[str, int]) -> None:
        self._take(change["new"])

    def _take(self, size: int) -> None:
        if not self._moving and size != self._size:
            self.size = size
            self._changed()

    def __repr__(self) -> str:
        return f"DimensionControl({self.slider.description!r}, {self._size})"
