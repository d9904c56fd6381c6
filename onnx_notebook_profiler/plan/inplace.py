"""Which output could take over the buffer of an input that dies at the same node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from onnx_notebook_profiler.plan.graph_plan import ABSENT, GraphPlan, Step
from onnx_notebook_profiler.plan.views import VIEW_OPERATORS

__all__ = ["Fit", "InPlaceReuse", "ReuseRule", "dying_inputs", "find_reuse"]

ReuseRule = Literal["operator", "structural", "none"]
"""operator: element-wise operators and views, equal sizes. structural: any operator whose sizes fit, a bound that no
kernel could always honour (onnx-light's rule). none: every output is fresh."""

Fit = Literal["equal", "greater"]

# fmt: off
ELEMENT_WISE = frozenset({
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization",
    "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil",
    "Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu",
    "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu",
    "Where", "Xor",
})
# fmt: on
"""Operators of the default domain that read an element before they write it, and no other afterwards."""


@dataclasses.dataclass(frozen=True, slots=True)
class InPlaceReuse:
    """Output *output_index* may take the buffer of input *input_index*: of equal size, or of a greater one."""

    output_index: int
    input_index: int
    kind: Fit


def find_reuse(
    plan: GraphPlan,
    step: Step,
    fit: Callable[[str, str], Fit | None],
    rule: ReuseRule,
    *,
    overwrite_inputs: bool = False,
) -> tuple[InPlaceReuse, ...]:
    """The reuse at one node, sorted by output.

    An input qualifies that occurs once among the node's inputs, dies here, and is neither an initializer nor an output
    of the model; inputs of the model qualify where they may be overwritten. Equal sizes are matched before greater
    ones.

    Args:
        fit: How the bytes of an (output, input) pair compare; None where they do not fit or are unknown.
    """
    node = step.node
    if rule == "none" or (rule == "operator" and not _can_run_in_place(step)):
        return ()
    candidates = [
        position
        for position, name in enumerate(node.input)
        if _dies_here(plan, step, position, name, overwrite_inputs)
        and (rule == "structural" or node.op_type in ELEMENT_WISE or position == 0)
    ]
    found: dict[int, InPlaceReuse] = {}
    kinds: tuple[Fit, ...] = ("equal", "greater") if rule == "structural" else ("equal",)
    for kind in kinds:
        for output, name in enumerate(node.output):
            if not name or output in found:
                continue
            for position in candidates:
                taken = any(reuse.input_index == position for reuse in found.values())
                if (
                    not taken
                    and node.input[position] != name
                    and fit(name, node.input[position]) == kind
                ):
                    found[output] = InPlaceReuse(output, position, kind)
                    break
    return tuple(found[output] for output in sorted(found))


def dying_inputs(step: Step) -> tuple[int, ...]:
    """Inputs of an element-wise node whose bytes a run may hand to output 0, where shape and type are the same.

    The rule ``operator`` as far as it is known without sizes; views have the bytes of their input anyway.
    """
    if not _can_run_in_place(step) or step.node.op_type in VIEW_OPERATORS:
        return ()
    going = {release.slot for release in step.releases}
    return tuple(
        position
        for position, slot in enumerate(step.inputs)
        if slot in going and step.inputs.count(slot) == 1
    )


def _can_run_in_place(step: Step) -> bool:
    if step.is_call or step.node.domain not in ("", "ai.onnx"):
        return False
    return step.node.op_type in ELEMENT_WISE or step.node.op_type in VIEW_OPERATORS


def _dies_here(
    plan: GraphPlan, step: Step, position: int, name: str, overwrite_inputs: bool
) -> bool:
    if not name or list(step.node.input).count(name) != 1:
        return False
    slot = step.inputs[position]
    if any(release.slot == slot for release in step.releases):
        return True
    if not overwrite_inputs or name not in plan.inputs:
        return False
    later = any(
        slot in other.inputs
        or any(slot == outer for body in other.bodies for outer, _ in body.captures)
        for other in plan.steps[step.index + 1 :]
    )
    captured = any(slot == outer for body in step.bodies for outer, _ in body.captures)
    kept = name in plan.initializers or name in plan.outputs
    return slot != ABSENT and not later and not captured and not kept
