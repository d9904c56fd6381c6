"""Resize and Upsample against onnxruntime, and against repetition by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both

X = np.random.default_rng(3).standard_normal((1, 2, 6, 7)).astype(np.float32)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@pytest.mark.parametrize(
    ("rounding", "coordinates"), list(itertools.product(ROUNDINGS, COORDINATES))
)
def test_nearest(rounding: str, coordinates: str) -> None:
    for sizes in ([1, 2, 12, 14], [1, 2, 3, 4], [1, 2, 9, 20]):
        ours, theirs = by_both(
            "Resize",
            X,
            None,
            None,
            np.array(sizes),
            mode="nearest",
            nearest_mode=rounding,
            coordinate_transformation_mode=coordinates,
            opset=18,
        )
        np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize(
    ("rounding", "coordinates"),
    list(itertools.product(ROUNDINGS, ["half_pixel", "pytorch_half_pixel", "asymmetric"])),
)
def test_scales_that_no_float_holds(rounding: str, coordinates: str) -> None:
    """1.5 / 0.6 is the middle between two elements, also where 0.6 is a float32."""
    x = np.arange(5 * 7, dtype=np.float32).reshape(1, 1, 5, 7)
    for scales in ([1, 1, 0.6, 0.4], [1, 1, 2, 1.6], [1, 1, 1.2, 0.7]):
        ours, theirs = by_both(
            "Resize",
            x,
            None,
            np.array(scales, np.float32),
            mode="nearest",
            nearest_mode=rounding,
            coordinate_transformation_mode=coordinates,
            opset=18,
        )
        np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("sizes", [[1, 2, 12, 14], [1, 2, 3, 4], [1, 2, 1, 20]], ids=str)
def test_interpolated(mode: str, coordinates: str, sizes: Any) -> None:
    ours, theirs = by_both(
        "Resize",
        X,
        None,
        None,
        np.array(sizes),
        mode=mode,
        coordinate_transformation_mode=coordinates,
        opset=18,
    )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)


def test_cubic_that_leaves_the_outside_out() -> None:
    ours, theirs = by_both(
        "Resize", X, None, None, np.array([1, 2, 9, 9]), mode="cubic", exclude_outside=1, opset=18
    )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("op", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)])
def test_old_versions_repeat_elements(op: str, opset: int) -> None:
    scales = np.array([1, 1, 2, 3], np.float32)
    inputs = (X,) if opset == 7 else (X, scales)
    attributes: dict[str, Any] = {"scales": scales.tolist()} if opset == 7 else {}
    y = run(op, *inputs, opset=opset, mode="nearest", **attributes)
    np.testing.assert_array_equal(y, X.repeat(2, axis=2).repeat(3, axis=3))


def test_large_images_go_block_by_block() -> None:
    """A linear ramp stays one under linear interpolation between aligned corners."""
    ramp = np.linspace(0, 1, 300, dtype=np.float32) * np.ones((1, 3, 200, 1), np.float32)
    y = run(
        "Resize",
        ramp,
        None,
        None,
        np.array([1, 3, 400, 599]),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    expected = np.broadcast_to(np.linspace(0, 1, 599, dtype=np.float32), y.shape)
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "inputs", "words"),
    [
        ({"mode": "lanczos"}, (None, np.ones(4, np.float32)), "mode is one of"),
        ({}, (None, None, None), "needs a scale or a size"),
        ({}, (None, np.ones(3, np.float32)), "for each of 4 axes, got 3"),
        ({}, (None, -np.ones(4, np.float32)), "greater than 0"),
        ({}, (None, None, np.array([1, 2, -3, 4])), "0 or more"),
    ],
)
def test_bad_input(attributes: Any, inputs: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run("Resize", X, *inputs, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_symmetric_places_follow_the_scale_that_the_policy_chose(mode: str, policy: str) -> None:
    ours, theirs = by_both(
        "Resize",
        *(X, None, None, np.array([9, 4])),
        mode=mode,
        keep_aspect_ratio_policy=policy,
        coordinate_transformation_mode="half_pixel_symmetric",
        axes=[2, 3],
        opset=19,
    )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)


def test_lengths_are_products_in_float32() -> None:
    """As a model's author counts them: 1.3 times 10 is 13."""
    x = np.arange(10, dtype=np.float32).reshape(1, 1, 1, 10)
    assert run("Resize", x, None, np.array([1, 1, 1, 1.3], np.float32)).shape[3] == 13


def test_the_last_place_of_a_crop_is_inside() -> None:
    for size in range(2, 40):
        x = np.arange(1, size + 1, dtype=np.float32)
        for start in (0.1, 0.3, 0.4, 0.7):
            y = run(
                "Resize",
                *(x, np.array([start, 1], np.float32), None, np.array([size + 3])),
                mode="linear",
                coordinate_transformation_mode="tf_crop_and_resize",
                extrapolation_value=-1.0,
            )
            np.testing.assert_allclose(y[-1], size, rtol=1e-5)


def test_nearest_of_opset_10_looks_ahead_where_an_axis_shrinks() -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
    for scales in ([1, 1, 0.6, 0.75], [1, 1, 0.5, 1.5], [1, 1, 2, 0.4]):
        ours, theirs = by_both("Resize", x, np.array(scales, np.float32), opset=10)
        np.testing.assert_array_equal(ours[0], theirs[0])
