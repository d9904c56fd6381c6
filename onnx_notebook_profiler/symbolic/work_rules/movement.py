"""Operators that move, cast, fill or describe data, and how much of it the picking ones read."""

from __future__ import annotations

from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.shapes import ValueType
from onnx_notebook_profiler.symbolic.value_bytes import stored_bytes
from onnx_notebook_profiler.symbolic.work_rules.priced_node import PricedNode, UnknownWork
from onnx_notebook_profiler.symbolic.work_rules.registry import (
    MS,
    ZERO,
    Work,
    flops,
    reads,
    rule,
)

__all__: list[str] = []


@rule("ReorderInput", "ReorderOutput", domain="com.microsoft.nchwc")
@rule("ArrayFeatureExtractor", "FeatureVectorizer", domain="ai.onnx.ml")
@rule("ExpandDims", "GatherND", "Pad", "TorchEmbedding", "Trilu", "UnfoldTensor", domain=MS)
@rule("BitCast", "Cast", "CastLike", "CenterCropPad", "Compress", "Concat", "Constant")
@rule("ConcatFromSequence", "ConstantOfShape", "DepthToSpace", "Expand", "EyeLike", "Flatten")
@rule("Gather", "GatherElements", "GatherND", "Identity", "MaxUnpool", "Optional", "Pad")
@rule("OptionalGetElement", "OptionalHasElement", "Reshape", "ReverseSequence", "SequenceAt")
@rule("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "Slice")
@rule("SequenceLength", "Shape", "Size", "SpaceToDepth", "Split", "SplitToSequence", "Squeeze")
@rule("TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze")
def _movement(node: PricedNode) -> Work:  # noqa: ARG001 - none of it is needed
    """None: data is moved, cast, filled in or described."""
    return flops(0)


@rule("Scatter", "ScatterElements", "ScatterND")
def _scatter(node: PricedNode) -> Work:
    """One for each update where ``reduction`` is one, else none."""
    reduced = str(node.attribute("reduction", "none")) != "none"
    return flops(node.size(2) if reduced else ZERO)


def _bytes(kind: ValueType) -> Expr:
    size = stored_bytes(kind)
    if size is None:
        raise UnknownWork("texts have no fixed width")
    return size


@reads("ArrayFeatureExtractor", domain="ai.onnx.ml")
@reads("GatherND", "TorchEmbedding", domain=MS)
@reads("Compress", "Gather", "GatherElements", "GatherND", "Slice", "CenterCropPad")
def _picked(node: PricedNode) -> Expr:
    """What is taken of the first input, which is what the output has, and the other inputs whole."""
    return _bytes(node.output()) + node.bytes_of(node.node.input[1:])


@reads("EmbedLayerNormalization", "QEmbedLayerNormalization", domain=MS)
def _embedded(node: PricedNode) -> Expr:
    """A row of each embedding for each place, and the other inputs whole."""
    tables = [position for position in (2, 3, 4) if node.has(position)]
    width = node.output().shape[-1]
    places = node.size(0)
    rest = [name for position, name in enumerate(node.node.input) if position not in tables]
    rows = (ValueType(node.input(table).data_type, (places, width)) for table in tables)
    return Expr.sum(map(_bytes, rows)) + node.bytes_of(rest)


@reads("GatherBlockQuantized", domain=MS)
def _picked_packed(node: PricedNode) -> Expr:
    """The bits of what is taken, and the other inputs whole."""
    taken = (node.made * int(node.attribute("bits", 4)) + 7) // 8
    return taken + node.bytes_of(node.node.input[1:])


@reads("Shape", "Size", "EyeLike", "RandomNormalLike", "RandomUniformLike")
def _described(node: PricedNode) -> Expr:  # noqa: ARG001 - none of it is read
    """Only the shape."""
    return ZERO


@reads("CastLike")
def _cast_like(node: PricedNode) -> Expr:
    """The first input; of the second only the type."""
    return node.bytes_of(node.node.input[:1])
