"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.broadcasting import together
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.limits import must_agree
from onnx_notebook_profiler.symbolic.rules.registry import CONTRIB, rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided

__all__: list[str] = []


def _product(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    """As numpy's matmul."""
    if not a or not b:
        raise Undecided("a factor is a scalar")
    outer = together(a[:-2], b[:-2])
    must_agree(a[-1], b[-2] if len(b) > 1 else b[0])
    return (*outer, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


@rule("MatMul")
@rule("SparseToDenseMatMul", domain=CONTRIB)
def infer_matmul(call: Call) -> None:
    """As its operator says.

    https://onnx.ai/onnx/operators/onnx__MatMul.html
    """
    call.give(0, _product(call.shape(0), call.shape(1)), call.dtype(0))


@rule("MatMulInteger")
@rule("MatMulInteger16", domain=CONTRIB)
def infer_integer_matmul(call: Call) -> None:
    """As MatMul, int32."""
    call.give(0, _product(call.shape(0), call.shape(1)), ir.DataType.INT32)


@rule("MatMulIntegerToFloat", domain=CONTRIB)
def infer_integer_matmul_to_float(call: Call) -> None:
    """As MatMul, in the type of the scales."""
    call.give(0, _product(call.shape(0), call.shape(1)), call.dtype(2))


@rule("DynamicQuantizeMatMul", domain=CONTRIB)
def infer_dynamic_matmul(call: Call) -> None:
    """As MatMul, in the type of A."""
    call.give(0, _product(call.shape(0), call.shape(1)), call.dtype(0))


@rule("QLinearMatMul")
@rule("QLinearMatMul", domain=CONTRIB)
def infer_quantised_matmul(call: Call) -> None:
    """As MatMul, in the type of y_zero_point."""
    call.give(0, _product(call.shape(0), call.shape(3)), call.dtype(7))


def _turned(call: Call, position: int, side: str) -> tuple[Expr, ...]:
    """The shape of a factor as the product sees it."""
    shape = list(call.shape(position))
    if call.attributes.get(f"transBatch{side}", 0) and len(shape) > 2:
        shape.insert(-1, shape.pop(0))
    if call.attributes.get(f"trans{side}", 0) and len(shape) > 1:
        shape[-2:] = shape[:-3:-1]
    return tuple(shape)


@rule("Gemm")
@rule("FusedGemm", "FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=CONTRIB)
def infer_turned_matmul(call: Call) -> None:
    """As MatMul of factors that may be transposed."""
    call.give(0, _product(_turned(call, 0, "A"), _turned(call, 1, "B")), call.dtype(0))


@rule("QGemm", domain=CONTRIB)
def infer_quantised_gemm(call: Call) -> None:
    """[M, N], float32 without y_zero_point."""
    shape = _product(_turned(call, 0, "A"), _turned(call, 3, "B"))
    call.give(0, shape, call.dtype(8) if call.has(8) else ir.DataType.FLOAT)


@rule("GemmFastGelu", domain=CONTRIB)
def infer_gemm_gelu(call: Call) -> None:
    """[..., N]."""
    call.give(0, (*call.shape(0)[:-1], call.shape(1)[1]), call.dtype(0))


@rule("CDist", domain=CONTRIB)
def infer_distances(call: Call) -> None:
    """A distance for each pair of rows."""
    call.give(0, (call.shape(0)[0], call.shape(1)[0]), call.dtype(0))


@rule("Det")
def infer_determinant(call: Call) -> None:
    """One number for each matrix."""
    call.give(0, call.shape(0)[:-2], call.dtype(0))
