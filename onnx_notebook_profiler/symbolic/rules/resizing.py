"""Resize, Upsample and what else brings pictures to another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.expression import Expr, exact_div, floordiv, maximum, minimum
from onnx_notebook_profiler.symbolic.rules.registry import rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided, axis_of

__all__: list[str] = []

_NONE_HOLDS = "data decides its new size"


@rule("Resize")
def infer_resize(call: Call) -> None:
    """By scales or to sizes, of all axes or those named.

    https://onnx.ai/onnx/operators/onnx__Resize.html
    """
    shape = call.shape(0)
    if call.opset < 11:
        _scaled(call, _scales(call, 1))
        return
    sizes = list(shape)
    named = call.attributes.get("axes")
    places = [
        axis_of(axis, len(shape)) for axis in (named if named is not None else range(len(shape)))
    ]
    if call.has(3) and not _is_empty(call, 3):
        wanted = call.entries(3) if call.content(3) is not None else None
        found = _to_sizes(call, [shape[place] for place in places], wanted)
    elif call.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Undecided("it crops to regions that are data")
    else:
        scales = _scales(call, 2)
        found = [
            call.unknown(_NONE_HOLDS) if scales is None else _times(shape[place], scales[number])
            for number, place in enumerate(places)
        ]
    for place, size in zip(places, found, strict=True):
        sizes[place] = size
    call.give(0, sizes, call.dtype(0))


@rule("Upsample")
def infer_upsample(call: Call) -> None:
    """By scales: an input, or attributes in older opsets."""
    attributes = call.attributes
    rank = len(call.shape(0))
    if "scales" in attributes:
        scales: list[float] | None = list(attributes["scales"])
    elif "height_scale" in attributes:
        scales = [1.0] * (rank - 2) + [attributes["height_scale"], attributes["width_scale"]]
    else:
        scales = _scales(call, 1)
    _scaled(call, scales)


def _scaled(call: Call, scales: Sequence[Any] | None) -> None:
    shape = call.shape(0)
    if scales is None:
        call.give(0, [call.unknown(_NONE_HOLDS) for _ in shape], call.dtype(0))
        return
    sizes = [_times(size, scale) for size, scale in zip(shape, scales, strict=True)]
    call.give(0, sizes, call.dtype(0))


def _is_empty(call: Call, position: int) -> bool:
    shape = call.known_shape(position)
    return shape is not None and any(size == 0 for size in shape)


def _scales(call: Call, position: int) -> list[Any] | None:
    content = call.content(position) if call.has(position) else None
    if content is None:
        return None
    if content.dtype == object:
        raise Undecided("its scales depend on the sizes")
    flat: list[Any] = content.reshape(-1).tolist()
    return flat


def _times(size: Expr, scale: float) -> Expr:
    """floor(size * scale), exactly as floats give it.

    The product of a size and a fraction that is written in few bits is exact in float64; other scales leave sizes
    that are numbers to float64 itself.
    """
    if size.is_constant:
        return Expr.constant(math.floor(size.value * float(scale)))
    ratio = Fraction(float(scale))
    if ratio.denominator > 2**24:
        raise Undecided(f"its scale {scale} is no fraction that float32 holds")
    return floordiv(size * ratio.numerator, ratio.denominator)


def _to_sizes(call: Call, shape: Sequence[Expr], wanted: list[Expr] | None) -> list[Expr]:
    policy = str(call.attributes.get("keep_aspect_ratio_policy", "stretch"))
    if wanted is None:
        return [call.unknown(_NONE_HOLDS) for _ in shape]
    if policy == "stretch":
        return wanted
    if all(size.is_constant for size in (*shape, *wanted)):
        ratios = [w.value / max(s.value, 1) for w, s in zip(wanted, shape, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        return [Expr.constant(math.floor(ratio * s.value + 0.5)) for s in shape]
    # floor(ratio * size + 1/2) for the smallest, or largest, ratio wanted / size: each axis by each ratio.
    pick = minimum if policy == "not_larger" else maximum
    return [
        pick(
            *(
                (2 * w * size + s) // (2 * s) if size != s else w
                for w, s in zip(wanted, shape, strict=True)
            )
        )
        for size in shape
    ]


@rule("AffineGrid")
def infer_affine_grid(call: Call) -> None:
    """[N, (D,) H, W, 2 or 3] for the size [N, C, (D,) H, W]."""
    if call.content(1) is None:
        length = call.shape(1)[0]
        if not length.is_constant:
            raise Undecided("the size of the grid is not known")
        spatial = [call.unknown("data decides the grid") for _ in range(length.value - 2)]
        call.give(0, (call.shape(0)[0], *spatial, len(spatial)), call.dtype(0))
        return
    batch, _, *spatial = call.entries(1)
    call.give(0, (batch, *spatial, len(spatial)), call.dtype(0))


@rule("GridSample")
@rule("GridSample", domain="com.microsoft")
def infer_grid_sample(call: Call) -> None:
    """A value of each channel for each place of the grid."""
    x, grid = call.shape(0), call.shape(1)
    call.give(0, (*x[:2], *grid[1:-1]), call.dtype(0))


@rule("Col2Im")
def infer_col2im(call: Call) -> None:
    """The image that its second input gives, of as many channels as the columns hold blocks."""
    columns = call.shape(0)
    if call.content(1) is None or call.content(2) is None:
        raise Undecided("image or block are not known")
    image, block = call.entries(1), call.entries(2)
    call.give(0, (columns[0], exact_div(columns[1], Expr.product(block)), *image), call.dtype(0))


@rule("ImageDecoder")
def infer_image_decoder(call: Call) -> None:
    """[height, width, channels] of the picture: its bytes decide."""
    channels = 1 if call.attributes.get("pixel_format") == "Grayscale" else 3
    height, width = (call.data_dim(0, axis, None) for axis in range(2))
    call.give(0, (height, width, channels), ir.DataType.UINT8)
