"""Einsum: products of tensors summed over shared indices.

https://onnx.ai/onnx/operators/onnx__Einsum.html. Operands are multiplied two by two, those first whose product is the
smallest; two are one matrix product for each index that both and the result have. Narrow floats are computed in float32
and rounded once. Scratch: operands whose indices have to change order, the products before the last, and the last one
where the result's order differs.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import operands, same_type, work_type
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["Einsum"]

_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


class _View(NamedTuple):
    """An operand made ready: one axis for each of its letters, those summed that nothing else has."""

    diagonal: tuple[list[int], list[int]] | None
    """Numbers of the letters, those of the letters once; where one comes twice."""
    shape: tuple[int, ...] | None
    """Without the axes of size 1 that stand for longer ones."""
    summed: tuple[int, ...]


class _Product(NamedTuple):
    """How two operands become one."""

    places: tuple[int, int]
    orders: tuple[list[int], list[int]]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    sums: bool
    """Whether it is a matrix product; else the numbers are multiplied one by one."""
    sizes: tuple[int, ...]
    order: list[int] | None
    """How the axes of the product have to be turned to be the result's; None: they need not."""


class _Plan(NamedTuple):
    """All steps for operands of certain shapes."""

    views: tuple[_View, ...]
    products: tuple[_Product, ...]
    order: list[int]
    """The axes of a single operand in the result's order."""


def _letters(term: str, rank: int, hidden: str) -> str:
    """*term* with letters in the place of its ellipsis, aligned at the end."""
    if "..." not in term:
        return term
    count = rank - len(term.replace("...", ""))
    return term.replace("...", hidden[len(hidden) - count :] if count else "")


@register("Einsum", since_version=12)
class Einsum(Kernel):
    """Inputs as the terms of ``equation`` name their axes."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        text = str(spec.attributes["equation"]).replace(" ", "")
        left, arrow, right = text.partition("->")
        self._terms = left.split(",")
        self._right = right if arrow else None
        self._plan: tuple[tuple[tuple[int, ...], ...], _Plan] | None = None
        if not all(map(_TERM.fullmatch, [*self._terms, right])):
            raise ValueError(f"Einsum cannot read the equation {text!r}")

    def _equation(self, values: Sequence[Array]) -> tuple[tuple[str, ...], str, dict[str, int]]:
        """Letters of each operand and of the result, and their sizes; an ellipsis has become letters of its own.

        Raises:
            ValueError: They do not fit it.
        """
        if len(values) != len(self._terms):
            raise ValueError(
                f"the equation has {len(self._terms)} terms, the node {len(values)} inputs"
            )
        used = set("".join((*self._terms, self._right or "")))
        spare = [chr(code) for code in range(0x100, 0x180)]
        depth = 0
        for term, value in zip(self._terms, values, strict=True):
            named = len(term.replace("...", ""))
            if named > value.ndim or (named < value.ndim and "..." not in term):
                raise ValueError(
                    f"term {term!r} does not name the axes of shape {list(value.shape)}"
                )
            if "..." in term:
                depth = max(depth, value.ndim - named)
        hidden = "".join(one for one in spare if one not in used)[:depth]
        terms = tuple(_letters(t, v.ndim, hidden) for t, v in zip(self._terms, values, strict=True))
        sizes: dict[str, int] = {}
        for term, value in zip(terms, values, strict=True):
            own: dict[str, int] = {}
            for letter, size in zip(term, value.shape, strict=True):
                known = sizes.get(letter, 1)
                if own.setdefault(letter, size) != size or (
                    known != size and 1 not in (known, size)
                ):
                    raise ValueError(
                        f"index {letter!r} has size {max(known, own[letter])} in one place and {size} in another"
                    )
                sizes[letter] = max(known, size) if 0 not in (known, size) else 0
        if self._right is None:
            every = "".join(terms)
            once = sorted(letter for letter in set(every) - set(hidden) if every.count(letter) == 1)
            result = hidden + "".join(once)
        else:
            result = self._right.replace("...", hidden)
        if not set(result) <= set(sizes) or len(set(result)) < len(result):
            raise ValueError("the result names an index that no term has, or one twice")
        return terms, result, sizes

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The sizes of the result's indices."""
        values = operands(self.spec, inputs, max(1, len(inputs)))
        _, result, sizes = self._equation(values)
        shape = tuple(sizes[letter] for letter in result)
        return (TensorSpec(shape, same_type(self.spec, values)),)

    def _planned(self, inputs: Sequence[Array]) -> _Plan:
        """The plan for these shapes, which the last run may have had."""
        shapes = tuple(value.shape for value in inputs)
        known = self._plan
        if known is None or known[0] != shapes:
            known = self._plan = (shapes, _plan(shapes, *self._equation(inputs)))
        return known[1]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """View by view, then product by product; the last one goes into the output."""
        plan, (out,) = self._planned(inputs), outputs
        wide = work_type(out.dtype)
        values = [
            _seen(value.astype(wide, copy=False), view)
            for value, view in zip(inputs, plan.views, strict=True)
        ]
        for product in plan.products:
            first, second = (values[place] for place in product.places)
            values = [one for place, one in enumerate(values) if place not in product.places]
            last = not values and out.dtype == wide
            values.append(_multiplied(product, first, second, out if last else None))
        if values[0] is not out:
            np.copyto(out, values[0].transpose(plan.order), casting="unsafe")


def _seen(value: Array, view: _View) -> Array:
    """*value* as *view* says."""
    if view.diagonal is not None:
        value = np.einsum(value, *view.diagonal)
    if view.shape is not None:
        value = value.reshape(view.shape)
    if view.summed:
        value = np.add.reduce(value, axis=view.summed, dtype=value.dtype)
    return np.asarray(value)


def _multiplied(product: _Product, a: Array, b: Array, out: Array | None) -> Array:
    """The product of two operands, in *out* where that is given."""
    a = a.transpose(product.orders[0]).reshape(product.shapes[0])
    b = b.transpose(product.orders[1]).reshape(product.shapes[1])
    fits = product.order is None
    target = out if fits and out is not None else np.empty(product.sizes, a.dtype)
    if product.sums:
        np.matmul(a, b, target.reshape(a.shape[0], a.shape[1], b.shape[2]))
    else:
        np.multiply(a, b, target)
    if not fits:
        target = target.transpose(product.order)
    if out is None or fits:
        return target
    np.copyto(out, target)
    return out


def _plan(
    shapes: Sequence[tuple[int, ...]], terms: Sequence[str], result: str, sizes: dict[str, int]
) -> _Plan:
    """The steps; of all pairs left the one with the smallest product comes first."""
    owns = [dict(zip(term, shape, strict=True)) for term, shape in zip(terms, shapes, strict=True)]
    whole = ["".join(c for c in own if own[c] == sizes[c]) for own in owns]
    views, left = [], []
    for place, (term, own, kept) in enumerate(zip(terms, owns, whole, strict=True)):
        others = result + "".join((*whole[:place], *whole[place + 1 :]))
        views.append(_view(term, own, kept, others))
        left.append("".join(c for c in kept if c in others))
    products = []
    while len(left) > 1:
        (i, j), kept = _cheapest(left, result, sizes)
        last = len(left) == 2
        product, made = _product(
            (i, j), left[i], left[j], result if last else kept, sizes, exact=last
        )
        products.append(product)
        left = [one for k, one in enumerate(left) if k not in {i, j}] + [made]
    return _Plan(tuple(views), tuple(products), [left[0].index(c) for c in result])


def _cheapest(
    terms: Sequence[str], result: str, sizes: dict[str, int]
) -> tuple[tuple[int, int], str]:
    """The two terms with the smallest product, and the letters that it has."""
    found = []
    for i, j in itertools.combinations(range(len(terms)), 2):
        others = result + "".join(term for k, term in enumerate(terms) if k not in {i, j})
        kept = "".join(dict.fromkeys(c for c in terms[i] + terms[j] if c in others))
        found.append((math.prod(sizes[c] for c in kept), (i, j), kept))
    return min(found)[1:]


def _view(term: str, own: dict[str, int], kept: str, others: str) -> _View:
    """How an operand whose letters have the sizes *own* is made ready; *kept* are those that are not broadcast."""
    letters = list(own)
    diagonal = None
    if len(letters) < len(term):
        diagonal = ([letters.index(c) for c in term], list(range(len(letters))))
    shape = tuple(own[c] for c in kept) if len(kept) < len(letters) else None
    return _View(diagonal, shape, tuple(i for i, c in enumerate(kept) if c not in others))


def _product(
    places: tuple[int, int],
    left: str,
    right: str,
    result: str,
    sizes: dict[str, int],
    *,
    exact: bool,
) -> tuple[_Product, str]:
    """How operands with the letters *left* and *right* become *result*, in that order where it is *exact*."""

    def size(letters: Sequence[str]) -> int:
        return math.prod(sizes[c] for c in letters)

    depth = [c for c in left if c in right and c not in result]
    if not depth:
        orders = tuple([term.index(c) for c in result if c in term] for term in (left, right))
        grown = tuple(tuple(sizes[c] if c in term else 1 for c in result) for term in (left, right))
        whole = tuple(sizes[c] for c in result)
        return _Product(
            places, (orders[0], orders[1]), (grown[0], grown[1]), False, whole, None
        ), result
    batch = [c for c in result if c in left and c in right]
    rows = [c for c in result if c in left and c not in right]
    columns = [c for c in result if c in right and c not in left]
    if exact and [*batch, *columns, *rows] == list(result):
        places, left, right, rows, columns = places[::-1], right, left, columns, rows
    made = [*batch, *rows, *columns]
    product = _Product(
        places,
        (
            [left.index(c) for c in (*batch, *rows, *depth)],
            [right.index(c) for c in (*batch, *depth, *columns)],
        ),
        ((size(batch), size(rows), size(depth)), (size(batch), size(depth), size(columns))),
        True,
        tuple(sizes[c] for c in made),
        [made.index(c) for c in result] if exact and made != list(result) else None,
    )
    return product, result if exact else "".join(made)
