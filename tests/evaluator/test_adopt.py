"""Results of foreign classes become values that own exactly their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_notebook_profiler.evaluator.adopt import adopt, copy_value, owners, value_bytes

BASE = np.arange(12, dtype=np.float32).reshape(3, 4)
NOBODY: frozenset[int] = frozenset()


def test_a_fresh_array_is_taken_as_it_is() -> None:
    fresh = BASE.copy()
    assert adopt(fresh, NOBODY) is fresh
    whole = BASE.copy().reshape(4, 3)  # a view of all bytes of something nobody else has
    assert adopt(whole, NOBODY) is whole


@pytest.mark.parametrize(
    "result",
    [
        BASE.copy()[:2],
        BASE.copy()[1:].reshape(-1),
        BASE.copy().T,
        BASE.copy()[:, ::2],
        BASE.copy()[::-1],
        np.broadcast_to(np.float32(1), (3, 4)),
        np.asfortranarray(BASE),
        np.frombuffer(BASE.tobytes(), np.float32),
    ],
    ids=["slice", "tail", "transposed", "strided", "reversed", "broadcast", "fortran", "bytes"],
)
def test_what_holds_more_or_other_bytes_is_copied(result: Any) -> None:
    taken = adopt(result, NOBODY)
    assert taken.base is None
    assert taken.flags.c_contiguous
    assert taken.flags.writeable
    assert taken.nbytes == result.size * 4
    assert not np.shares_memory(taken, result)
    np.testing.assert_array_equal(taken, result)


@pytest.mark.parametrize("result", [BASE, BASE.reshape(2, 6), BASE[:]])
def test_what_belongs_to_an_input_is_copied(result: Any) -> None:
    taken = adopt(result, owners((BASE,)))
    assert not np.shares_memory(taken, BASE)
    np.testing.assert_array_equal(taken, result)


def test_numbers_become_arrays_of_rank_zero() -> None:
    taken = adopt(np.float32(2.5), NOBODY)
    assert (type(taken), taken.shape, taken.dtype) == (np.ndarray, (), np.float32)


def test_elements_of_sequences_share_nothing_with_inputs_or_each_other() -> None:
    one, two = BASE.copy(), BASE.copy()
    taken = adopt([one, one, two, BASE], owners((BASE,)))
    assert taken[0] is one
    assert taken[2] is two
    for number, value in enumerate(taken):
        assert not any(np.shares_memory(value, other) for other in taken[number + 1 :])
        assert not np.shares_memory(value, BASE)
        np.testing.assert_array_equal(value, BASE)
    assert adopt((one,), NOBODY) == [one]  # sequences are lists


def test_sparse_results_become_dense() -> None:
    class Sparse:
        def todense(self) -> Any:
            return BASE.tolist()

    taken = adopt(Sparse(), NOBODY)
    assert type(taken) is np.ndarray
    np.testing.assert_array_equal(taken, BASE)


@pytest.mark.parametrize("value", [None, {"a": 1.0}, "text"])
def test_everything_else_stays(value: Any) -> None:
    assert adopt(value, NOBODY) is value
    assert copy_value(value) is value


@pytest.mark.parametrize(
    ("value", "nbytes"),
    [
        (BASE, 48),
        (np.zeros((0, 3)), 0),
        (np.array(1, np.int8), 1),
        (np.array(["a", "b"], object), 0),
        (np.array(["a", "b"]), 0),
        ([BASE, BASE], 96),
        ([], 0),
        ({"a": BASE}, 48),
        (None, 0),
    ],
)
def test_bytes_of_values(value: Any, nbytes: Any) -> None:
    assert value_bytes(value) == nbytes


def test_copies_have_bytes_of_their_own() -> None:
    copied = copy_value([BASE.T, [BASE]])
    np.testing.assert_array_equal(copied[0], BASE.T)
    assert copied[0].flags.c_contiguous
    assert not np.shares_memory(copied[0], BASE)
    assert not np.shares_memory(copied[1][0], BASE)
