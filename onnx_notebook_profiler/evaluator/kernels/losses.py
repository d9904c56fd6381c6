"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: scores [N, C, d1, ...], classes [N, d1, ...] -> loss.

https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html, onnx__SoftmaxCrossEntropyLoss.html. Scratch: the
losses and weights of all places, and for the second, where log_prob is not wanted, the logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type
from onnx_notebook_profiler.evaluator.kernels._shared import operands
from onnx_notebook_profiler.evaluator.kernels.softmax import log_softmax
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


class _Loss(Kernel):
    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._reduction = str(spec.attributes.get("reduction", "mean"))
        if self._reduction not in {"none", "sum", "mean"}:
            raise ValueError(f"reduction is none, sum or mean, not {self._reduction!r}")
        self._ignored = spec.attributes.get("ignore_index")

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """One loss, or one for each place; log_prob as the scores."""
        scores, classes = operands(self.spec, inputs, 2)
        if scores.ndim < 2 or classes.shape != (scores.shape[0], *scores.shape[2:]):
            raise ValueError(
                f"{self.spec.op_type} expects scores [N, C, ...] and classes [N, ...], got {list(scores.shape)} and "
                f"{list(classes.shape)}"
            )
        shape = classes.shape if self._reduction == "none" else ()
        specs = (TensorSpec(shape, scores.dtype), TensorSpec(scores.shape, scores.dtype))
        return specs[: len(self.spec.wanted)]

    def _reduce(self, logs: Array, classes: Array, weights: Any, out: Array) -> None:
        """The loss of *logs* [N, C, d]."""
        count = logs.shape[1]
        chosen = classes.reshape(logs.shape[0], logs.shape[2])
        counted = np.ones(chosen.shape, np.bool_)
        if self._ignored is not None:
            counted = chosen != self._ignored
        known = (chosen >= 0) & (chosen < count)
        if not known[counted].all():
            raise ValueError(f"classes are from 0 to {count - 1}")
        safe = np.where(counted, chosen, 0).astype(np.intp)
        losses = -np.take_along_axis(logs, safe[:, None], axis=1)[:, 0]
        weight = counted.astype(losses.dtype)
        if weights is not None:
            weight *= weights.astype(losses.dtype)[safe]
        losses *= weight
        if self._reduction == "none":
            out[...] = losses.reshape(out.shape)
        elif self._reduction == "sum":
            out[...] = losses.sum()
        else:
            total = (
                weight.sum() if weights is not None or self._ignored is not None else losses.size
            )
            out[...] = losses.sum() / total


def _columns(x: Array) -> tuple[int, int, int]:
    return (x.shape[0], x.shape[1], math.prod(x.shape[2:]))


@register("NegativeLogLikelihoodLoss", since_version=12)
class NegativeLogLikelihoodLoss(_Loss):
    """Minus the given logarithm of each place's class, weighted."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Gather and reduce."""
        x = inputs[0]
        logs = x.reshape(_columns(x)).astype(row_type(x.dtype), copy=False)
        weights = inputs[2] if len(inputs) > 2 else None
        self._reduce(logs, inputs[1], weights, outputs[0])


@register("SoftmaxCrossEntropyLoss", since_version=12)
class SoftmaxCrossEntropyLoss(_Loss):
    """The same for the logarithm of the softmax of the scores."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """LogSoftmax, gather, reduce."""
        x = inputs[0]
        loss, shown = [*outputs, None][:2]
        logs = np.empty(_columns(x), row_type(x.dtype))
        log_softmax(x.reshape(_columns(x)).astype(logs.dtype, copy=False), logs)
        if shown is not None:
            np.copyto(shown.reshape(logs.shape), logs, casting="unsafe")
        weights = inputs[2] if len(inputs) > 2 else None
        if loss is not None:
            self._reduce(logs, inputs[1], weights, loss)
