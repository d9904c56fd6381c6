"""Which implementation runs a node: the tiers, best first, and the way from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, get_args

from onnx import NodeProto

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.fallback import FallbackKernel
from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Array, Kernel, NodeSpec
from onnx_notebook_profiler.evaluator.kernels.copying import Copy
from onnx_notebook_profiler.evaluator.onnxruntime_kernel import OnnxRuntimeKernel
from onnx_notebook_profiler.evaluator.registry import find_kernel
from onnx_notebook_profiler.plan.views import VIEW_OPERATORS

__all__ = ["FUNCTION", "ONNXRUNTIME", "OWN", "REFERENCE", "KernelChoice", "Tiers", "check_choice"]

KernelChoice = Literal["auto", "numpy", "onnxruntime"]
"""auto: a kernel of ours, else onnxruntime's where it is installed, else onnx.reference's class. numpy: never
onnxruntime. onnxruntime: its kernel first. The body of a function of the model is run node by node in all three."""

OWN: Final = "own"
FUNCTION: Final = "function body"
ONNXRUNTIME: Final = "onnxruntime"
REFERENCE: Final = "reference"

_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "auto": (OWN, ONNXRUNTIME, REFERENCE),
    "numpy": (OWN, REFERENCE),
    "onnxruntime": (ONNXRUNTIME, OWN, REFERENCE),
}

_OURS: Final = VIEW_OPERATORS | {"Constant"}
"""Operators of the default domain that cost nothing here, and a copy elsewhere."""


def check_choice(kernels: str) -> None:
    """Raise where *kernels* is none of the choices.

    Raises:
        ValueError: It is not.
    """
    if kernels not in get_args(KernelChoice):
        raise ValueError(f"kernels is one of {', '.join(get_args(KernelChoice))}, not {kernels!r}")


class Tiers:
    """The tiers of one node. :meth:`advance` makes the kernel of the next one that has the operator.

    Args:
        captured: Outer names that the node's bodies read.
        constants: Values of the node's inputs that no run changes, by name.
        copies: True for an Identity that owes a copy: its value may be a sequence, so it is computed and adopted.
    """

    def __init__(
        self,
        kernels: KernelChoice,
        spec: NodeSpec,
        node: NodeProto,
        opsets: Mapping[str, int],
        *,
        captured: Sequence[str] = (),
        constants: Mapping[str, Array] | None = None,
        copies: bool = False,
    ) -> None:
        self._spec = spec
        order = list(_ORDER[kernels])
        if spec.domain == "" and spec.op_type in _OURS:
            order = [OWN, REFERENCE]
        self._copies = copies
        makers: Mapping[str, Callable[[], Kernel | AdoptingKernel]] = {
            OWN: self._own,
            ONNXRUNTIME: lambda: OnnxRuntimeKernel(spec, node, opsets, constants or {}),
            REFERENCE: lambda: FallbackKernel(spec, node, opsets, captured),
        }
        self._left = [(name, makers[name]) for name in order]
        self._refused: list[str] = []
        self.tier = ""
        """Name of the tier whose kernel :meth:`advance` made last."""

    def _own(self) -> Kernel | AdoptingKernel:
        if self._copies:
            return Copy(self._spec)
        found = find_kernel(self._spec.domain, self._spec.op_type, self._spec.opset)
        if found is None:
            raise UnsupportedOperatorError("no kernel")
        return found(self._spec)

    def advance(self, reason: Exception | None = None) -> Kernel | AdoptingKernel:
        """The kernel of the next tier.

        Args:
            reason: Why the kernel of the tier before does not do the case.

        Raises:
            UnsupportedOperatorError: No tier is left; the message says what each of them lacks.
        """
        if reason is not None:
            self._refused.append(f"{self.tier}: {reason}")
        while self._left:
            name, make = self._left.pop(0)
            try:
                kernel = make()
            except UnsupportedOperatorError as error:
                self._refused.append(f"{name}: {error}")
                continue
            self.tier = name
            return kernel
        spec = self._spec
        raise UnsupportedOperatorError(
            f"operator {spec.op_type} of domain {spec.domain or 'ai.onnx'}, opset {spec.opset}, has no implementation; "
            f"tried {'; '.join(self._refused)}. A function of that name in the model would run, too"
        )
