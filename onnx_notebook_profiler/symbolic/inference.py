"""Goes through a graph node by node: our rules, our kernels where sizes are numbers, then the rules of the engine.

The engine is onnx-shape-inference: its registry holds a rule for each operator, its context says what they may know.
It is asked rule by rule, so that a rule that fails costs its own node alone, and nothing in the engine is changed for
others that use it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
from onnx import FunctionProto, NodeProto
from onnx_shape_inference import ShapeInferenceContext, registry

from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.model import shorten
from onnx_notebook_profiler.symbolic import folding
from onnx_notebook_profiler.symbolic.content_rules import content_of_results
from onnx_notebook_profiler.symbolic.engine_sizes import EngineSizes
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.items import Items, Maps
from onnx_notebook_profiler.symbolic.limits import noting
from onnx_notebook_profiler.symbolic.rules.registry import find_rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided
from onnx_notebook_profiler.symbolic.value_types import Inferred, UnknownSize, ValueType

__all__ = ["Inference"]

_logger = logging.getLogger(__name__)

Functions = Mapping[tuple[str, str], FunctionProto]


class _EngineContext(ShapeInferenceContext):  # type: ignore[misc,unused-ignore] # the engine is not typed
    """The engine's context; what values hold is ours to say."""

    def __init__(self, inference: Inference, opsets: Mapping[str, int]) -> None:
        super().__init__(opsets, policy="override", allocator=inference.allocator)
        self._inference = inference

    def set_symbolic_value(self, value: ir.Value, data: list[int | ir.SymbolicDim]) -> None:
        """Nothing: contents are found out here, for every operator and rank."""

    def get_symbolic_value(self, value: ir.Value) -> list[int | ir.SymbolicDim] | None:
        """The elements of a vector or scalar of integers."""
        content = self._inference.content(value)
        if (
            content is None
            or content.ndim > 1
            or value.dtype is None
            or not value.dtype.is_integer()
        ):
            return None
        sizes = self._inference.sizes
        found: list[int | ir.SymbolicDim] = []
        for one in content.reshape(-1).tolist():
            if isinstance(one, int):
                found.append(one)
            elif isinstance(one, Expr):
                found.append(one.value if one.is_constant else sizes.to_dim(one))
            else:
                return None
        return found


class Inference:
    """One run over a model.

    Args:
        sizes: Names of dimensions.
        functions: The model's local functions by domain and name.
    """

    def __init__(self, sizes: EngineSizes, functions: Functions) -> None:
        registry.collect()
        self.sizes = sizes
        self.functions = functions
        self.allocator: Any = ShapeInferenceContext({})._allocator  # noqa: SLF001 - shared by all graphs
        self.items: dict[ir.Value, Items] = {}
        """What sequences hold."""
        self.maps: dict[ir.Value, Maps] = {}
        """Inputs that are maps."""
        self.calls: tuple[tuple[str, str], ...] = ()
        """Functions that are being gone through, outermost first."""
        self.opsets: Mapping[str, int] = {}
        self._contents: dict[ir.Value, Array | None] = {}
        self._reasons: dict[ir.Value, str] = {}
        self._bodies: dict[tuple[int, str], Inferred] = {}
        self._runs: dict[tuple[int, str], Expr] = {}

    # graphs

    def graph(
        self, graph: ir.Graph, protos: Sequence[NodeProto], opsets: Mapping[str, int]
    ) -> Inferred:
        """Go through *graph*, whose nodes are *protos*; its inputs have their shapes already."""
        outer = self._bodies, self._runs, self.opsets, self.sizes.data_dims
        self._bodies, self._runs, self.opsets, self.sizes.data_dims = {}, {}, opsets, {}
        context = _EngineContext(self, opsets)
        try:
            for node in graph:
                for output in node.outputs:
                    self.forget(output)
            with noting() as limits:
                for index, (node, proto) in enumerate(zip(graph, protos, strict=True)):
                    domain = "" if node.domain == "ai.onnx" else node.domain
                    self._node(context, Call(self, index, node, proto, opsets.get(domain, 1)))
            return Inferred(
                self._types(graph), self.sizes.data_dims, self._bodies, self._runs, tuple(limits)
            )
        finally:
            self._bodies, self._runs, self.opsets, self.sizes.data_dims = outer

    def keep_body(self, call: Call, name: str, inferred: Inferred) -> None:
        """What a body of a node holds."""
        self._bodies[call.index, name] = inferred

    def keep_runs(self, call: Call, name: str, times: Expr) -> None:
        """How often a body of a node runs."""
        if not self.sizes.why_unknown(times):
            self._runs[call.index, name] = times

    def forget(self, value: ir.Value) -> None:
        """Leave nothing of what is known of a value but its name."""
        value.shape = None
        value.type = None
        if value in self._contents:
            value.const_value = None
            del self._contents[value]
        self.items.pop(value, None)
        self._reasons.pop(value, None)

    def hand_over(self, source: ir.Value | None, target: ir.Value) -> None:
        """*target*, an input of a body or an output of a node with bodies, is what *source* is."""
        if source is None:
            return
        target.type = source.type
        target.shape = source.shape
        self.set_content(target, self.content(source))
        if source in self.items:
            self.items[target] = self.items[source]
        if source in self._reasons:
            self._reasons[target] = self._reasons[source]

    def root_reason(self, value: ir.Value) -> str:
        """Why the shape of *value* is not known; what follows from another value's shape repeats its reason."""
        reason = self._reasons.get(value)
        if reason is not None and reason.startswith("follows from "):
            return reason
        name = shorten(value.name or "", 60)
        return f"follows from {name}: {reason or 'no rule gives its shape'}"

    def why(self, value: ir.Value, reason: str) -> None:
        """Say why a value has no size."""
        self._reasons[value] = reason

    # contents

    def content(self, value: ir.Value) -> Array | None:
        """Elements of a small value: numbers, or an object array of expressions; None where they are not known."""
        try:
            return self._contents[value]
        except KeyError:
            pass
        found = None
        constant = value.const_value
        if constant is not None and not isinstance(constant, ir.ExternalTensor):
            if constant.size <= folding.MOST_ELEMENTS:
                found = constant.numpy()
            self._contents[value] = found
        return found

    def set_content(self, value: ir.Value, content: Array | None) -> None:
        """Say what a value holds."""
        if content is None:
            return
        if content.dtype != object and value.dtype is not None and folding.is_number(content.dtype):
            content = content.astype(value.dtype.numpy(), copy=False)
            value.const_value = ir.Tensor(content, dtype=value.dtype)
        self._contents[value] = content

    # nodes

    def _node(self, context: _EngineContext, call: Call) -> None:
        reason = None
        try:
            if not self._fold(call):
                self._shapes(context, call)
                for output, content in zip(
                    call.node.outputs, content_of_results(call), strict=False
                ):
                    if output.name:
                        self.set_content(output, content)
        except Undecided as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - rules, kernels and the engine raise what a broken model makes them raise
            reason = f"the shape rule of {call.op_type} failed: {type(error).__name__} {shorten(str(error), 200)}"
            _logger.info("%s", reason)
        for output in call.node.outputs:
            if output.shape is None and output.name and output not in self._reasons:
                self._reasons[output] = reason or self._missing_reason(call)

    def _missing_reason(self, call: Call) -> str:
        for value in call.node.inputs:
            if value is not None and value.shape is None and value not in self.items:
                return self.root_reason(value)
        return "no shape rule gives its rank"

    def _fold(self, call: Call) -> bool:
        """Compute a node whose inputs are known numbers; False where it has others, or results that are too large."""
        inputs: list[Array | None] = []
        for value in call.node.inputs:
            content = None if value is None else self.content(value)
            if value is not None and (content is None or content.dtype == object):
                return False
            inputs.append(content)
        if (call.domain, call.op_type) in self.functions or not folding.foldable(call, inputs):
            return False
        try:
            results = folding.computed(call, inputs)
        except Exception as error:  # noqa: BLE001 - a kernel that cannot: then the rules say what they can
            _logger.debug("%s cannot be computed beforehand: %s", call.op_type, error)
            return False
        if results is None:
            return False
        for output, result in zip(call.node.outputs, results, strict=False):
            if output.name:
                output.type = ir.TensorType(ir.DataType(folding.type_number(result.dtype)))
                output.shape = ir.Shape(result.shape)
                self.set_content(output, result)
        return True

    def _shapes(self, context: _EngineContext, call: Call) -> None:
        own = find_rule(call.domain, call.op_type)
        key = (call.domain, call.op_type)
        if key in self.functions:
            own = find_rule("", "function call")
        if own is not None:
            try:
                own(call)
            except Undecided:
                if not self._numbers(call):
                    raise
            return
        if self._numbers(call):
            return
        engine_rule = registry.get(call.domain, call.op_type, version=call.opset)
        if engine_rule is not None:
            engine_rule(context, call.node)
            self._settle(call)
            return
        schema_rule = find_rule("", "schema function")
        assert schema_rule is not None
        schema_rule(call)

    def _numbers(self, call: Call) -> bool:
        try:
            specs = folding.shapes_of_numbers(call)
        except Exception as error:  # noqa: BLE001 - as above
            _logger.debug("%s has no kernel for these shapes: %s", call.op_type, error)
            return False
        if specs is None:
            return False
        for position, spec in enumerate(specs):
            call.give(position, spec.shape, folding.type_number(spec.dtype))
        return True

    def _settle(self, call: Call) -> None:
        """Bring what a rule of the engine wrote into the form that ours write."""
        for output in call.node.outputs:
            if output.shape is not None:
                output.shape = self.shape_for(output, self.sizes.read(output.shape) or ())

    def shape_for(self, output: ir.Value, shape: Sequence[Expr | int]) -> ir.Shape:
        """A shape of *output* for the engine; sizes that are too large get names after it."""
        sizes = (Expr.constant(one) if isinstance(one, int) else one for one in shape)
        name = output.name or ""
        return self.sizes.to_shape(
            tuple(self.sizes.shortened(size, name, axis) for axis, size in enumerate(sizes))
        )

    # results

    def _types(self, graph: ir.Graph) -> dict[str, ValueType | UnknownSize]:
        found: dict[str, ValueType | UnknownSize] = {}
        for value in (*graph.inputs, *graph.initializers.values()):
            found[value.name or ""] = self.type_of(value)
        for node in graph:
            for value in node.outputs:
                if value.name:
                    found[value.name] = self.type_of(value)
        return found

    def type_of(self, value: ir.Value) -> ValueType | UnknownSize:
        """Element type and shape of a value, or why it has none."""
        if value.type is not None and not isinstance(value.type, ir.TensorType):
            return UnknownSize(f"{type(value.type).__name__} values have no fixed size")
        shape = self.sizes.read(value.shape)
        if shape is None:
            declared = "the model declares no shape for it" if value.is_graph_input() else None
            return UnknownSize(
                self._reasons.get(value) or declared or "no shape rule gives its rank"
            )
        for axis, size in enumerate(shape):
            reason = self.sizes.why_unknown(size)
            if reason is not None:
                return UnknownSize(f"dimension {axis}: {reason}")
        if value.dtype is None:
            return UnknownSize("no element type is known")
        return ValueType(int(value.dtype), shape)
