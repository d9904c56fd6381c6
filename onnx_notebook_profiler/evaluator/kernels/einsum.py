"""Einsum: products of tensors summed over shared indices.

https://onnx.ai/onnx/operators/onnx__Einsum.html. Two operands without a repeated index are one matrix product for each
index that both and the result have; everything else is numpy's einsum. Scratch: each operand where its indices have to
change order, and the product where the result's order differs.
"""

from __future__ import annotations

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


class _Equation(NamedTuple):
    """Letters of each operand and of the result; an ellipsis has become letters of its own."""

    terms: tuple[str, ...]
    result: str
    sizes: dict[str, int]


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
        if not all(map(_TERM.fullmatch, [*self._terms, right])):
            raise ValueError(f"Einsum cannot read the equation {text!r}")

    def _equation(self, values: Sequence[Array]) -> _Equation:
        """The equation for operands of these shapes.

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
            for letter, size in zip(term, value.shape, strict=True):
                known = sizes.get(letter, 1)
                if known != size and 1 not in (known, size):
                    raise ValueError(
                        f"index {letter!r} has size {known} in one place and {size} in another"
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
        return _Equation(terms, result, sizes)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """The sizes of the result's indices."""
        values = operands(self.spec, inputs, max(1, len(inputs)))
        equation = self._equation(values)
        shape = tuple(equation.sizes[letter] for letter in equation.result)
        return (TensorSpec(shape, same_type(self.spec, values)),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """As a matrix product where it is one."""
        equation = self._equation(inputs)
        if len(inputs) == 2 and _is_product(equation, inputs):
            _product(equation, inputs[0], inputs[1], outputs[0])
            return
        # numpy reads letters of the alphabet only, so indices go as numbers
        numbers = {letter: number for number, letter in enumerate(equation.sizes)}
        arguments: list[Any] = []
        for value, term in zip(inputs, equation.terms, strict=True):
            arguments += [
                value.astype(work_type(value.dtype), copy=False),
                [numbers[letter] for letter in term],
            ]
        arguments.append([numbers[letter] for letter in equation.result])
        outputs[0][...] = np.einsum(*arguments, optimize=len(inputs) > 2)


def _is_product(equation: _Equation, values: Sequence[Array]) -> bool:
    """True where no term repeats an index and no size has to be broadcast."""
    return (
        all(
            len(set(term)) == len(term)
            and all(
                equation.sizes[letter] == size
                for letter, size in zip(term, value.shape, strict=True)
            )
            for term, value in zip(equation.terms, values, strict=True)
        )
        and values[0].dtype.char in "efd"
    )


def _product(equation: _Equation, a: Array, b: Array, out: Array) -> None:
    """One matmul between [batch, rows, depth] and [batch, depth, columns]."""
    left, right = equation.terms
    result, sizes = equation.result, equation.sizes
    alone = [i for i, letter in enumerate(left) if letter not in right and letter not in result]
    if alone:
        a, left = a.sum(axis=tuple(alone)), "".join(c for i, c in enumerate(left) if i not in alone)
    alone = [i for i, letter in enumerate(right) if letter not in left and letter not in result]
    if alone:
        b, right = (
            b.sum(axis=tuple(alone)),
            "".join(c for i, c in enumerate(right) if i not in alone),
        )
    batch = [letter for letter in result if letter in left and letter in right]
    rows = [letter for letter in result if letter in left and letter not in right]
    columns = [letter for letter in result if letter in right and letter not in left]
    depth = [letter for letter in left if letter in right and letter not in result]

    def size(letters: Sequence[str]) -> int:
        return math.prod(sizes[letter] for letter in letters)

    first = a.transpose([left.index(letter) for letter in (*batch, *rows, *depth)])
    second = b.transpose([right.index(letter) for letter in (*batch, *depth, *columns)])
    first = first.reshape(size(batch), size(rows), size(depth))
    second = second.reshape(size(batch), size(depth), size(columns))
    made = [*batch, *rows, *columns]
    if made == list(result):
        np.matmul(first, second, out.reshape(size(batch), size(rows), size(columns)))
        return
    product = np.matmul(first, second).reshape([sizes[letter] for letter in made])
    np.copyto(out, product.transpose([made.index(letter) for letter in result]))
