"""The activations that onnxruntime fuses into a convolution or a pool, for arrays of any strides, where they are.

ContribOperators.md of onnxruntime, FusedConv: ``activation`` names the operator, ``activation_params`` its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, NodeSpec
from onnx_notebook_profiler.evaluator.kernels._cells import cell_activations
from onnx_notebook_profiler.evaluator.kernels._finish import Activate

__all__ = ["fused_activation"]


def _of_cells(name: str) -> Callable[..., Activate]:
    """The function of that name that recurrent cells have, too."""
    return lambda *numbers: cell_activations([name], numbers[:1], numbers[1:])[0]


def _sigmoid() -> Activate:
    def activate(y: Array) -> None:
        np.negative(y, y)
        np.exp(y, y)
        np.add(y, 1, y)
        np.reciprocal(y, y)

    return activate


def _clip(low: float, high: float) -> Activate:
    def activate(y: Array) -> None:
        np.maximum(y, low, out=y)
        np.minimum(y, high, out=y)

    return activate


# activation: how many numbers it takes, and what it makes of them
_ACTIVATIONS: Final[Mapping[str, tuple[int, Callable[..., Activate]]]] = {
    "Clip": (2, _clip),
    "HardSigmoid": (2, _of_cells("HardSigmoid")),
    "LeakyRelu": (1, _of_cells("LeakyRelu")),
    "Relu": (0, _of_cells("Relu")),
    "Sigmoid": (0, _sigmoid),
    "Tanh": (0, _of_cells("Tanh")),
}


def fused_activation(spec: NodeSpec) -> Activate | None:
    """What the node's ``activation`` does, or None where it names none.

    Raises:
        UnsupportedOperatorError: The activation is not known.
        ValueError: It has not as many ``activation_params`` as it needs.
    """
    name: str = spec.attributes.get("activation") or ""
    if not name:
        return None
    if name not in _ACTIVATIONS:
        raise UnsupportedOperatorError(f"{spec.op_type} with activation {name!r}")
    count, make = _ACTIVATIONS[name]
    numbers: Sequence[Any] = spec.attributes.get("activation_params") or ()
    if len(numbers) < count:
        raise ValueError(
            f"{spec.op_type}: {name} needs {count} activation_params, got {list(numbers)}"
        )
    return make(*(float(number) for number in numbers[:count]))
