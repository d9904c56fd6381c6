"""TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble: X [N, F] -> scores [N, targets], labels [N].

https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html and its predecessors; two classes with weights for one of
them as in onnxruntime's tree_ensemble_aggregator.h. Scratch: what 32,768 pairs of row and tree need on their way down
(a single row: up to 3,000 nodes for each level), and their leaves' weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._post_transform import (
    POST_TRANSFORMS,
    find_post_transform,
    logistic,
)
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, FLOAT64, operands, work_type
from onnx_notebook_profiler.evaluator.kernels._trees import (
    MODES,
    Forest,
    forest_of_attributes,
    make_forest,
)
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"]

_ML = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_COMBINES: Final[Mapping[str, np.ufunc]] = {"MIN": np.minimum, "MAX": np.maximum}


class _Ensemble(Kernel):
    """Leaves of all trees, and what they add to each target."""

    forest: Forest
    weights: Array
    """[nodes, targets]; 0 where a node gives nothing."""
    aggregate: str = "SUM"
    base: Array

    def _prepare(
        self, forest: Forest, count: int, entries: Sequence[tuple[int, int, float]], dtype: Any
    ) -> None:
        """Fill the table of weights with (node, target, weight)."""
        self.forest = forest
        self.targets = count
        fill = {"MIN": np.inf, "MAX": -np.inf}.get(self.aggregate, 0)
        combine = _COMBINES.get(self.aggregate, np.add)
        self.weights = np.full((len(forest.modes), count), fill, work_type(np.dtype(dtype)))
        for node, target, weight in entries:
            if not 0 <= target < count:
                raise ValueError(f"a leaf names target {target} of {count}")
            self.weights[node, target] = combine(self.weights[node, target], weight)
        self._narrow = self.weights[:, 0].copy() if count == 1 else None

    def scores(self, x: Array) -> Array:
        """[rows, targets] before base values."""
        wide = x if x.dtype in (FLOAT32, FLOAT64) else x.astype(FLOAT32)
        wide = wide.reshape(1, -1) if wide.ndim == 1 else wide
        combine = _COMBINES.get(self.aggregate, np.add)
        result = np.empty((wide.shape[0], self.targets), self.weights.dtype)
        for rows, leaves in self.forest.leaves(wide):
            if self._narrow is not None:
                combine.reduce(np.take(self._narrow, leaves), axis=1, out=result[rows, 0])
            else:
                combine.reduce(np.take(self.weights, leaves, axis=0), axis=1, out=result[rows])
        if self.aggregate == "AVERAGE":
            result /= max(len(self.forest.roots), 1)
        elif self.aggregate in {"MIN", "MAX"}:
            result[np.isinf(result)] = 0
        return result

    def rows_of(self, inputs: Sequence[Array | None]) -> int:
        """How many rows X has.

        Raises:
            ValueError: It has too few features, or is no matrix.
        """
        (x,) = operands(self.spec, inputs, 1)
        width = x.shape[-1] if x.ndim else 0
        if x.ndim not in {1, 2} or width <= self.forest.features.max(initial=-1):
            raise ValueError(
                f"{self.spec.op_type} expects X [N, F] with more than {self.forest.features.max(initial=-1)} "
                f"features, got {x.shape}"
            )
        return x.shape[0] if x.ndim == 2 else 1


def _numbers(attributes: Mapping[str, Any], name: str) -> Array:
    """A list of floats, or the tensor that may stand in its place."""
    tensor = attributes.get(f"{name}_as_tensor")
    return tensor if tensor is not None else np.asarray(attributes.get(name) or (), np.float32)


def _entries(
    attributes: Mapping[str, Any], kind: str, numbers: Mapping[tuple[int, int], int]
) -> list[tuple[int, int, float]]:
    lists = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids")
    columns = [attributes.get(name) or () for name in lists]
    weights = _numbers(attributes, f"{kind}_weights").tolist()
    found = []
    for tree, node, target, weight in zip(*columns, weights, strict=True):
        if (tree, node) not in numbers:
            raise ValueError(
                f"{kind}_nodeids names node {node} of tree {tree}, which does not exist"
            )
        found.append((numbers[tree, node], target, weight))
    return found


@register("TreeEnsembleRegressor", since_version=1, domain=_ML)
class TreeEnsembleRegressor(_Ensemble):
    """The aggregate of the leaves for each target, plus its base value."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self.aggregate = str(attributes.get("aggregate_function", "SUM"))
        if self.aggregate not in _AGGREGATES:
            raise ValueError(
                f"aggregate_function is one of {', '.join(_AGGREGATES)}, not {self.aggregate!r}"
            )
        forest, numbers = forest_of_attributes(attributes)
        count = int(attributes.get("n_targets", 1))
        entries = _entries(attributes, "target", numbers)
        self._prepare(forest, count, entries, _numbers(attributes, "target_weights").dtype)
        self.base = _numbers(attributes, "base_values")
        if len(self.base) not in {0, 1, count}:
            raise ValueError(f"{len(self.base)} base_values for {count} targets")
        self._transform = find_post_transform(str(attributes.get("post_transform", "NONE")))

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, targets] float32."""
        return (TensorSpec((self.rows_of(inputs), self.targets), FLOAT32),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Leaves, base values, post transform."""
        scores = self.scores(inputs[0])
        if len(self.base):
            scores += self.base
        self._transform(scores)
        np.copyto(outputs[0], scores, casting="unsafe")


@register("TreeEnsemble", since_version=5, domain=_ML)
class TreeEnsemble(_Ensemble):
    """Leaves apart from branches, sets as conditions, scores in the type of X."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self.aggregate = _numbered(_AGGREGATES, attributes.get("aggregate_function", 1))
        name = _numbered(tuple(POST_TRANSFORMS), attributes.get("post_transform", 0))
        self._transform = find_post_transform(name)
        features = list(attributes["nodes_featureids"])
        targets = list(attributes["leaf_targetids"])
        branches, leaves = len(features), len(targets)
        own = list(range(branches, branches + leaves))

        def children(side: str) -> list[int]:
            pairs = zip(
                attributes[f"nodes_{side}nodeids"], attributes[f"nodes_{side}leafs"], strict=True
            )
            return [node + branches if is_leaf else node for node, is_leaf in pairs] + own

        modes = [int(mode) for mode in attributes["nodes_modes"]]
        if not all(0 <= mode <= MODES["BRANCH_MEMBER"] for mode in modes):
            raise ValueError(f"nodes_modes are from 0 to 6, got {sorted(set(modes))}")
        splits = np.concatenate(
            (attributes["nodes_splits"], np.zeros(leaves, attributes["nodes_splits"].dtype))
        )
        missing = list(attributes.get("nodes_missing_value_tracks_true") or [0] * branches)
        members = _sets(attributes.get("membership_values"), modes)
        forest = make_forest(
            features + [0] * leaves,
            splits,
            children("true"),
            children("false"),
            modes + [MODES["LEAF"]] * leaves,
            missing + [0] * leaves,
            attributes["tree_roots"],
            members,
        )
        weights = attributes["leaf_weights"]
        entries = list(zip(own, targets, weights.tolist(), strict=True))
        self._prepare(forest, int(attributes.get("n_targets", 1)), entries, weights.dtype)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """[N, targets] in the type of X."""
        (x,) = operands(self.spec, inputs, 1)
        return (TensorSpec((self.rows_of(inputs), self.targets), x.dtype),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Leaves, post transform."""
        scores = self.scores(inputs[0])
        self._transform(scores)
        np.copyto(outputs[0], scores, casting="unsafe")


def _numbered(names: Sequence[str], number: int) -> str:
    if not 0 <= number < len(names):
        choices = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
        raise ValueError(f"TreeEnsemble expects one of {choices}, got {number}")
    return names[number]


def _sets(values: Any, modes: Sequence[int]) -> dict[int, Array]:
    """The set of each node whose condition is membership: runs of numbers that NaN ends."""
    nodes = [node for node, mode in enumerate(modes) if mode == MODES["BRANCH_MEMBER"]]
    if not nodes:
        return {}
    if values is None:
        raise ValueError("BRANCH_MEMBER needs membership_values")
    ends = np.flatnonzero(np.isnan(values)).tolist()
    if len(ends) < len(nodes):
        raise ValueError(f"membership_values has {len(ends)} sets for {len(nodes)} nodes")
    starts = [0, *(end + 1 for end in ends)]
    return {node: values[starts[i] : ends[i]] for i, node in enumerate(nodes)}


@register("TreeEnsembleClassifier", since_version=1, domain=_ML)
class TreeEnsembleClassifier(_Ensemble):
    """The class with the highest sum of weights, and the scores of all classes."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        texts = list(attributes.get("classlabels_strings") or ())
        integers = list(attributes.get("classlabels_int64s") or ())
        self.labels = np.array(texts, object) if texts else np.array(integers, np.int64)
        forest, numbers = forest_of_attributes(attributes)
        entries = _entries(attributes, "class", numbers)
        count = len(self.labels)
        if not count:
            raise ValueError(
                "TreeEnsembleClassifier needs classlabels_strings or classlabels_int64s"
            )
        self._prepare(forest, count, entries, _numbers(attributes, "class_weights").dtype)
        used = {target for _, target, _ in entries}
        self._positive = all(weight >= 0 for _, _, weight in entries)
        self._two = count == 2
        self._binary = self._two and len(used) == 1
        self._second = 1 in used
        self.base = _numbers(attributes, "base_values")
        self._name = str(attributes.get("post_transform", "NONE"))
        self._transform = find_post_transform(self._name)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Labels [N], scores [N, classes] float32."""
        rows = self.rows_of(inputs)
        return (
            TensorSpec((rows,), self.labels.dtype),
            TensorSpec((rows, len(self.labels)), FLOAT32),
        )

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Two classes have rules of their own."""
        scores = self.scores(inputs[0]).astype(FLOAT32, copy=False)
        if self._two:
            chosen, scores = self._of_two(scores)
        else:
            if len(self.base):
                scores += self.base
            chosen = scores.argmax(axis=1)
            self._transform(scores)
        labels, scored = [*outputs, None][:2]
        if labels is not None:
            np.take(self.labels, chosen, out=labels, mode="clip")
        if scored is not None:
            np.copyto(scored, scores)

    def _of_two(self, scores: Array) -> tuple[Array, Array]:
        """The chosen classes and the scores of two classes, the second of which may have no weights of its own."""
        base = self.base
        single = not self._second and len(base) < 2
        if len(base) == 1:
            scores[:, 0] += base[0]
        elif len(base) == 2:
            scores += base
        if not single:
            # as the specification has it: the greater score, the first of equals
            chosen = (scores[:, 1] > scores[:, 0]).astype(np.intp)
            self._transform(scores)
            return chosen, scores
        one = scores[:, 0].copy()
        halves = self._binary and self._positive
        chosen = (one > (0.5 if halves else 0)).astype(np.intp)
        if self._name == "LOGISTIC":
            scores[:, 0], scores[:, 1] = -one, one
            logistic(scores)
        elif self._name == "PROBIT":
            self._transform(scores)
        elif halves:
            scores[:, 0], scores[:, 1] = 1 - one, one
        else:
            scores[:, 0], scores[:, 1] = -one, one
        return chosen, scores
