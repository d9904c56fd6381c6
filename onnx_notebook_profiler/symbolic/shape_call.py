"""One node as a shape rule sees it: shapes and known contents of its inputs, attributes, and where its results go."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
from onnx import NodeProto

from onnx_notebook_profiler.evaluator.attributes import node_spec
from onnx_notebook_profiler.evaluator.kernel import Array, NodeSpec
from onnx_notebook_profiler.symbolic.engine_sizes import Shape
from onnx_notebook_profiler.symbolic.expression import Expr

if TYPE_CHECKING:
    from onnx_notebook_profiler.symbolic.inference import Inference

__all__ = ["Call", "Sizes", "Undecided", "axis_of"]

Sizes = Sequence[Expr | int]


class Undecided(Exception):  # noqa: N818 - no error: the model may well run
    """What a rule needs is not known; the message says what."""


class Call:
    """A node of a graph under inference."""

    def __init__(
        self, inference: Inference, index: int, node: ir.Node, proto: NodeProto, opset: int
    ) -> None:
        self.inference = inference
        self.index = index
        self.node = node
        self.proto = proto
        self.opset = opset
        self.domain = "" if node.domain == "ai.onnx" else node.domain
        self.op_type = node.op_type

    @functools.cached_property
    def spec(self) -> NodeSpec:
        """What a kernel may know of the node; ModelError for an attribute that refers to nothing."""
        return node_spec(self.proto, self.opset)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Plain values, the schema's defaults filled in."""
        return self.spec.attributes

    # inputs

    def value(self, position: int) -> ir.Value | None:
        """The input, None where it is left out."""
        inputs = self.node.inputs
        return inputs[position] if position < len(inputs) else None

    def has(self, position: int) -> bool:
        """Whether the node has this input."""
        return self.value(position) is not None

    def known_shape(self, position: int) -> Shape | None:
        """The shape of an input, None where it has none or nobody knows it."""
        value = self.value(position)
        return None if value is None else self.inference.sizes.read(value.shape)

    def shape(self, position: int) -> Shape:
        """The shape of an input; Undecided where it is not known."""
        shape = self.known_shape(position)
        if shape is None:
            value = self.value(position)
            if value is None:
                raise Undecided(f"{self.op_type} lacks its input {position}")
            raise Undecided(self.inference.root_reason(value))
        return shape

    def dtype(self, position: int) -> ir.DataType | None:
        """The element type of an input, None where it is not known."""
        value = self.value(position)
        return None if value is None else value.dtype

    def content(self, position: int) -> Array | None:
        """The elements of an input as numbers, or as expressions (an object array); None where they are not known."""
        value = self.value(position)
        return None if value is None else self.inference.content(value)

    def numbers(self, position: int) -> list[Any] | None:
        """The elements of an input, flat; None where they are no known numbers."""
        content = self.content(position)
        return None if content is None or content.dtype == object else content.reshape(-1).tolist()

    def entries(self, position: int) -> list[Expr]:
        """The elements of an input of integers, flat; Undecided where they are not known."""
        content = self.content(position)
        if content is None:
            raise Undecided(f"what its input {position} holds is not known before it runs")
        flat = content.reshape(-1).tolist()
        if content.dtype != object:
            return [Expr.constant(int(one)) for one in flat]
        if not all(isinstance(one, Expr) for one in flat):
            raise Undecided(f"its input {position} holds a fraction")
        return flat

    def listed(self, position: int, attribute: str) -> list[int] | None:
        """Integers from an input or, in older opsets, an attribute; None where the node has neither.

        Raises:
            Undecided: They are an input whose content is not known.
        """
        if not self.has(position):
            found = self.attributes.get(attribute)
            return None if found is None else [int(one) for one in found]
        numbers = self.numbers(position)
        if numbers is None:
            raise Undecided(f"what its input {position} ({attribute}) holds is not known")
        return [int(one) for one in numbers]

    # outputs

    def wants(self, position: int) -> bool:
        """Whether the node names this output."""
        outputs = self.node.outputs
        return position < len(outputs) and bool(outputs[position].name)

    def give(self, position: int, shape: Sizes | None, dtype: ir.DataType | int | None) -> None:
        """Set shape and element type of an output, if the node has it."""
        if not self.wants(position):
            return
        output = self.node.outputs[position]
        if dtype is not None:
            output.type = ir.TensorType(ir.DataType(dtype))
        if shape is not None:
            output.shape = self.inference.shape_for(output, shape)

    def data_dim(self, position: int, axis: int, bound: Expr | None) -> Expr:
        """A size that only data decides, named after this output, or the first one that the node has."""
        outputs = self.node.outputs
        named = outputs[position] if self.wants(position) else next(o for o in outputs if o.name)
        sizes = self.inference.sizes
        if bound is not None and sizes.why_unknown(bound):
            bound = None
        return sizes.decided_by_data(named.name or "", axis, self.index, self.op_type, bound)

    def unknown(self, reason: str) -> Expr:
        """A size that nobody knows."""
        return self.inference.sizes.unknown(reason)


def axis_of(axis: int, rank: int) -> int:
    """A position from 0 on; Undecided where the model names an axis that is not there."""
    if not -rank <= axis < rank:
        raise Undecided(f"axis {axis} is none of {rank}")
    return axis % rank
