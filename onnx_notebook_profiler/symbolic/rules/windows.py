"""Convolutions and pools: how many windows there are along each spatial axis.

https://onnx.ai/onnx/operators/onnx__MaxPool.html has the formulas; the evaluator's kernels count the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.expression import Expr, ceil_div, minimum
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided

__all__: list[str] = []

_NCHWC: Final = "com.microsoft.nchwc"
_NHWC: Final = "com.ms.internal.nhwc"
_BLOCK: Final = 16

Sizes = Sequence[Expr]


def _whole(sizes: Sizes, what: str) -> list[int]:
    if not all(size.is_constant for size in sizes):
        raise Undecided(f"{what} has no fixed size")
    return [size.value for size in sizes]


def _counts(call: Call, sizes: Sizes, kernel: Sequence[Expr]) -> list[Expr]:
    """Windows along each axis of these *sizes*."""
    attributes = call.attributes
    rank = len(sizes)
    if len(kernel) != rank:
        raise Undecided(f"a kernel of {len(kernel)} axes for {rank}")
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    pads = attributes.get("pads") or [0] * (2 * rank)
    auto = attributes.get("auto_pad") or "NOTSET"
    ceil = bool(attributes.get("ceil_mode", 0))
    return [
        _count(
            sizes[axis],
            (kernel[axis] - 1) * dilations[axis] + 1,
            strides[axis],
            (0, 0) if auto != "NOTSET" else (pads[axis], pads[axis + rank]),
            same=auto.startswith("SAME"),
            ceil=ceil,
        )
        for axis in range(rank)
    ]


def _count(
    size: Expr, reach: Expr, stride: int, pads: tuple[int, int], *, same: bool, ceil: bool
) -> Expr:
    if same:
        return ceil_div(size, stride)
    room = size + sum(pads) - reach
    if not ceil:
        return room // stride + 1
    count = ceil_div(room, stride) + 1
    # A last window that would start in the padding after the end is dropped.
    return minimum(count, ceil_div(size + pads[0], stride))


def _kernel(call: Call, weight: Sizes | None) -> list[Expr]:
    given = call.attributes.get("kernel_shape")
    if given:
        return [Expr.constant(int(one)) for one in given]
    if weight is None:
        raise Undecided("the shape of its kernel is not known")
    return list(weight)


def _weight(call: Call, position: int) -> tuple[Expr, list[Expr]]:
    """Number of filters and the window of W [M, C, k1, ...]."""
    shape = call.known_shape(position)
    if shape is None:
        raise Undecided("the shape of its weight is not known")
    return shape[0], _kernel(call, shape[2:])


@rule("Conv")
@rule("FusedConv", domain=CONTRIB)
@rule("Conv", domain=_NCHWC)
def infer_conv(call: Call) -> None:
    """X [N, C, D1, ...] and W [M, C, k1, ...] give [N, M, windows...]."""
    x = call.shape(0)
    filters, kernel = _weight(call, 1)
    call.give(0, (x[0], filters, *_counts(call, x[2:], kernel)), call.dtype(0))


@rule("NhwcConv", "NhwcFusedConv", domain=CONTRIB)
@rule("Conv", domain=_NHWC)
def infer_channels_last_conv(call: Call) -> None:
    """X [N, D1, ..., C] gives [N, windows..., M]."""
    x = call.shape(0)
    filters, kernel = _weight(call, 1)
    call.give(0, (x[0], *_counts(call, x[1:-1], kernel), filters), call.dtype(0))


@rule("ConvInteger")
def infer_integer_conv(call: Call) -> None:
    """As Conv, int32."""
    x = call.shape(0)
    filters, kernel = _weight(call, 1)
    call.give(0, (x[0], filters, *_counts(call, x[2:], kernel)), ir.DataType.INT32)


@rule("QLinearConv")
@rule("QLinearConv", domain=CONTRIB)
def infer_quantised_conv(call: Call) -> None:
    """As Conv, in the type of y_zero_point; com.microsoft's may have its channels last."""
    x = call.shape(0)
    filters, kernel = _weight(call, 3)
    if call.attributes.get("channels_last", 0):
        shape = (x[0], *_counts(call, x[1:-1], kernel), filters)
    else:
        shape = (x[0], filters, *_counts(call, x[2:], kernel))
    call.give(0, shape, call.dtype(7) if call.has(7) else call.dtype(0))


@rule("DeformConv")
def infer_deformable_conv(call: Call) -> None:
    """As Conv."""
    infer_conv(call)


@rule("AveragePool", "MaxPool", "LpPool")
@rule("AveragePool", "MaxPool", domain=_NCHWC)
@rule("MaxpoolWithMask", domain=CONTRIB)
def infer_pool(call: Call) -> None:
    """[N, C, windows...], and the places of the maxima."""
    x = call.shape(0)
    shape = (*x[:2], *_counts(call, x[2:], _kernel(call, None)))
    call.give(0, shape, call.dtype(0))
    call.give(1, shape, ir.DataType.INT64)


@rule("AveragePool", "MaxPool", domain=_NHWC)
@rule("NhwcMaxPool", domain=CONTRIB)
def infer_channels_last_pool(call: Call) -> None:
    """[N, windows..., C]."""
    x = call.shape(0)
    call.give(0, (x[0], *_counts(call, x[1:-1], _kernel(call, None)), x[-1]), call.dtype(0))


@rule("QLinearAveragePool", domain=CONTRIB)
def infer_quantised_pool(call: Call) -> None:
    """As AveragePool, the channels last where ``channels_last`` says so."""
    if call.attributes.get("channels_last", 0):
        infer_channels_last_pool(call)
    else:
        infer_pool(call)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
@rule("GlobalAveragePool", "GlobalMaxPool", domain=_NCHWC)
def infer_global_pool(call: Call) -> None:
    """[N, C, 1, ...]."""
    x = call.shape(0)
    call.give(0, (*x[:2], *[1] * (len(x) - 2)), call.dtype(0))


@rule("GlobalAveragePool", "GlobalMaxPool", domain=_NHWC)
def infer_channels_last_global_pool(call: Call) -> None:
    """[N, 1, ..., C]."""
    x = call.shape(0)
    call.give(0, (x[0], *[1] * (len(x) - 2), x[-1]), call.dtype(0))


@rule("QLinearGlobalAveragePool", domain=CONTRIB)
def infer_quantised_global_pool(call: Call) -> None:
    """[N, C, 1, ...], the channels last where ``channels_last`` says so."""
    if call.attributes.get("channels_last", 0):
        infer_channels_last_global_pool(call)
    else:
        infer_global_pool(call)


@rule("ConvTranspose")
def infer_transposed_conv(call: Call) -> None:
    """As its operator says.

    https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
    """
    _transposed(call, call.attributes.get("pads"))


@rule("ConvTransposeWithDynamicPads", domain=CONTRIB)
def infer_transposed_conv_with_pads(call: Call) -> None:
    """The pads are the third input."""
    pads = call.listed(2, "pads")
    _transposed(call, pads)


def _transposed(call: Call, pads: Sequence[int] | None) -> None:
    attributes = call.attributes
    x, w = call.shape(0), call.shape(1)
    rank = len(x) - 2
    kernel = list(w[2:])
    ones = [1] * rank
    strides, dilations = attributes.get("strides") or ones, attributes.get("dilations") or ones
    extra = attributes.get("output_padding") or [0] * rank
    pads = pads or [0] * (2 * rank)
    auto = attributes.get("auto_pad") or "NOTSET"
    wanted = attributes.get("output_shape")
    sizes: list[Any]
    if wanted is not None:
        sizes = list(wanted[-rank:])
    elif auto.startswith("SAME"):
        sizes = [x[axis + 2] * strides[axis] for axis in range(rank)]
    else:
        cut = [0 if auto == "VALID" else pads[axis] + pads[axis + rank] for axis in range(rank)]
        sizes = [
            (x[axis + 2] - 1) * strides[axis]
            + extra[axis]
            + (kernel[axis] - 1) * dilations[axis]
            + 1
            - cut[axis]
            for axis in range(rank)
        ]
    filters = w[1] * int(attributes.get("group", 1))
    call.give(0, (x[0], filters, *sizes), call.dtype(0))


@rule("MaxUnpool")
def infer_max_unpool(call: Call) -> None:
    """The shape that its third input holds, else what MaxPool was given."""
    x = call.shape(0)
    if call.has(2):
        sizes = (
            call.entries(2)
            if call.content(2) is not None
            else [call.unknown("data decides the output shape") for _ in x]
        )
        call.give(0, sizes, call.dtype(0))
        return
    rank = len(x) - 2
    kernel = call.attributes["kernel_shape"]
    strides = call.attributes.get("strides") or [1] * rank
    pads = call.attributes.get("pads") or [0] * (2 * rank)
    spatial = [
        (x[axis + 2] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + rank]
        for axis in range(rank)
    ]
    call.give(0, (*x[:2], *spatial), call.dtype(0))


@rule("RoiAlign")
def infer_roi_align(call: Call) -> None:
    """One grid for each region."""
    height, width = (
        int(call.attributes.get(name, 1)) for name in ("output_height", "output_width")
    )
    call.give(0, (call.shape(1)[0], call.shape(0)[1], height, width), call.dtype(0))


@rule("MaxRoiPool")
def infer_max_roi_pool(call: Call) -> None:
    """One grid for each region."""
    height, width = call.attributes["pooled_shape"]
    call.give(0, (call.shape(1)[0], call.shape(0)[1], height, width), call.dtype(0))


@rule("ReorderInput", domain=_NCHWC)
def infer_reorder_input(call: Call) -> None:
    """Channels rounded up to whole blocks, as the evaluator's kernel has them."""
    x = call.shape(0)
    n, c, *spatial = (x[0], x[-1], *x[1:-1]) if call.attributes.get("channels_last", 0) else x
    call.give(0, (n, ceil_div(c, _BLOCK) * _BLOCK, *spatial), call.dtype(0))


@rule("ReorderOutput", domain=_NCHWC)
def infer_reorder_output(call: Call) -> None:
    """As many channels as are meant, last where ``channels_last`` says so."""
    x = call.shape(0)
    channels = int(call.attributes["channels"])
    if call.attributes.get("channels_last", 0):
        call.give(0, (x[0], *x[2:], channels), call.dtype(0))
    else:
        call.give(0, (x[0], channels, *x[2:]), call.dtype(0))


@rule("Upsample", domain=_NCHWC)
def infer_blocked_upsample(call: Call) -> None:
    """Each size times its scale."""
    x = call.shape(0)
    scales = call.attributes["scales"]
    call.give(0, [size * int(scale) for size, scale in zip(x, scales, strict=True)], call.dtype(0))
