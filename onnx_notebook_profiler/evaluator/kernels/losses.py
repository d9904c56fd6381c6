"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: scores [N, C, d1, ...], classes [N, d1, ...] -> loss.

https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html, onnx__SoftmaxCrossEntropyLoss.html. Scratch: the
losses and weights of all places, and for the second a block or two of scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rows import row_type, unbuffered
from onnx_notebook_profiler.evaluator.kernels._shared import given, operands
from onnx_notebook_profiler.evaluator.kernels.softmax import exponential_sums, row_blocks
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
        weights = given(inputs, 2)
        if weights is not None and weights.shape != scores.shape[1:2]:
            raise ValueError(
                f"{self.spec.op_type} expects weights [{scores.shape[1]}], got {list(weights.shape)}"
            )
        shape = classes.shape if self._reduction == "none" else ()
        specs = (TensorSpec(shape, scores.dtype), TensorSpec(scores.shape, scores.dtype))
        return specs[: len(self.spec.wanted)]

    def _chosen(self, classes: Array, grid: tuple[int, int, int]) -> tuple[Array, Any]:
        """The classes [N, d], 0 where ignored, and where they count; None: everywhere."""
        items, count, places = grid
        chosen = classes.reshape(items, places)
        counted = None
        if self._ignored is not None:
            counted = chosen != self._ignored
            chosen = np.where(counted, chosen, 0)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < count:
            raise ValueError(
                f"{self.spec.op_type}: classes are from 0 to {count - 1}, got {chosen.min()} to {chosen.max()}"
            )
        return chosen, counted

    def _reduce(self, losses: Array, chosen: Array, counted: Any, weights: Any, out: Array) -> None:
        """Weigh and reduce *losses* [N, d], which may be written to."""
        total: Any = losses.size
        if weights is not None or counted is not None:
            weight = np.ones(chosen.shape, losses.dtype)
            if weights is not None:
                weight = weights.astype(losses.dtype, copy=False)[chosen]
            if counted is not None:
                weight[~counted] = 0
            losses *= weight
            total = weight.sum()
        if self._reduction == "none":
            out[...] = losses.reshape(out.shape)
        elif self._reduction == "sum":
            out[...] = losses.sum()
        else:
            out[...] = losses.sum() / losses.dtype.type(total)


def _grid(x: Array) -> tuple[int, int, int]:
    return (x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _at(x: Array, chosen: Array) -> Array:
    """x[n, chosen[n, d], d] of contiguous x [N, C, d], in the type to compute in."""
    _, count, places = x.shape
    where = chosen.astype(np.intp)
    where *= places
    where += np.arange(x.shape[0])[:, None] * (count * places)
    where += np.arange(places)
    found: Array = x.reshape(-1).take(where, mode="clip")
    return found.astype(row_type(x.dtype), copy=False)


@register("NegativeLogLikelihoodLoss", since_version=12)
class NegativeLogLikelihoodLoss(_Loss):
    """Minus the given logarithm of each place's class, weighted."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Gather and reduce."""
        x = inputs[0].reshape(_grid(inputs[0]))
        chosen, counted = self._chosen(inputs[1], x.shape)
        losses = _at(x, chosen)
        np.negative(losses, losses)
        self._reduce(losses, chosen, counted, given(inputs, 2), outputs[0])


@register("SoftmaxCrossEntropyLoss", since_version=12)
class SoftmaxCrossEntropyLoss(_Loss):
    """The same for the logarithm of the softmax of the scores."""

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """The logarithm of each place's sum, less the score of its class."""
        x = inputs[0].reshape(_grid(inputs[0]))
        loss, shown = outputs[0], given(outputs, 1)
        logs = None if shown is None else shown.reshape(x.shape)
        chosen, counted = self._chosen(inputs[1], x.shape)
        losses = _at(x, chosen)
        np.negative(
            losses, losses
        )  # its score and the maximum cancel before the logarithm is added

        def work() -> None:
            for block in row_blocks(x.shape):
                part = x[block].astype(losses.dtype, copy=False)
                powers = np.empty_like(part)
                top, total = exponential_sums(part, powers)
                some = (block[0], block[2])
                losses[some] += top[:, 0]
                losses[some] += total[:, 0]
                if logs is not None:
                    np.subtract(part, top, powers)
                    np.subtract(powers, total, logs[block], casting="unsafe")

        if x.size:
            unbuffered(work, x.size)
        if loss is not None:
            self._reduce(losses, chosen, counted, given(inputs, 2), loss)
