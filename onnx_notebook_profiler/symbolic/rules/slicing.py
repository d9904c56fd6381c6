"""Operators that take parts of a tensor, or surround it."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr, ceil_div, maximum, minimum
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided, axis_of

__all__ = ["extent"]

_ZERO = Expr.constant(0)
_BEYOND = 10**9
"""Exporters write such bounds, and larger ones, for "to the end": no dimension reaches them."""


@rule("Slice")
def infer_slice(call: Call) -> None:
    """Bounds may count from the end, may lie outside, and may be expressions.

    https://onnx.ai/onnx/operators/onnx__Slice.html
    """
    sizes = list(call.shape(0))
    rank = len(sizes)
    axes, steps = call.listed(3, "axes"), call.listed(4, "steps")
    starts, ends = _bounds(call, 1, "starts"), _bounds(call, 2, "ends")
    count = len(starts) if starts is not None else len(ends) if ends is not None else None
    if count is None:
        count = len(axes) if axes is not None else _length(call, 1)
    axes = axes if axes is not None else list(range(count))
    steps = steps if steps is not None else [1] * count
    for number, axis in enumerate(axes):
        place = axis_of(axis, rank)
        if starts is None or ends is None:
            sizes[place] = call.unknown("data decides the bounds of the slice")
            continue
        sizes[place] = extent(sizes[place], starts[number], ends[number], steps[number])
    call.give(0, sizes, call.dtype(0))


def _bounds(call: Call, position: int, attribute: str) -> list[Expr] | None:
    if not call.has(position):
        return [Expr.constant(int(one)) for one in call.attributes[attribute]]
    return call.entries(position) if call.content(position) is not None else None


def _length(call: Call, position: int) -> int:
    (length,) = call.shape(position)
    if not length.is_constant:
        raise Undecided("how many axes it cuts is not known")
    return length.value


def extent(size: Expr, start: Expr, end: Expr, step: int) -> Expr:
    """How many elements lie between two bounds."""
    first = _place(size, start, last=step < 0)
    stop = _stop(size, end, step)
    if step < 0:
        return maximum(0, ceil_div(first - stop, -step))
    if stop == size and (-start).is_nonnegative and start != _ZERO:
        length = minimum(size, -start)
        return length if step == 1 else ceil_div(length, step)
    if start.is_nonnegative:
        first = start  # beyond the end there is nothing to count, wherever it is
    if first == _ZERO:
        return stop if step == 1 else ceil_div(stop, step)
    return maximum(0, ceil_div(stop - first, step))


def _place(size: Expr, bound: Expr, *, last: bool) -> Expr:
    """Where a slice starts: clamped to 0..size, or 0..size-1 where it runs backwards (-1 if there is nothing)."""
    top = size - 1 if last else size
    if bound.is_constant and bound.value >= _BEYOND:
        return top
    if bound.is_constant and bound.value <= -_BEYOND:
        return minimum(top, 0) if last else _ZERO
    if bound.is_nonnegative:
        return bound if bound == _ZERO and not last else minimum(top, bound)
    if (-bound - 1).is_nonnegative:
        if last and bound == -1:
            return top
        counted = maximum(0, size + bound)
        return minimum(top, counted) if last else counted
    return _of_either_sign(size, bound, 0, top)


def _of_either_sign(size: Expr, bound: Expr, least: int, top: Expr) -> Expr:
    """Where a bound lies that counts from the end only where it comes out below 0: that is 1 there, and 0 elsewhere."""
    from_end = minimum(1, maximum(-bound, 0))
    counted = minimum(top, maximum(bound, 0))
    return (1 - from_end) * counted + from_end * maximum(least, size + bound)


def _stop(size: Expr, bound: Expr, step: int) -> Expr:
    if step > 0:
        return _place(size, bound, last=False)
    if bound.is_constant and bound.value >= _BEYOND:
        return size - 1
    if bound.is_nonnegative:
        return minimum(size - 1, bound)
    if (-bound - 1).is_nonnegative:
        return (
            Expr.constant(-1)
            if bound.is_constant and bound.value <= -_BEYOND
            else maximum(-1, size + bound)
        )
    return _of_either_sign(size, bound, -1, size - 1)


@rule("Split")
def infer_split(call: Call) -> None:
    """Given lengths, or as many equal parts as outputs, the last one smaller.

    https://onnx.ai/onnx/operators/onnx__Split.html
    """
    shape = call.shape(0)
    axis = axis_of(int(call.attributes.get("axis", 0)), len(shape))
    count = len(call.node.outputs)
    size = shape[axis]
    parts: list[Expr]
    if call.has(1):
        parts = (
            call.entries(1)
            if call.content(1) is not None
            else [call.unknown("data decides the lengths of the parts") for _ in range(count)]
        )
    elif call.attributes.get("split"):
        parts = [Expr.constant(int(one)) for one in call.attributes["split"]]
    else:
        number = int(call.attributes.get("num_outputs", count))
        length = ceil_div(size, number)
        parts = [_part(size, length, place) for place in range(number)]
    for position, part in enumerate(parts):
        call.give(position, (*shape[:axis], part, *shape[axis + 1 :]), call.dtype(0))


def _part(size: Expr, length: Expr, place: int) -> Expr:
    if size == length:
        return size if place == 0 else _ZERO
    if size.is_constant and length.is_constant:
        return Expr.constant(min(length.value, max(0, size.value - place * length.value)))
    return length if place == 0 else minimum(length, maximum(0, size - length * place))


@rule("Gather")
def infer_gather(call: Call) -> None:
    """The indices' dimensions in the place of the axis."""
    data, indices = call.shape(0), call.shape(1)
    axis = axis_of(int(call.attributes.get("axis", 0)), len(data))
    call.give(0, (*data[:axis], *indices, *data[axis + 1 :]), call.dtype(0))


@rule("GatherElements")
def infer_gather_elements(call: Call) -> None:
    """The shape of the indices."""
    call.give(0, call.shape(1), call.dtype(0))


@rule("GatherND")
@rule("GatherND", domain=CONTRIB)
def infer_gather_nd(call: Call) -> None:
    """The indices' dimensions but the last, then what they leave of the data."""
    data, indices = call.shape(0), call.shape(1)
    skipped = int(call.attributes.get("batch_dims", 0))
    if not indices or not indices[-1].is_constant:
        raise Undecided("how many axes its indices name is not known")
    call.give(0, (*indices[:-1], *data[skipped + indices[-1].value :]), call.dtype(0))


@rule("TorchEmbedding", domain=CONTRIB)
def infer_torch_embedding(call: Call) -> None:
    """A row for each index."""
    weight = call.shape(0)
    call.give(0, (*call.shape(1), weight[1]), call.dtype(0))


@rule("UnfoldTensor", domain=CONTRIB)
def infer_unfold(call: Call) -> None:
    """As many slices as begin early enough, each along a new last axis."""
    shape = call.shape(0)
    axis = axis_of(int(call.attributes.get("dim", -1)), len(shape))
    size, step = int(call.attributes["size"]), int(call.attributes.get("step", 1))
    count = (shape[axis] - size) // step + 1
    call.give(0, (*shape[:axis], count, *shape[axis + 1 :], Expr.constant(size)), call.dtype(0))


@rule("Pad")
@rule("Pad", domain=CONTRIB)
def infer_pad(call: Call) -> None:
    """Each size with what is put before and after it.

    https://onnx.ai/onnx/operators/onnx__Pad.html
    """
    sizes = list(call.shape(0))
    axes = call.listed(3, "axes") if call.opset >= 18 or call.domain else None
    places = (
        [axis_of(axis, len(sizes)) for axis in axes]
        if axes is not None
        else list(range(len(sizes)))
    )
    given = call.attributes.get("pads", call.attributes.get("paddings"))
    if call.has(1) and call.content(1) is None:
        for place in places:
            sizes[place] = call.unknown("data decides the padding")
        call.give(0, sizes, call.dtype(0))
        return
    pads = call.entries(1) if call.has(1) else [Expr.constant(int(one)) for one in given or ()]
    if len(pads) != 2 * len(places):
        raise Undecided(f"{len(pads)} pads for {len(places)} axes")
    for number, place in enumerate(places):
        sizes[place] = sizes[place] + pads[number] + pads[number + len(places)]
    call.give(0, sizes, call.dtype(0))
