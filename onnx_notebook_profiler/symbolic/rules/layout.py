"""Operators that give the same elements another shape, or put several tensors together."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr, exact_div
from onnx_notebook_profiler.symbolic.limits import must_agree
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided, axis_of

__all__: list[str] = []

_ONE, _ZERO, _REST = Expr.constant(1), Expr.constant(0), Expr.constant(-1)


@rule("Reshape")
def infer_reshape(call: Call) -> None:
    """0 keeps a dimension, -1 takes the rest.

    https://onnx.ai/onnx/operators/onnx__Reshape.html
    """
    call.give(0, None, call.dtype(0))
    given = call.attributes.get("shape") if not call.has(1) else None
    if given is None and call.content(1) is None:
        _reshape_to_rank(call)
        return
    wanted = [Expr.constant(one) for one in given] if given is not None else call.entries(1)
    keeps = not call.attributes.get("allowzero", 0)
    sizes: list[Expr] = []
    for axis, size in enumerate(wanted):
        if size == _ZERO and keeps:
            sizes.append(call.shape(0)[axis])
        else:
            sizes.append(size)
    if _REST in sizes:
        place = sizes.index(_REST)
        sizes[place] = _rest(call.shape(0), [one for one in sizes if one != _REST])
    elif call.known_shape(0) is not None:
        must_agree(Expr.product(call.shape(0)), Expr.product(sizes))
    call.give(0, sizes, call.dtype(0))


def _reshape_to_rank(call: Call) -> None:
    """Nothing but how many sizes there are."""
    length = call.known_shape(1)
    if not length or not length[0].is_constant:
        raise Undecided("the shape to reshape to is not known")
    reason = "data decides the shape to reshape to"
    call.give(0, [call.unknown(reason) for _ in range(length[0].value)], call.dtype(0))


def _rest(shape: tuple[Expr, ...], others: list[Expr]) -> Expr:
    """What is left for -1: sizes that both sides have are left out first."""
    left = list(shape)
    divisors: list[Expr] = []
    for size in others:
        if size in left and not size.is_constant:
            left.remove(size)
        else:
            divisors.append(size)
    divisor = Expr.product(divisors)
    whole = Expr.product(left)
    return whole if divisor == _ONE else exact_div(whole, divisor)


@rule("Flatten")
def infer_flatten(call: Call) -> None:
    """A matrix: the dimensions before the axis, those from it on."""
    shape = call.shape(0)
    axis = int(call.attributes.get("axis", 1))
    axis = axis + len(shape) if axis < 0 else axis
    call.give(0, (Expr.product(shape[:axis]), Expr.product(shape[axis:])), call.dtype(0))


@rule("Squeeze")
def infer_squeeze(call: Call) -> None:
    """Without the given axes; without axes only where every size is a number."""
    shape = call.shape(0)
    axes = call.listed(1, "axes")
    if axes is None:
        if not all(size.is_constant for size in shape):
            raise Undecided("which of its dimensions are 1 depends on the sizes")
        call.give(0, [size for size in shape if size != _ONE], call.dtype(0))
        return
    dropped = {axis_of(axis, len(shape)) for axis in axes}
    call.give(0, [size for axis, size in enumerate(shape) if axis not in dropped], call.dtype(0))


@rule("Unsqueeze")
def infer_unsqueeze(call: Call) -> None:
    """With new axes of size 1, counted in the output."""
    shape = call.shape(0)
    axes = call.listed(1, "axes") or []
    rank = len(shape) + len(axes)
    added = {axis_of(axis, rank) for axis in axes}
    old = iter(shape)
    call.give(0, [_ONE if axis in added else next(old) for axis in range(rank)], call.dtype(0))


@rule("ExpandDims", domain=CONTRIB)
def infer_expand_dims(call: Call) -> None:
    """One new axis."""
    shape = call.shape(0)
    axes = call.numbers(1)
    if axes is None:
        raise Undecided("the axis is not known")
    place = axis_of(int(axes[0]), len(shape) + 1)
    call.give(0, (*shape[:place], _ONE, *shape[place:]), call.dtype(0))


@rule("Transpose")
def infer_transpose(call: Call) -> None:
    """The dimensions in another order; backwards without ``perm``."""
    shape = call.shape(0)
    order = call.attributes.get("perm") or range(len(shape))[::-1]
    if sorted(order) != list(range(len(shape))):
        raise Undecided(f"perm {list(order)} does not order {len(shape)} axes")
    call.give(0, [shape[axis] for axis in order], call.dtype(0))


@rule("Concat")
def infer_concat(call: Call) -> None:
    """The sum along the axis; the first number among the sizes of the others."""
    _concat(call, list(range(len(call.node.inputs))), int(call.attributes.get("axis", 1)))


@rule("QLinearConcat", domain=CONTRIB)
def infer_quantised_concat(call: Call) -> None:
    """Scale and zero point of the result, then tensor, scale and zero point of each input."""
    _concat(call, list(range(2, len(call.node.inputs), 3)), int(call.attributes["axis"]))


def _concat(call: Call, positions: list[int], axis: int) -> None:
    shapes = [call.shape(position) for position in positions]
    rank = len(shapes[0])
    if any(len(shape) != rank for shape in shapes):
        raise Undecided("its inputs have different ranks")
    axis = axis_of(axis, rank)
    for place, column in enumerate(zip(*shapes, strict=True)):
        for size in column[1:] if place != axis else ():
            must_agree(column[0], size)
    sizes = [
        Expr.sum(column) if place == axis else next((s for s in column if s.is_constant), column[0])
        for place, column in enumerate(zip(*shapes, strict=True))
    ]
    call.give(0, sizes, call.dtype(positions[0]))


@rule("Tile")
def infer_tile(call: Call) -> None:
    """Each size times its number of repeats.

    https://onnx.ai/onnx/operators/onnx__Tile.html
    """
    shape = call.shape(0)
    call.give(0, [call.unknown("data decides the repeats") for _ in shape], call.dtype(0))
    repeats = call.entries(1)
    if len(repeats) != len(shape):  # opset 1: tiles and axis
        raise Undecided("it repeats another number of axes")
    call.give(0, [a * b for a, b in zip(shape, repeats, strict=True)], call.dtype(0))


@rule("DepthToSpace")
def infer_depth_to_space(call: Call) -> None:
    """Channels become blocks of pixels."""
    n, c, h, w = call.shape(0)
    block = int(call.attributes["blocksize"])
    call.give(0, (n, exact_div(c, block * block), h * block, w * block), call.dtype(0))


@rule("SpaceToDepth")
def infer_space_to_depth(call: Call) -> None:
    """Blocks of pixels become channels."""
    n, c, h, w = call.shape(0)
    block = int(call.attributes["blocksize"])
    call.give(0, (n, c * block * block, exact_div(h, block), exact_div(w, block)), call.dtype(0))


@rule("CenterCropPad")
def infer_center_crop_pad(call: Call) -> None:
    """The sizes that its second input gives, along the named axes."""
    sizes = list(call.shape(0))
    axes = call.attributes.get("axes") or range(len(sizes))
    places = [axis_of(axis, len(sizes)) for axis in axes]
    wanted = (
        call.entries(1)
        if call.content(1) is not None
        else [call.unknown("data decides it") for _ in places]
    )
    for place, size in zip(places, wanted, strict=True):
        sizes[place] = size
    call.give(0, sizes, call.dtype(0))
