"""Einsum against numpy's in float64, rounded once to each type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from tests.evaluator.kernels.attention_inputs import f
from tests.evaluator.kernels.harness import make_kernel, run

EQUATIONS = [
    "ij,jk->ik",
    "ij , jk -> ki",
    "bij,bjk->bik",
    "bij,kj->kbi",
    "Bi,iA",
    "ij,kl->kjil",
    "i,ij,j->",
    "ij,jk,kl,lm->im",
    "ij,jk,ki",
    "ii",
    "ii->i",
    "iij->ji",
    "ijk->k",
    "ijk",
    "ba",
    ",ij->ji",
    "ijk,ijk->ijk",
    "ik,jk,k->ij",
    "...i,...i->...",
    "...ij,jk...->...ki",
    "i...,...i",
    "a...b->b...a",
    "iji,jk->ik",
    "ij,ij,ij->j",
    "ab,cd,ef->ace",
]
SIZES = dict(zip("ijklmabcdefAB", (2, 3, 4, 2, 5, 3, 2, 4, 2, 3, 2, 3, 2), strict=True))
TYPES: list[Any] = [
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    np.float64,
    np.int8,
    np.uint16,
    np.int64,
]


def operands(equation: str, sizes: dict[str, int], dtype: Any) -> list[Any]:
    """One operand for each term; an ellipsis is two axes, of which one may be broadcast."""
    found = []
    for place, term in enumerate(equation.partition("->")[0].replace(" ", "").split(",")):
        before, dots, after = term.partition("...")
        hidden = ((3, 2), (1, 2))[place % 2] if dots else ()
        shape = (*(sizes[c] for c in before), *hidden, *(sizes[c] for c in after))
        numbers = f(*shape, seed=str(place), scale=3.0)
        found.append((np.abs(numbers) if dtype == np.uint16 else numbers).astype(dtype))
    return found


def expected(equation: str, values: list[Any], dtype: Any) -> Any:
    wide = np.int64 if np.dtype(dtype).kind in "iu" else np.float64
    exact = np.einsum(equation.replace(" ", ""), *(value.astype(wide) for value in values))
    return np.asarray(exact).astype(dtype)


def same(actual: Any, wanted: Any, dtype: Any) -> None:
    assert actual.dtype == dtype
    assert actual.shape == wanted.shape
    if np.dtype(dtype).kind in "iu":
        np.testing.assert_array_equal(actual, wanted)
        return
    step = max(1e-5, float(ml_dtypes.finfo(dtype).eps)) if dtype != np.float64 else 1e-12
    actual, wanted = actual.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(actual, wanted, rtol=step, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("equation", EQUATIONS)
def test_every_form_in_every_type(equation: str, dtype: Any) -> None:
    values = operands(equation, SIZES, dtype)
    actual = run("Einsum", *values, equation=equation, opset=12)
    same(np.asarray(actual), expected(equation, values, dtype), dtype)


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_axes_of_no_or_one_place(equation: str, size: int) -> None:
    sizes = {c: size if c in "ja" else old for c, old in SIZES.items()}
    values = operands(equation, sizes, np.float32)
    actual = run("Einsum", *values, equation=equation, opset=12)
    same(np.asarray(actual), expected(equation, values, np.float32), np.float32)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 1), (3, 4))),
        ("ij,jk->ik", ((2, 3), (1, 4))),
        ("ij,jk,kj->i", ((2, 1), (3, 4), (1, 3))),
        ("bi,bj->bij", ((1, 2), (5, 3))),
        ("ij,ij->j", ((4, 1), (1, 3))),
    ],
)
def test_indices_that_are_broadcast(equation: str, shapes: Any) -> None:
    values = [f(*shape, seed=str(place)) for place, shape in enumerate(shapes)]
    actual = run("Einsum", *values, equation=equation, opset=12)
    same(actual, expected(equation, values, np.float32), np.float32)


def test_shapes_that_change_from_run_to_run() -> None:
    kernel = make_kernel(helper.make_node("Einsum", ["a", "b"], ["y"], equation="ij,jk->ki"), 12)
    for rows in (2, 5, 2):
        values = [f(rows, 3), f(3, 4)]
        (spec,) = kernel.infer(values)
        out = np.empty(spec.shape, spec.dtype)
        kernel.compute(values, [out])
        same(out, expected("ij,jk->ki", values, np.float32), np.float32)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ii->i", ((1, 3),), "index 'i' has size"),
        ("ij,jk->ik", ((2, 3), (4, 5)), "index 'j' has size"),
        ("ij->ik", ((2, 3),), "no term has"),
        ("ij->ii", ((2, 3),), "twice"),
        ("ij", ((2, 3, 4),), "does not name the axes"),
        ("ij,j", ((2, 3),), "has 2 terms"),
        ("i.j", ((2, 3),), "cannot read"),
    ],
)
def test_what_does_not_fit(equation: str, shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run("Einsum", *(f(*shape) for shape in shapes), equation=equation, opset=12)
