"""GridSample and MaxRoiPool against onnxruntime, at and beyond the borders."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


@pytest.mark.parametrize(("mode", "padding"), list(itertools.product(MODES, PADDINGS)))
def test_grid_samples_far_outside(mode: str, padding: str) -> None:
    rng = np.random.default_rng(0)
    for height, width, aligned in itertools.product((1, 2, 5), (1, 4), (0, 1)):
        x = rng.standard_normal((1, 2, height, width)).astype(np.float32)
        grid = rng.uniform(-1.9, 1.9, (1, 4, 5, 2)).astype(np.float32)
        ours, theirs = by_both(
            "GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=aligned, opset=16
        )
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-3, atol=1e-3)


def test_regions_that_start_outside_are_rounded_away_from_zero() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 6, 7)).astype(np.float32)
    corners = itertools.product((-3, -1, 0, 1), (-1, 1), (2, 5), (3, 7))
    regions = np.array([[0, *corner] for corner in corners], np.float32)
    ours, theirs = by_both(
        "MaxRoiPool", x, regions, pooled_shape=[2, 3], spatial_scale=0.5, opset=1
    )
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_places_that_are_no_numbers_read_nothing_outside(mode: str) -> None:
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    grid = np.array([[[[np.inf, 0], [0, -np.inf], [np.nan, np.nan]]]], np.float32)
    zeros = run("GridSample", x, grid, mode=mode)
    np.testing.assert_array_equal(zeros[..., :2], 0)
    border = run("GridSample", x, grid, mode=mode, padding_mode="border", align_corners=1)
    assert np.isfinite(border).all()
    assert border[0, 0, 0, 2] == 1


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "words"),
    [
        ("RoiAlign", (ones(1, 1, 3, 3), ones(1, 4), np.array([3])), "index 3 is out of range"),
        ("RoiAlign", (ones(1, 1, 3, 3), ones(2, 4), np.array([0])), "one item for each of 2"),
        ("RoiAlign", (ones(1, 1, 3, 3), ones(1, 3), np.array([0])), r"regions \[R, 4\]"),
        ("MaxRoiPool", (ones(1, 1, 3, 3), ones(1, 5) * 4), "index 4 is out of range"),
        ("MaxRoiPool", (ones(1, 1, 3, 3), ones(1, 4)), r"regions \[R, 5\]"),
        ("NonMaxSuppression", (ones(1, 3, 4), ones(1, 1, 2)), "do not fit boxes"),
        ("NonMaxSuppression", (ones(1, 3, 4), ones(2, 1, 3)), "do not fit boxes"),
        ("GridSample", (ones(1, 1, 0, 2), ones(1, 2, 2, 2)), "no element to sample"),
        ("Resize", (ones(1, 0), None, None, np.array([1, 2])), "no element to sample"),
        ("OneHot", (np.array([0]), np.array(-1), ones(2)), "depth of 0 or more"),
    ],
)
def test_inputs_that_do_not_fit(op: str, inputs: Any, words: str) -> None:
    options: dict[str, Any] = {"pooled_shape": [1, 1]} if op == "MaxRoiPool" else {}
    with pytest.raises(ValueError, match=words):
        run(op, *inputs, **options)
