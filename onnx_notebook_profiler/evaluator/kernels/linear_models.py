"""LinearClassifier, LinearRegressor, SVMClassifier and SVMRegressor: X [N, F] -> scores [N, targets], labels [N].

https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html, onnx_aionnxml_SVMClassifier.html and neighbours; two
classes with one column of scores, and the coupling of pairwise probabilities (Wu, Lin and Weng, JMLR 5, 2004), as in
onnxruntime's linearclassifier.cc and svmclassifier.cc. Scratch: X as float32, kernel values [N, vectors].
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._post_transform import find_post_transform, logistic
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"]

_ML = "ai.onnx.ml"


def _matrix(spec: NodeSpec, inputs: Sequence[Array | None], features: int) -> tuple[int, int]:
    """Rows and columns of X.

    Raises:
        ValueError: It is no matrix of that many features.
    """
    (x,) = operands(spec, inputs, 1)
    shape = x.shape if x.ndim == 2 else (1, *x.shape)
    if x.ndim not in {1, 2} or shape[1] != features:
        raise ValueError(f"{spec.op_type} expects X [N, {features}], got {x.shape}")
    return shape[0], shape[1]


def _wide(x: Array, width: int) -> Array:
    return x.reshape(-1, width).astype(FLOAT32, copy=False)


def _labels(spec: NodeSpec) -> Array:
    texts = list(spec.attributes.get("classlabels_strings") or ())
    numbers = list(spec.attributes.get("classlabels_ints") or ())
    return np.array(texts, object) if texts else np.array(numbers, np.int64)


@register("LinearRegressor", since_version=1, domain=_ML)
class LinearRegressor(Kernel):
    """X times coefficients plus intercepts, then the post transform."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        targets = int(attributes.get("targets", 1))
        flat = np.asarray(attributes.get("coefficients") or (), np.float32)
        if targets < 1 or len(flat) % targets or not len(flat):
            raise ValueError(f"LinearRegressor has {len(flat)} coefficients for {targets} targets")
        self._coefficients = flat.reshape(targets, -1).T
        self._intercepts = np.asarray(attributes.get("intercepts") or [0] * targets, np.float32)
        self._transform = find_post_transform(str(attributes.get("post_transform", "NONE")))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, targets] float32."""
        rows, _ = _matrix(self.spec, inputs, self._coefficients.shape[0])
        return (TensorSpec((rows, self._coefficients.shape[1]), FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """One product."""
        (y,) = outputs
        np.matmul(_wide(inputs[0], self._coefficients.shape[0]), self._coefficients, y)
        np.add(y, self._intercepts, y)
        self._transform(y)


@register("LinearClassifier", since_version=1, domain=_ML)
class LinearClassifier(Kernel):
    """The class with the highest score; one column of scores stands for two classes."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._intercepts = np.asarray(attributes.get("intercepts") or (), np.float32)
        self.labels = _labels(spec)
        scores = len(self._intercepts) or max(len(self.labels), 1)
        self._flat = np.asarray(attributes["coefficients"], np.float32)
        self._scores = scores
        self._single = scores == 1
        self._doubles = self._single and len(self.labels) == 2
        if not self._single and len(self.labels) != scores:
            raise ValueError(f"{len(self.labels)} labels for {scores} scores")
        self._name = str(attributes.get("post_transform", "NONE"))
        self._transform = find_post_transform(self._name)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Labels [N] and scores [N, classes] float32."""
        (x,) = operands(self.spec, inputs, 1)
        # onnxruntime takes as many features as X has, where there are coefficients for more
        most = len(self._flat) // self._scores
        rows, _ = _matrix(self.spec, inputs, min(most, x.shape[-1] if x.ndim else 0) or most)
        columns = 2 if self._doubles else self._scores
        return (TensorSpec((rows,), self.labels.dtype), TensorSpec((rows, columns), FLOAT32))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One product, the greatest score, the post transform."""
        labels, target = [*outputs, None][:2]
        width = inputs[0].shape[-1]
        x = _wide(inputs[0], width)
        shape = (x.shape[0], self._scores)
        direct = target is not None and target.shape == shape
        scores = target if direct else np.empty(shape, FLOAT32)
        np.matmul(x, self._flat[: self._scores * width].reshape(self._scores, width).T, scores)
        if len(self._intercepts):
            np.add(scores, self._intercepts, scores)
        if labels is not None:
            self._choose(scores, labels)
        if target is None:
            return
        if self._doubles:
            _both(scores[:, 0], target, self._name)
        else:
            self._transform(scores)

    def _choose(self, scores: Array, labels: Array) -> None:
        if not self._single:
            np.take(self.labels, scores.argmax(axis=1), out=labels, mode="clip")
            return
        positive = scores[:, 0] > 0
        if self._doubles:
            np.take(self.labels, positive.astype(np.intp), out=labels, mode="clip")
        elif labels.dtype == object:
            labels[...] = np.where(positive, "1", "0")
        else:
            labels[...] = positive


def _both(scores: Array, target: Array, name: str) -> None:
    """Scores of both classes from those of the second one."""
    target[:, 1] = scores
    if name == "LOGISTIC":
        column = target[:, 1]
        logistic(column)
        np.subtract(1, column, target[:, 0])
        return
    if name == "PROBIT":
        find_post_transform(name)(target[:, 1:])
    np.subtract(1, target[:, 1], target[:, 0])


class _SupportVectors(Kernel):
    """Kernel functions between rows and support vectors."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._kernel = str(attributes.get("kernel_type", "LINEAR"))
        if self._kernel not in {"LINEAR", "POLY", "RBF", "SIGMOID"}:
            raise ValueError(f"kernel_type is LINEAR, POLY, RBF or SIGMOID, not {self._kernel!r}")
        numbers = [*(attributes.get("kernel_params") or ()), 0.0, 0.0, 0.0]
        self._gamma, self._coef0, self._degree = numbers[:3]
        self.rho = np.asarray(attributes.get("rho") or (0.0,), np.float32)
        self.coefficients = np.asarray(attributes.get("coefficients") or (), np.float32)
        if not len(self.coefficients):
            raise ValueError(f"{spec.op_type} needs coefficients")
        self.vectors = np.asarray(attributes.get("support_vectors") or (), np.float32)

    def similarity(self, x: Array, vectors: Array, linear: bool = False) -> Array:
        """[rows, vectors]; *linear*: by no kernel, since the vectors are coefficients."""
        product: Array = np.matmul(x, vectors.T)
        if linear or self._kernel == "LINEAR":
            return product
        if self._kernel == "RBF":
            squares = np.square(x).sum(axis=1)[:, None] + np.square(vectors).sum(axis=1)
            np.maximum(squares - 2 * product, 0, out=product)
            product *= -self._gamma
            np.exp(product, product)
            return product
        product *= self._gamma
        product += self._coef0
        if self._kernel == "SIGMOID":
            np.tanh(product, product)
            return product
        np.power(product, self._degree, product)
        return product


@register("SVMRegressor", since_version=1, domain=_ML)
class SVMRegressor(_SupportVectors):
    """Kernel values times coefficients plus rho; without support vectors a linear model."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        count = int(spec.attributes.get("n_supports", 0))
        self._linear = count == 0
        self.vectors = (
            self.vectors.reshape(count, -1) if count else self.coefficients.reshape(1, -1)
        )
        self._one_class = bool(spec.attributes.get("one_class", 0))
        self._transform = find_post_transform(str(spec.attributes.get("post_transform", "NONE")))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, 1] float32."""
        rows, _ = _matrix(self.spec, inputs, self.vectors.shape[1])
        return (TensorSpec((rows, 1), FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """The sum, or its sign for a model of one class."""
        (y,) = outputs
        x = _wide(inputs[0], self.vectors.shape[1])
        values = self.similarity(x, self.vectors, self._linear)
        total = values[:, 0] if self._linear else values @ self.coefficients
        np.add(total, self.rho[0], y[:, 0])
        if self._one_class:
            np.copyto(y, np.where(y > 0, 1, -1))
        self._transform(y)


@register("SVMClassifier", since_version=1, domain=_ML)
class SVMClassifier(_SupportVectors):
    """A decision for each pair of classes; most votes win; scores, or probabilities by prob_a and prob_b."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self.labels = _labels(spec)
        self._counts = [int(one) for one in attributes.get("vectors_per_class") or ()]
        self._linear = not sum(self._counts)
        classes = len(self.labels)
        if classes < (1 if self._linear else 2):
            raise ValueError(f"SVMClassifier chooses among labels, and has {classes}")
        if not self._linear and len(self._counts) != classes:
            raise ValueError(f"{len(self._counts)} vectors_per_class for {classes} labels")
        if not self._linear and len(self.rho) < classes * (classes - 1) // 2:
            raise ValueError(f"{len(self.rho)} numbers of rho for {classes} labels")
        if self._linear:
            self.vectors = self.coefficients.reshape(max(classes, 1), -1)
        else:
            self.vectors = self.vectors.reshape(sum(self._counts), -1)
            self.coefficients = self.coefficients.reshape(-1, sum(self._counts))
        self._prob_a = np.asarray(attributes.get("prob_a") or (), np.float32)
        self._prob_b = np.asarray(attributes.get("prob_b") or (), np.float32)
        self._name = str(attributes.get("post_transform", "NONE"))
        self._transform = find_post_transform(self._name)
        self._classes = classes

    @property
    def _columns(self) -> int:
        if self._linear or len(self._prob_a) or self._classes <= 2:
            return max(self._classes, 1)
        return self._classes * (self._classes - 1) // 2

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Labels [N]; scores [N, classes], or one for each pair of classes."""
        rows, _ = _matrix(self.spec, inputs, self.vectors.shape[1])
        return (TensorSpec((rows,), self.labels.dtype), TensorSpec((rows, self._columns), FLOAT32))

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Decisions, then votes or probabilities."""
        x = _wide(inputs[0], self.vectors.shape[1])
        values = self.similarity(x, self.vectors, self._linear)
        scores: Array
        if self._linear:
            scores = values + self.rho[0]
            chosen = scores.argmax(axis=1)
        else:
            decisions = self._decisions(values)
            chosen, scores = self._vote(decisions), decisions
            if len(self._prob_a):
                scores = _coupled(decisions, self._prob_a, self._prob_b, self._classes)
            elif self._classes == 2:
                scores = self._of_two(decisions[:, 0])
        labels, target = [*outputs, None][:2]
        if labels is not None:
            np.take(self.labels, chosen, out=labels, mode="clip")
        if target is not None:
            scores = np.ascontiguousarray(scores, FLOAT32)
            if not (self._classes == 2 and not self._linear and not len(self._prob_a)):
                self._transform(scores)
            np.copyto(target, scores)

    def _of_two(self, decision: Array) -> Array:
        """Scores of two classes as onnxruntime gives them, though a positive decision is for the first one."""
        first = -decision if self._name in {"NONE", "LOGISTIC"} else 1 - decision
        scores: Array = np.stack((first, decision), axis=1)
        if self._name in {"LOGISTIC", "PROBIT"}:
            self._transform(scores)
        return scores

    def _decisions(self, values: Array) -> Array:
        """One number for each pair of classes, positive for the first of them."""
        ends = list(itertools.accumulate(self._counts))
        spans = [slice(end - count, end) for end, count in zip(ends, self._counts, strict=True)]
        columns = []
        for number, (i, j) in enumerate(itertools.combinations(range(self._classes), 2)):
            total: Any = values[:, spans[i]] @ self.coefficients[j - 1, spans[i]]
            total = total + values[:, spans[j]] @ self.coefficients[i, spans[j]]
            columns.append(total + self.rho[number])
        return np.stack(columns, axis=1)

    def _vote(self, decisions: Array) -> Any:
        votes = np.zeros((decisions.shape[0], self._classes), np.int64)
        for number, (i, j) in enumerate(itertools.combinations(range(self._classes), 2)):
            first = decisions[:, number] > 0
            votes[:, i] += first
            votes[:, j] += ~first
        return votes.argmax(axis=1)


def _coupled(decisions: Array, a: Array, b: Array, classes: int) -> Array:
    """Probabilities of all classes that agree best with those of the pairs."""
    pairwise = np.zeros((decisions.shape[0], classes, classes))
    for number, (i, j) in enumerate(itertools.combinations(range(classes), 2)):
        value = 1 / (1 + np.exp(decisions[:, number].astype(np.float64) * a[number] + b[number]))
        value = np.clip(value, 1e-7, 1 - 1e-7)
        pairwise[:, i, j], pairwise[:, j, i] = value, 1 - value
    if classes == 2:
        return np.stack((pairwise[:, 0, 1], pairwise[:, 1, 0]), axis=1)
    # Minimise the sum of (r_ji p_i - r_ij p_j)^2 under sum p = 1: a linear system with one multiplier.
    quadratic = -pairwise.swapaxes(1, 2) * pairwise
    diagonal = np.square(pairwise).sum(axis=1)
    index = np.arange(classes)
    quadratic[:, index, index] = diagonal
    system: Array = np.zeros((decisions.shape[0], classes + 1, classes + 1))
    system[:, :classes, :classes] = quadratic
    system[:, :classes, classes] = system[:, classes, :classes] = 1
    right = np.zeros((decisions.shape[0], classes + 1, 1))
    right[:, classes] = 1
    solved: Array = np.linalg.solve(system, right)[:, :classes, 0]
    return solved
