"""Training optimizers: the specification's formulas, number by number in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run

DOMAIN = "ai.onnx.preview.training"
Numbers = tuple[float, ...]


def adagrad(r: float, t: int, x: float, g: float, h: float, a: dict[str, Any]) -> Numbers:
    g += a.get("norm_coefficient", 0.0) * x
    h += g * g
    rate = r / (1 + t * a.get("decay_factor", 0.0))
    return x - rate * g / (math.sqrt(h) + a.get("epsilon", 1e-6)), h


def momentum(r: float, t: int, x: float, g: float, v: float, a: dict[str, Any]) -> Numbers:
    g += a["norm_coefficient"] * x
    v = a["alpha"] * v + (a["beta"] if t else 1) * g
    return x - r * (g + a["alpha"] * v if a["mode"] == "nesterov" else v), v


def adam(r: float, t: int, x: float, g: float, v: float, h: float, a: dict[str, Any]) -> Numbers:
    alpha, beta = a.get("alpha", 0.9), a.get("beta", 0.999)
    g += a.get("norm_coefficient", 0.0) * x
    v = alpha * v + (1 - alpha) * g
    h = beta * h + (1 - beta) * g * g
    rate = r * math.sqrt(1 - beta**t) / (1 - alpha**t) if t else r
    x -= rate * v / (math.sqrt(h) + a.get("epsilon", 1e-6))
    return (1 - a.get("norm_coefficient_post", 0.0)) * x, v, h


MOMENTUM = {"alpha": 0.8, "beta": 0.3, "norm_coefficient": 0.1}
CASES: list[tuple[str, Callable[..., Numbers], int, dict[str, Any]]] = [
    ("Adagrad", adagrad, 1, {}),
    ("Adagrad", adagrad, 1, {"norm_coefficient": 0.01, "epsilon": 1e-3, "decay_factor": 0.2}),
    ("Momentum", momentum, 1, {"mode": "standard", **MOMENTUM}),
    ("Momentum", momentum, 1, {"mode": "nesterov", **MOMENTUM}),
    ("Adam", adam, 2, {}),
    (
        "Adam",
        adam,
        2,
        {
            "alpha": 0.7,
            "beta": 0.8,
            "epsilon": 0.1,
            "norm_coefficient": 0.2,
            "norm_coefficient_post": 0.3,
        },
    ),
]


@pytest.mark.parametrize(("op", "formula", "states", "attributes"), CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", [[(3,)], [(), (2, 3), (0,)]])
@pytest.mark.parametrize("step", [0, 5])
def test_a_step(
    op: str,
    formula: Any,
    states: int,
    attributes: Any,
    dtype: Any,
    shapes: Sequence[Any],
    step: int,
) -> None:
    rng = np.random.default_rng(1)
    lists = [[rng.random(shape).astype(dtype) for shape in shapes] for _ in range(2 + states)]
    found = run(
        op,
        np.array(0.1, np.float32),
        np.array(step),
        *(value for values in lists for value in values),
        opset=1,
        domain=DOMAIN,
        outputs=len(shapes) * (1 + states),
        **attributes,
    )
    found = [found] if isinstance(found, np.ndarray) else found
    for number, shape in enumerate(shapes):
        per_element = zip(*(values[number].ravel().tolist() for values in lists), strict=True)
        results = [formula(0.1, step, *one, attributes) for one in per_element]
        for kind in range(1 + states):
            made = found[number + kind * len(shapes)]
            assert made.dtype == dtype
            assert made.shape == shape
            np.testing.assert_allclose(made.ravel(), [one[kind] for one in results], rtol=1e-5)


def test_lists_of_unequal_length() -> None:
    x = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="Adagrad has 6 inputs: expected R, T and 3 lists"):
        run("Adagrad", np.array(0.1), np.array(0), x, x, x, x, opset=1, domain=DOMAIN)
