"""MACs against naive loops that count each multiplication whose product they add, and compute the right result."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto

from onnx_notebook_profiler import ReferenceEvaluator
from tests.symbolic.work_models import node_work, numbers, one_node

Array = npt.NDArray[Any]


def filled(*shape: int) -> Array:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


def run(model: ModelProto, *inputs: Array) -> Array:
    (result,) = ReferenceEvaluator(model).run(None, {f"i{k}": one for k, one in enumerate(inputs)})
    return np.asarray(result)


def text(array: Array) -> str:
    return f"float[{','.join(map(str, array.shape))}]"


def naive_convolution(
    x: Array, w: Array, *, group: int, stride: int, dilation: int, pad: int
) -> tuple[Array, int]:
    """Y [N, M, E, F] and how many products were added."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    size = tuple(
        (x.shape[axis] - dilation * (w.shape[axis] - 1) - 1) // stride + 1 for axis in (2, 3)
    )
    y = np.zeros((x.shape[0], w.shape[0], *size))
    count = 0
    for n, m, e, f in np.ndindex(y.shape):
        first = m // (w.shape[0] // group) * w.shape[1]
        for c, i, j in np.ndindex(w.shape[1:]):
            y[n, m, e, f] += (
                x[n, first + c, e * stride + i * dilation, f * stride + j * dilation]
                * w[m, c, i, j]
            )
            count += 1
    return y, count


@pytest.mark.parametrize(
    ("group", "stride", "dilation", "pad"),
    [(1, 1, 1, 0), (1, 2, 1, 1), (2, 1, 2, 0), (4, 2, 1, 2), (2, 1, 2, 2)],
)
def test_a_convolution(group: int, stride: int, dilation: int, pad: int) -> None:
    x, w = filled(2, 4, 7, 6), filled(8, 4 // group, 3, 2)
    y, count = naive_convolution(x, w, group=group, stride=stride, dilation=dilation, pad=pad)
    options: dict[str, Any] = {
        "group": group,
        "strides": [stride, stride],
        "dilations": [dilation, dilation],
        "pads": [pad] * 4,
    }
    inputs = [text(x), text(w)]
    np.testing.assert_array_equal(run(one_node("Conv", inputs, [text(y)], **options), x, w), y)
    assert numbers(node_work("Conv", inputs, [text(y)], **options))[:2] == (count, 2 * count)


@pytest.mark.parametrize("group", [1, 2])
def test_a_transposed_convolution(group: int) -> None:
    x, w = filled(2, 4, 3, 5), filled(4, 3, 2, 3)
    y = np.zeros((2, 3 * group, 2 * 2 + 2, 2 * 4 + 3))
    count = 0
    for n, c, e, f in np.ndindex(x.shape):
        first = c // (4 // group) * 3
        for m, i, j in np.ndindex(w.shape[1:]):
            y[n, first + m, 2 * e + i, 2 * f + j] += x[n, c, e, f] * w[c, m, i, j]
            count += 1
    inputs = [text(x), text(w)]
    options: dict[str, Any] = {"group": group, "strides": [2, 2]}
    model = one_node("ConvTranspose", inputs, [text(y)], **options)
    np.testing.assert_array_equal(run(model, x, w), y)
    assert numbers(node_work("ConvTranspose", inputs, [text(y)], **options))[0] == count


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 1, 3, 4), (6, 4, 5)), ((4,), (4,))],
)
def test_a_matrix_product(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = filled(*left), filled(*right)
    result = np.matmul(a, b)
    count = 0
    # each number of the result is a sum over the axis that both share
    for _ in np.ndindex(result.shape):
        for _ in range(a.shape[-1]):
            count += 1
    work = node_work("MatMul", [text(a), text(b)], [text(result)])
    assert numbers(work)[:2] == (count, 2 * count)


def naive_join(left: tuple[str, Array], right: tuple[str, Array], kept: str) -> tuple[Array, int]:
    """The sum of the products of two tensors over all indices that are not kept, and how many products there are."""
    sizes: dict[str, int] = {}
    for term, array in (left, right):
        for letter, size in zip(term, array.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    letters = sorted(sizes)
    result = np.zeros([sizes[letter] for letter in kept])
    count = 0
    for values in itertools.product(*(range(sizes[letter]) for letter in letters)):
        at = dict(zip(letters, values, strict=True))

        def pick(term: str, array: Array, at: dict[str, int] = at) -> Any:
            place = zip(term, array.shape, strict=True)
            return array[tuple(at[letter] if size > 1 else 0 for letter, size in place)]

        result[tuple(at[letter] for letter in kept)] += pick(*left) * pick(*right)
        count += 1
    return result, count


@pytest.mark.parametrize(
    ("equation", "plain", "shapes"),
    [
        ("ij,jk->ik", "ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", "ij,jk->ik", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", "bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", "abij,abjk->abik", [(2, 3, 4, 2), (2, 3, 2, 5)]),
        ("...ij,jk->...ik", "aij,jk->aik", [(3, 4, 2), (2, 5)]),
        ("ii,i->", "ii,i->", [(3, 3), (3,)]),
        ("ij,kl->", "ij,kl->", [(2, 3), (2, 2)]),
        (" i j , j -> i ", "ij,j->i", [(2, 3), (3,)]),
    ],
)
def test_a_sum_of_products(equation: str, plain: str, shapes: list[tuple[int, ...]]) -> None:
    left, right = (filled(*shape) for shape in shapes)
    terms, kept = plain.split("->")
    one, other = terms.split(",")
    result, count = naive_join((one, left), (other, right), kept)
    inputs = [text(left), text(right)]
    model = one_node("Einsum", inputs, [text(result)], equation=equation)
    np.testing.assert_array_equal(run(model, left, right), result)
    work = node_work("Einsum", inputs, [text(result)], equation=equation)
    assert numbers(work)[:2] == (count, 2 * count)


def test_three_operands_are_joined_from_the_left() -> None:
    a, b, c = filled(2, 3), filled(3, 4), filled(4, 5)
    first, before = naive_join(("ij", a), ("jk", b), "ik")
    last, after = naive_join(("ik", first), ("kl", c), "il")
    work = node_work("Einsum", [text(a), text(b), text(c)], [text(last)], equation="ij,jk,kl->il")
    assert numbers(work)[:2] == (before + after, 2 * (before + after))


def test_products_that_are_not_added_are_no_macs() -> None:
    # 6 products of an outer product; 6 sums of a single operand; a transposition does nothing
    for equation, inputs, output, flops in [
        ("i,j->ij", ["float[2]", "float[3]"], "float[2,3]", 6),
        ("ij->i", ["float[2,3]"], "float[2]", 6),
        ("ij->ji", ["float[2,3]"], "float[3,2]", 0),
    ]:
        assert numbers(node_work("Einsum", inputs, [output], equation=equation))[:2] == (0, flops)


SYMBOLIC: list[tuple[str, list[str], str, dict[str, Any]]] = [
    ("MatMul", ["float[N,S,8]", "float[8,S]"], "float[N,S,S]", {}),
    ("Gemm", ["float[N,8]", "float[8,S]", "float[S]"], "float[N,S]", {}),
    ("Conv", ["float[N,4,S,S]", "float[6,2,3,3]", "float[6]"], "float[N,6,e,f]",
     {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("ConvTranspose", ["float[N,4,S,S]", "float[4,3,2,2]"], "float[N,3,e,f]",
     {"strides": [2, 2]}),
    ("Einsum", ["float[N,S,4]", "float[N,S,4]"], "float[N,S,S]",
     {"equation": "nid,njd->nij"}),
    ("Attention", ["float[N,2,S,4]", "float[N,2,S,4]", "float[N,2,S,4]"], "float[N,2,S,4]", {}),
    ("LSTM", ["float[S,N,3]", "float[1,16,3]", "float[1,16,4]"], "float[S,1,N,4]",
     {"hidden_size": 4}),
    ("Softmax", ["float[N,S]"], "float[N,S]", {}),
    ("LayerNormalization", ["float[N,S,6]", "float[6]"], "float[N,S,6]", {}),
    ("AveragePool", ["float[N,4,S,S]"], "float[N,4,e,f]", {"kernel_shape": [3, 3]}),
    ("ReduceMean", ["float[N,S,5]"], "float[N,S,1]", {"axes": [2], "opset": 13}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "output", "options"), SYMBOLIC)
@pytest.mark.parametrize("sizes", [{"N": 1, "S": 5}, {"N": 3, "S": 8}, {"N": 2, "S": 17}])
def test_formulas_have_the_values_of_fixed_shapes(
    op: str, inputs: list[str], output: str, options: dict[str, Any], sizes: dict[str, int]
) -> None:
    symbolic = node_work(op, inputs, [output], **options)
    fixed = [
        one.replace("N", str(sizes["N"])).replace("S", str(sizes["S"])) for one in (*inputs, output)
    ]
    concrete = node_work(op, fixed[:-1], fixed[-1:], **options)
    assert None not in numbers(concrete)
    assert numbers(symbolic, sizes) == numbers(concrete)


def test_a_logarithm_of_a_symbolic_size_is_unknown() -> None:
    work = node_work("Unique", ["float[N]"], ["float[k]"])
    assert numbers(work, {"N": 2})[:2] == (None, None)
    assert "log2 of n, 'N', is no formula" in work.reason
