"""Windows that slide over the spatial axes of X [N, C, D1, D2, ...]: how many there are and what each of them sees.

Convolution and pooling share this arithmetic; https://onnx.ai/onnx/operators/onnx__MaxPool.html has its formulas.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from onnx_notebook_profiler.evaluator.kernel import Array, NodeSpec

__all__ = [
    "Box",
    "Tap",
    "Windows",
    "boxes",
    "clipped",
    "pool_windows",
    "sliding",
    "taps",
    "with_channels",
]

Box = tuple[slice, ...]
"""A range of windows along each spatial axis."""


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """One entry for each spatial axis; *before* and *after* count the padding, *counts* the windows."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def reaches(self) -> tuple[int, ...]:
        """Input elements from the first to the last tap of a window, both included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def with_channels(windows: Windows, channels: int) -> Windows:
    """One more axis at the end, of *channels* elements, which no window crosses."""
    return Windows(
        (*windows.sizes, channels),
        (*windows.kernel, 1),
        (*windows.strides, 1),
        (*windows.dilations, 1),
        (*windows.before, 0),
        (*windows.after, 0),
        (*windows.counts, channels),
    )


class Tap(NamedTuple):
    """One position in the kernel: where its values lie in the input and to which windows of a box they belong.

    Windows that see padding there are left out.
    """

    position: tuple[int, ...]
    windows: Box
    values: Box


def _listed(spec: NodeSpec, name: str, default: Sequence[int], least: int | None) -> list[int]:
    """An attribute that lists one integer for each entry of *default*, or *default* itself.

    Raises:
        ValueError: It has another length, or an entry below *least*.
    """
    found: Sequence[int] = spec.attributes.get(name) or default
    if len(found) != len(default):
        raise ValueError(f"{spec.op_type}: {name} needs {len(default)} entries, got {list(found)}")
    if least is not None and min(found, default=least) < least:
        raise ValueError(f"{spec.op_type}: {name} are {least} or more, got {list(found)}")
    return list(found)


def sliding(
    spec: NodeSpec, sizes: Sequence[int], kernel: Sequence[int], *, ceil: bool = False
) -> Windows:
    """The windows of a node over an input with these spatial *sizes*.

    With *ceil* a last window may hang over the end; one that would start in the padding after the end is dropped, in
    every version of the operators, as the implementations agree to do.

    Raises:
        ValueError: An attribute does not fit the rank, or the kernel does not fit into the padded input.
    """
    if min(kernel) < 1:
        raise ValueError(
            f"{spec.op_type} expects a kernel of 1 or more elements, got {list(kernel)}"
        )
    ones = [1] * len(sizes)
    strides = _listed(spec, "strides", ones, 1)
    dilations = _listed(spec, "dilations", ones, 1)
    pads = _listed(spec, "pads", [0] * (2 * len(sizes)), None)
    auto = spec.attributes.get("auto_pad", "NOTSET")
    if auto not in {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}:
        raise ValueError(f"{spec.op_type} does not know auto_pad {auto!r}")
    before, after = pads[: len(sizes)], pads[len(sizes) :]
    if auto != "NOTSET":
        before, after = [0] * len(sizes), [0] * len(sizes)
    counts = []
    for axis, size in enumerate(sizes):
        stride, reach = strides[axis], (kernel[axis] - 1) * dilations[axis] + 1
        if auto.startswith("SAME"):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            smaller = total // 2
            before[axis] = smaller if auto == "SAME_UPPER" else total - smaller
            after[axis] = total - before[axis]
        room = size + before[axis] + after[axis] - reach
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= size + before[axis]:
            count -= 1
        if count < 0:
            raise ValueError(
                f"{spec.op_type}: a window of {reach} elements does not fit into "
                f"{room + reach}, the size with its padding of spatial axis {axis}"
            )
        counts.append(count)
    return Windows(
        tuple(sizes),
        tuple(kernel),
        tuple(strides),
        tuple(dilations),
        tuple(before),
        tuple(after),
        tuple(counts),
    )


def pool_windows(spec: NodeSpec, x: Array, *, channels_last: bool = False) -> Windows:
    """The windows of a pool over X [N, C, D1, ...], or [N, D1, ..., C] with *channels_last*.

    Raises:
        ValueError: ``kernel_shape`` does not fit the rank of X, or see :func:`sliding`.
    """
    kernel = spec.attributes.get("kernel_shape") or ()
    if x.ndim < 3 or len(kernel) != x.ndim - 2:
        layout = "[N, D1, ..., C]" if channels_last else "[N, C, D1, ...]"
        raise ValueError(
            f"{spec.op_type} expects X {layout} and kernel_shape for its spatial axes, "
            f"got shape {x.shape} and {list(kernel)}"
        )
    sizes = x.shape[1:-1] if channels_last else x.shape[2:]
    return sliding(spec, sizes, kernel, ceil=bool(spec.attributes.get("ceil_mode", 0)))


def boxes(shape: Sequence[int], limit: int) -> Iterator[Box]:
    """Cut a grid of windows into boxes of at most *limit*, each of which is contiguous in row-major order.

    Along the axis that is cut they are as equal as can be; the first is the largest.
    """
    steps, room = [], max(limit, 1)
    for size in reversed(shape):
        step = min(max(size, 1), room)
        room = room // step if step == size else 1
        steps.append(-(-size // -(-size // step)) if size else 1)
    steps.reverse()
    starts = (range(0, size, step) for size, step in zip(shape, steps, strict=True))
    for corner in itertools.product(*starts):
        yield tuple(
            slice(start, min(start + step, size))
            for start, step, size in zip(corner, steps, shape, strict=True)
        )


def clipped(first: int, step: int, count: int, size: int) -> tuple[slice, slice] | None:
    """Which of *count* places ``first, first + step, ...`` exist in an axis of *size*; then those places themselves.

    None where no place exists.
    """
    low = max(0, -(first // step))
    high = min(count, (size - 1 - first) // step + 1)
    if low >= high:
        return None
    return slice(low, high), slice(first + low * step, first + (high - 1) * step + 1, step)


def taps(windows: Windows, box: Box) -> list[Tap]:
    """The taps of the windows in *box*, in row-major order, without those that see nothing but padding."""
    ways: list[list[tuple[int, slice, slice]]] = []
    for axis, part in enumerate(box):
        stride = windows.strides[axis]
        start = part.start * stride - windows.before[axis]
        found = []
        for position in range(windows.kernel[axis]):
            first = start + position * windows.dilations[axis]
            kept = clipped(first, stride, part.stop - part.start, windows.sizes[axis])
            if kept is not None:
                found.append((position, *kept))
        ways.append(found)
    combined: Iterator[tuple[Any, ...]] = itertools.product(*ways)
    return [Tap(*(tuple(part) for part in zip(*one, strict=True))) for one in combined]
