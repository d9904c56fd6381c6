"""Operators whose output dimensions are numbers or dimensions of an input: their kernel says which.

A kernel's ``infer`` sees arrays without memory whose symbolic dimensions are large primes, one for each. What comes
back as one of the primes is that dimension, anything else is a number; primes of their own in a second look rule out
chance. That holds for the operators listed here alone: none of them adds, multiplies or divides a symbolic dimension.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.evaluator.attributes import node_spec
from onnx_notebook_profiler.evaluator.kernel import Kernel
from onnx_notebook_profiler.evaluator.registry import find_kernel
from onnx_notebook_profiler.symbolic.rules.folding import small_constant

__all__ = ["PROBED", "infer_by_probe"]

PROBED: Final = {
    "ai.onnx.ml": (
        *("ArrayFeatureExtractor", "Binarizer", "CategoryMapper", "FeatureVectorizer", "Imputer"),
        *("LabelEncoder", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder"),
        *("SVMClassifier", "SVMRegressor", "Scaler", "TreeEnsemble", "TreeEnsembleClassifier"),
        "TreeEnsembleRegressor",
    ),
    "com.microsoft": (
        *("BiasDropout", "BiasSoftmax", "CDist", "ComplexMul", "ComplexMulConj"),
        *("DynamicQuantizeMatMul", "ExpandDims", "FusedGemm", "FusedMatMulActivation"),
        *("GemmaRotaryEmbedding", "Inverse", "IsAllFinite", "MatMulInteger16"),
        *("MatMulIntegerToFloat", "MurmurHash3", "NGramRepeatBlock", "RelativePositionBias"),
        *("SwiGLU", "TorchEmbedding", "Trilu"),
    ),
}

_FIRST: Final = (10_007, 20_011)
"""Where the primes of both looks begin: small enough for arrays of four axes."""


def infer_by_probe(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Ask the node's kernel what its outputs look like."""
    version = ctx.get_opset_version(node.domain)
    kernel_type: Any = find_kernel(node.domain, node.op_type, version)
    known = [value for value in node.inputs if value is not None]
    if any(value.shape is None or value.dtype is None for value in known):
        return
    if kernel_type is None or not issubclass(kernel_type, Kernel):
        return
    spec = node_spec(ir.to_proto(node), version)
    first, second = (_look(kernel_type(spec), node, start) for start in _FIRST)
    if first != second:
        raise ValueError("the outputs' sizes do not follow those of the inputs one by one")
    for value, (dims, dtype) in zip(node.outputs, first, strict=False):
        ctx.set_shape_and_dtype(value, ir.Shape(dims), dtype)


def _look(
    kernel: Kernel, node: ir.Node, start: int
) -> list[tuple[list[int | ir.SymbolicDim], ir.DataType]]:
    """Dimensions and type of each output, with primes from *start* on in the place of symbols."""
    primes = _primes(start)
    meaning: dict[int, ir.SymbolicDim] = {}
    given: dict[str, int] = {}
    inputs: list[Any] = []
    for value in node.inputs:
        constant = small_constant(value)
        if value is None or constant is not None:
            inputs.append(constant)
            continue
        assert value.shape is not None
        assert value.dtype is not None
        sizes = []
        for dim in value.shape:
            if isinstance(dim, int):
                sizes.append(dim)
                continue
            text = str(dim.value)
            if text not in given:
                given[text] = next(primes)
            meaning[given[text]] = dim
            sizes.append(given[text])
        inputs.append(_without_memory(value.dtype, sizes))
    return [
        ([meaning.get(int(size), int(size)) for size in shape], _data_type(dtype))
        for shape, dtype in kernel.infer(inputs)
    ]


def _primes(start: int) -> Iterator[int]:
    for number in itertools.count(start | 1, 2):
        if all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2)):
            yield number


def _without_memory(dtype: ir.DataType, sizes: list[int]) -> np.ndarray[Any, Any]:
    """An array of any size that holds one element."""
    kind: Any = object if dtype == ir.DataType.STRING else dtype.numpy()
    return np.broadcast_to(np.zeros((), kind), sizes)


def _data_type(dtype: np.dtype[Any]) -> ir.DataType:
    return ir.DataType.STRING if dtype.kind == "O" else ir.DataType.from_numpy(dtype)


for _domain, _operators in PROBED.items():
    for _operator in _operators:
        registry.register(_domain, _operator, since_version=1)(infer_by_probe)
