"""A session that has run before: shapes that were worked out once are used again only where they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from tests.oracles import assert_same, ort

SMALL, LARGE = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((4, 5), np.float32)
COMPUTED = """g (float[N,M] x) => (float[K] y, int64[1] n) {
    s = Shape(x) zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
    a = Gather(s, zero) b = Gather(s, one) n = Mul(a, b) z = Exp(x) y = Reshape(z, n)
}"""


def model_of(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}')


def runs(text: str, *feeds: dict[str, Any], **options: Any) -> list[list[Any]]:
    """Each of *feeds* through the same session."""
    session = ReferenceEvaluator(model_of(text), kernels="numpy", **options)
    return [session.run(None, one) for one in feeds]


@pytest.mark.parametrize("options", [{}, {"events_enabled": True}, {"inplace": True}], ids=str)
def test_shapes_computed_from_shapes_follow_the_feeds(options: Any) -> None:
    feeds = [{"x": value} for value in (SMALL, SMALL, LARGE, SMALL[:1], LARGE)]
    for given, outputs in zip(feeds, runs(COMPUTED, *feeds, **options), strict=True):
        assert_same(outputs, ort(model_of(COMPUTED), given))


def test_numbers_that_are_fed_decide_a_shape_anew() -> None:
    text = "g (float[N] x, int64[R] s) => (float[K,L] y) { z = Reshape(x, s) y = Neg(z) }"
    x = np.arange(6, dtype=np.float32)
    shapes = [[2, 3], [3, 2], [6, 1]]
    results = runs(text, *({"x": x, "s": np.array(shape)} for shape in shapes))
    assert [list(outputs[0].shape) for outputs in results] == shapes


def test_an_initializer_that_is_fed_decides_a_shape_anew() -> None:
    text = (
        """g (float[6] x, int64[2] s = {2, 3}) => (float[K,L] y) { z = Reshape(x, s) y = Neg(z) }"""
    )
    x = np.arange(6, dtype=np.float32)
    given = [{"x": x}, {"x": x, "s": np.array([3, 2])}, {"x": x, "s": np.array([1, 6])}, {"x": x}]
    results = runs(text, *given)
    assert [outputs[0].shape for outputs in results] == [(2, 3), (3, 2), (1, 6), (2, 3)]


def test_elements_that_data_chooses_give_other_shapes_with_feeds_of_one_shape() -> None:
    text = "g (float[4] x) => (int64[1,K] y) { z = NonZero(x) y = Neg(z) }"
    rows = [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    results = runs(text, *({"x": np.array(row, np.float32)} for row in rows))
    assert [outputs[0].tolist() for outputs in results] == [[[0, -2]], [[0, -1, -2, -3]], [[]]]


def test_a_random_number_gives_another_size_in_each_run() -> None:
    text = """g () => (float[K] y, int64[1] n) {
        r = RandomUniform<high = 1000.0, shape = [1]>() n = Cast<to = 7>(r) z = ConstantOfShape(n) y = Exp(z)
    }"""
    results = runs(text, *[{}] * 20)
    assert all(y.shape == tuple(n) for y, n in results)
    assert len({y.shape for y, _ in results}) > 1


def test_a_body_that_grows_its_state_sees_a_new_shape_each_time() -> None:
    text = """g (float[N] x, int64 t, bool go) => (float[M] y) {
        y = Loop(t, go, x) <body = b (int64 i, bool c, float[S] s) => (bool d, float[T] u) {
            d = Identity(c) e = Neg(s) u = Concat<axis = 0>(s, e)
        }>
    }"""
    x = np.array([1], np.float32)
    results = runs(text, *({"x": x, "t": np.array(t), "go": np.array(True)} for t in (1, 3, 2)))
    assert [len(outputs[0]) for outputs in results] == [2, 8, 4]


def test_a_node_that_changes_its_tier_gives_up_what_was_known_after_it(monkeypatch: Any) -> None:
    """Its successor's results are known only once they are there."""
    from onnx_notebook_profiler.errors import UnsupportedOperatorError
    from onnx_notebook_profiler.evaluator.kernels.generators import Size

    def refuse(self: Any, inputs: Any) -> Any:
        raise UnsupportedOperatorError("not this case")

    text = "g (float[N] x) => (int64[K] y) { n = Size(x) y = Neg(n) }"
    session = ReferenceEvaluator(model_of(text), kernels="numpy")
    after = session._program.ops[1]
    assert after.steady
    monkeypatch.setattr(Size, "infer", refuse)
    assert session.run(None, {"x": SMALL.reshape(-1)})[0] == -6
    assert not after.steady


def test_a_sequence_goes_through_a_node_that_is_a_view_of_a_tensor() -> None:
    text = "g (seq(float[N]) x) => (seq(float[N]) y) { y = Identity(x) }"
    first, second = runs(text, {"x": [SMALL[0]] * 2}, {"x": [SMALL[0]] * 3})
    assert (len(first[0]), len(second[0])) == (2, 3)
