"""Which nodes see the same shapes whenever what comes from outside has the same: their outputs are worked out once.

A shape follows from those of a graph's inputs and captured values through every kernel that infers it from shapes
alone, and through one that reads values where those follow from shapes too, as the numbers that Shape gives do. What
other tiers, bodies and operators such as NonZero return is known only when it is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from onnx_notebook_profiler.plan.graph_plan import ABSENT

if TYPE_CHECKING:
    from onnx_notebook_profiler.evaluator.program import Op

__all__ = ["mark_steady"]


def mark_steady(ops: Iterable[Op], shaped: Iterable[int], valued: Iterable[int]) -> None:
    """Mark the steady ones among *ops*.

    Args:
        ops: The nodes of a graph, in order.
        shaped: Slots of values that come from outside, and of constants.
        valued: Slots of tensors whose numbers are fixed.
    """
    shaped, valued = {*shaped, ABSENT}, {*valued, ABSENT}
    for op in ops:
        kernel = op.kernel
        steady = (
            kernel is not None
            and shaped.issuperset(op.slots)
            and valued.issuperset(op.slots[at] for at in kernel.value_inputs if at < len(op.slots))
        )
        op.mark(steady=steady)
        if kernel is not None and steady:
            made = [output.slot for output in op.outputs]
            shaped.update(made)
            if kernel.repeatable and (kernel.of_shapes or valued.issuperset(op.slots)):
                valued.update(made)
