"""GridSample and MaxRoiPool against onnxruntime, at and beyond the borders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

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
