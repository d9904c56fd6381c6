"""Operators without a kernel of ours run through the classes of ``onnx.reference``; their results are adopted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto
from onnx.reference import ReferenceEvaluator as OnnxReferenceEvaluator

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, NodeSpec

__all__ = ["FallbackKernel"]


class FallbackKernel(AdoptingKernel):
    """One node, run by the class that ``onnx.reference`` has for it.

    Args:
        captured: Outer names that the node's bodies read; their values follow the inputs in :meth:`call`.

    Raises:
        UnsupportedOperatorError: ``onnx.reference`` has no class for the operator either.
    """

    def __init__(
        self,
        spec: NodeSpec,
        node: NodeProto,
        opsets: Mapping[str, int],
        captured: Sequence[str] = (),
    ) -> None:
        super().__init__(spec)
        self._captured = tuple(captured)
        node = _in_default_domain(node)
        # No inputs: where an operator is a function of its inputs' types, the class asks the values at run time.
        graph = GraphProto(
            name="node",
            node=[node],
            output=[ValueInfoProto(name=name) for name in node.output if name],
        )
        self._node = node
        table = dict(opsets)
        if node.domain not in table:
            table[node.domain] = spec.opset
        try:
            self._implementation = OnnxReferenceEvaluator(graph, opsets=table).rt_nodes_[0]
        except Exception as error:
            raise UnsupportedOperatorError(
                f"operator {spec.op_type} of domain {spec.domain or 'ai.onnx'}, opset {spec.opset}, has no kernel "
                f"here, no class in onnx.reference and no function in the model"
            ) from error

    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Run the class; numpy scalars become arrays of rank 0."""
        implementation = self._implementation
        count = len(self._node.input)
        if implementation.need_context():
            context = dict(zip(self._captured, inputs[count:], strict=True))
            context.update(zip(self._node.input, inputs[:count], strict=True))
            results = implementation.run(*inputs[:count], context=context)
        else:
            results = implementation.run(*inputs[:count])
        return [np.asarray(one) if np.isscalar(one) else one for one in results]


def _in_default_domain(node: NodeProto) -> NodeProto:
    """*node*, or a copy that calls the default domain by its empty name: the classes know no other."""
    if node.domain != "ai.onnx":
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.domain = ""
    return copy
