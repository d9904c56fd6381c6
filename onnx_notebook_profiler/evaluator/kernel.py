"""The contract of a kernel: first the outputs' types and shapes, then the numbers.

A kernel that follows it never allocates a result: the evaluator asks :meth:`Kernel.infer` what the outputs look like,
lets the allocator grant their bytes and hands :meth:`Kernel.compute` the arrays to fill. An operator whose output
size only its data decides is an :class:`AdoptingKernel`: it computes first, and the evaluator adopts the result.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

__all__ = ["AdoptingKernel", "Array", "Kernel", "NodeSpec", "TensorSpec"]

Array = np.ndarray[Any, np.dtype[Any]]


class TensorSpec(NamedTuple):
    """Shape and element type of an output that is still to be made."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSpec:
    """What a kernel may know of its node.

    ``attributes`` hold plain values (int, float, str, lists of them, numpy arrays for tensors) with the defaults
    of the operator's schema filled in; an attribute without default that the node lacks is absent.
    ``wanted`` says for each output position whether somebody asked for it.
    """

    op_type: str
    domain: str
    opset: int
    attributes: Mapping[str, Any]
    wanted: tuple[bool, ...]
    input_count: int


class Kernel(abc.ABC):
    """Computes a node into buffers that are given to it; made once for each node of a model."""

    value_inputs: ClassVar[tuple[int, ...]] = ()
    """Inputs whose *values* decide the outputs' shapes, such as the ``shape`` of Reshape (position 1)."""

    in_place: ClassVar[tuple[int, ...]] = ()
    """Inputs whose array may be handed to :meth:`compute` as output 0 as well, where shape and type are the same."""

    of_shapes: ClassVar[bool] = False
    """True where the numbers of the outputs follow from the inputs' shapes alone, as those of Shape do."""

    repeatable: ClassVar[bool] = True
    """False where the same inputs may give other outputs in the next run, as in drawing random numbers."""

    constant: Array | None = None
    """The output of a kernel that gives the same in every run: lent, not copied, where it stays inside the run."""

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec

    @abc.abstractmethod
    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """Shapes and types of the outputs, one for each output that the node names (absent ones at the end left out).

        The answer is kept for each combination of input shapes and of the contents of ``value_inputs``; it may
        depend on nothing else.

        Raises:
            ValueError: The inputs do not fit the operator; the message says what was expected.
            UnsupportedOperatorError: The kernel does not do this case; the node goes to the next tier for good.
        """

    @abc.abstractmethod
    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Fill *outputs*, which are C-contiguous, uninitialised and as :meth:`infer` said.

        Inputs are C-contiguous arrays, None where they are absent, and must not be written to. An output that nobody
        wants, or that is a view of an input, is None.
        """


class AdoptingKernel(abc.ABC):
    """Computes a node and returns fresh results, whose bytes the evaluator adopts."""

    fresh: ClassVar[bool] = False
    """True where no result can share bytes with an input or another result: they need no look."""

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec

    @abc.abstractmethod
    def call(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """One result for each output: an array, a list (sequence), or None (empty optional)."""
