"""Activations of recurrent cells, with their parameters, computed in place.

https://onnx.ai/onnx/operators/onnx__LSTM.html lists the functions and their defaults.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["Activation", "cell_activations", "sigmoid"]

Activation = Callable[[Array], None]


def sigmoid(x: Array) -> None:
    """Through tanh, which neither overflows nor needs a second array."""
    np.multiply(x, 0.5, x)
    np.tanh(x, x)
    np.multiply(x, 0.5, x)
    np.add(x, 0.5, x)


def _tanh(x: Array) -> None:
    np.tanh(x, x)


def _affine(x: Array, alpha: float, beta: float) -> None:
    np.multiply(x, alpha, x)
    np.add(x, beta, x)


def _relu(x: Array) -> None:
    np.maximum(x, 0, out=x)


def _leaky(x: Array, alpha: float) -> None:
    np.multiply(x, alpha, x, where=x < 0)


def _thresholded(x: Array, alpha: float) -> None:
    np.copyto(x, 0, where=x < alpha)


def _scaled_tanh(x: Array, alpha: float, beta: float) -> None:
    np.multiply(x, beta, x)
    np.tanh(x, x)
    np.multiply(x, alpha, x)


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> None:
    _affine(x, alpha, beta)
    np.clip(x, 0, 1, out=x)


def _elu(x: Array, alpha: float) -> None:
    below = np.minimum(x, 0)
    np.expm1(below, below)
    np.multiply(below, alpha, below)
    np.maximum(x, 0, out=x)
    np.add(x, below, x)


def _softsign(x: Array) -> None:
    np.divide(x, np.abs(x) + 1, x)


def _softplus(x: Array) -> None:
    np.logaddexp(x, 0, out=x)


_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., None], tuple[float, ...]]]] = {
    "sigmoid": (sigmoid, ()),
    "tanh": (_tanh, ()),
    "relu": (_relu, ()),
    "affine": (_affine, (1.0, 0.0)),
    "leakyrelu": (_leaky, (0.01,)),
    "thresholdedrelu": (_thresholded, (1.0,)),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "hardsigmoid": (_hard_sigmoid, (0.2, 0.5)),
    "elu": (_elu, (1.0,)),
    "softsign": (_softsign, ()),
    "softplus": (_softplus, ()),
}
"""Function and the defaults of its alpha and beta."""


def cell_activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Activation]:
    """One function for each name; alphas and betas go, in order, to those that take one.

    The same function with the same parameters is the same object.

    Raises:
        ValueError: A name is none of the functions.
    """
    left, right = iter(alphas), iter(betas)
    found: list[Activation] = []
    for name in names:
        if name.lower() not in _FUNCTIONS:
            raise ValueError(f"activations are {', '.join(_FUNCTIONS)}, in any case, not {name!r}")
        function, defaults = _FUNCTIONS[name.lower()]
        values = [
            next(given, default) for given, default in zip((left, right), defaults, strict=False)
        ]
        found.append(_bound(function, *values) if values else function)
    return found


@functools.lru_cache(maxsize=128)
def _bound(function: Callable[..., None], *values: float) -> Activation:
    return lambda x: function(x, *values)
