"""Pad against numpy's own, on what is left where a negative pad cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_as_numpy(mode: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        shape = rng.integers(1, 5, rng.integers(1, 4))
        pads = rng.integers(-1, 7, 2 * len(shape))
        before, after = pads[: len(shape)], pads[len(shape) :]
        left = shape + np.minimum(before, 0) + np.minimum(after, 0)
        if (left < (0 if mode == "constant" else 1)).any():
            continue
        x = rng.integers(1, 99, shape).astype(np.int32)
        cuts = zip(shape, before, after, strict=True)
        kept = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, a, b in cuts)]
        added = [(max(a, 0), max(b, 0)) for a, b in zip(before, after, strict=True)]
        options = {"constant_values": 7} if mode == "constant" else {}
        expected = np.pad(kept, added, mode, **options)
        value = np.array(7, np.int32)
        np.testing.assert_array_equal(run("Pad", x, pads, value, mode=mode), expected)
