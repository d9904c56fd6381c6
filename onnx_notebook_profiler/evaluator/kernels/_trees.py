"""Decision trees as flat tables: all rows go down all trees together, one level at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["MEMBER", "MODES", "Forest", "forest_of_attributes", "make_forest"]

MODES: Final = {
    "BRANCH_LEQ": 0,
    "BRANCH_LT": 1,
    "BRANCH_GTE": 2,
    "BRANCH_GT": 3,
    "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5,
    "BRANCH_MEMBER": 6,
    "LEAF": 7,
}
MEMBER: Final = 6
_LEAF: Final = 7
_COMPARES: Final = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)

_COLUMNS: Final = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")

_BLOCK: Final = 2**15
"""Pairs of row and tree that go down together."""

_ALL_AT_ONCE: Final = 3000
"""Nodes per level, up to which it is quicker to compare all of them for one row than those on its way."""


@dataclasses.dataclass(frozen=True, slots=True)
class Forest:
    """Nodes of all trees, numbered through; a leaf is its own child, so that rows which have arrived wait there."""

    features: Array
    thresholds: Array
    children: Array
    """[2 * nodes]: where a node's condition is false, then where it is true."""
    modes: Array
    single: Any
    """The comparison of every branch; None where they differ."""
    missing: Array | None
    """Nodes that count NaN as true; None where there is no such node."""
    members: Mapping[int, Array]
    roots: Array
    depth: int

    def leaves(self, x: Array) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows of x [rows, features] with the leaf [rows, trees] that each of them reaches in each tree."""
        height = max(1, _BLOCK // max(len(self.roots), 1))
        for start in range(0, x.shape[0], height):
            part = x[start : start + height]
            one = len(part) == 1 and len(self.modes) <= _ALL_AT_ONCE * self.depth
            yield slice(start, start + height), self._follow(part) if one else self._descend(part)

    def _follow(self, x: Array) -> Array:
        """The leaves of one row: where each node leads, then from step to step."""
        value = np.take(x.reshape(-1), self.features, mode="clip")
        if self.single:
            true = self.single(value, self.thresholds)
        else:
            true = self._true(value, self.thresholds, np.arange(len(self.modes)))
        if self.missing is not None:
            true |= np.isnan(value) & self.missing
        follow = np.where(true, self.children[1::2], self.children[0::2])
        at = self.roots[None]
        for _ in range(self.depth):
            at = np.take(follow, at)
        return at

    def _descend(self, x: Array) -> Array:
        rows, width = x.shape
        flat = x.reshape(-1)
        at = np.broadcast_to(self.roots, (rows, len(self.roots))).copy()
        base = np.arange(0, rows * width, max(width, 1))[:rows, None]
        place = np.empty_like(at)
        value = np.empty(at.shape, x.dtype)
        limit = np.empty(at.shape, self.thresholds.dtype)
        for _ in range(self.depth):
            np.take(self.features, at, out=place, mode="clip")
            np.add(place, base, place)
            np.take(flat, place, out=value, mode="clip")
            np.take(self.thresholds, at, out=limit, mode="clip")
            compare = self.single
            true = compare(value, limit) if compare else self._true(value, limit, at)
            if self.missing is not None:
                true |= np.isnan(value) & self.missing[at]
            np.left_shift(at, 1, at)
            np.add(at, true, at)
            at = np.take(self.children, at)
        return at

    def _true(self, value: Array, limit: Array, at: Array) -> Array:
        """The conditions of nodes with different comparisons."""
        modes = self.modes[at]
        true = np.zeros(at.shape, np.bool_)
        for mode in np.unique(modes).tolist():
            chosen = modes == mode
            if mode < len(_COMPARES):
                true[chosen] = _COMPARES[mode](value[chosen], limit[chosen])
            elif mode == MEMBER:
                for node in np.unique(at[chosen]).tolist():
                    here = chosen & (at == node)
                    true[here] = np.isin(value[here], self.members[node])
        return true


def make_forest(
    features: Sequence[int],
    thresholds: Array,
    true: Sequence[int],
    false: Sequence[int],
    modes: Sequence[int],
    missing: Sequence[int],
    roots: Sequence[int],
    members: Mapping[int, Array],
) -> Forest:
    """Tables of nodes that name their children by number; a leaf names itself.

    Raises:
        ValueError: A child does not exist, or a node is its own ancestor.
    """
    count = len(modes)
    children = np.empty(2 * count, np.intp)
    children[0::2], children[1::2] = false, true
    if count and not ((children >= 0) & (children < count)).all():
        raise ValueError("a node of a tree names a child that does not exist")
    kinds = np.asarray(modes, np.int8)
    branches = kinds[kinds != _LEAF]
    same = len(branches) > 0 and branches[0] < len(_COMPARES) and (branches == branches[0]).all()
    return Forest(
        features=np.asarray(features, np.intp),
        thresholds=thresholds,
        children=children,
        modes=kinds,
        single=_COMPARES[branches[0]] if same else None,
        missing=np.asarray(missing, np.bool_) if any(missing) else None,
        members=members,
        roots=np.asarray(roots, np.intp),
        depth=_depth(children, kinds, roots),
    )


def _depth(children: Array, kinds: Array, roots: Sequence[int]) -> int:
    """Steps from a root to the farthest leaf."""
    level = np.unique(np.asarray(roots, np.intp))
    depth = 0
    while True:
        level = level[kinds[level] != _LEAF]
        if not len(level):
            return depth
        depth += 1
        if depth > len(kinds):
            raise ValueError("a node of a tree is its own ancestor")
        level = np.unique(children[np.concatenate((2 * level, 2 * level + 1))])


def forest_of_attributes(
    attributes: Mapping[str, Any],
) -> tuple[Forest, dict[tuple[int, int], int]]:
    """The trees of TreeEnsembleClassifier and TreeEnsembleRegressor, and the number of each (tree, node).

    Raises:
        ValueError: The lists do not fit together.
    """
    for column in _COLUMNS:
        found = len(attributes.get(f"nodes_{column}") or ())
        if found != len(attributes.get("nodes_treeids") or ()) or not found:
            raise ValueError(
                f"the lists nodes_treeids, nodes_nodeids and so on have one element for each node: "
                f"nodes_{column} has {found}, nodes_treeids {len(attributes.get('nodes_treeids') or ())}"
            )
    tree_ids, node_ids = attributes["nodes_treeids"], attributes["nodes_nodeids"]
    numbers = {key: i for i, key in enumerate(zip(tree_ids, node_ids, strict=True))}
    names = attributes["nodes_modes"]
    unknown = set(names) - set(MODES)
    if unknown:
        raise ValueError(f"nodes_modes are {', '.join(MODES)}, not {sorted(unknown)}")
    modes = [MODES[name] for name in names]
    if MEMBER in modes:
        raise ValueError("BRANCH_MEMBER needs the sets of TreeEnsemble")
    values = attributes.get("nodes_values_as_tensor")
    if values is None:
        values = np.asarray(attributes.get("nodes_values") or (), np.float32)
    if len(values) != len(modes):
        raise ValueError(f"nodes_values has {len(values)} elements for {len(modes)} nodes")

    def child(list_name: str) -> list[int]:
        found: list[int] = []
        for i, (tree, node) in enumerate(zip(tree_ids, attributes[list_name], strict=True)):
            found.append(i if modes[i] == _LEAF else numbers.get((tree, node), -1))
        return found

    roots: dict[int, int] = {}
    for i, tree in enumerate(tree_ids):
        roots.setdefault(tree, i)
    missing = attributes.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    forest = make_forest(
        attributes["nodes_featureids"],
        np.ascontiguousarray(values),
        child("nodes_truenodeids"),
        child("nodes_falsenodeids"),
        modes,
        missing,
        list(roots.values()),
        {},
    )
    return forest, numbers
