"""What is alive at each node, as lists of (source, tag, value, bytes): one walk for each way of accounting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.plan.graph_plan import EXECUTION
from onnx_notebook_profiler.plan.inplace import InPlaceReuse
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.tags import Tag

__all__ = ["Charge", "NodeAccount", "Source", "evaluator_account", "model_account"]

Source = Literal["inputs", "initializers", "intermediates"]


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """Bytes that a value holds; None where its size is unknown."""

    name: str
    source: Source
    tag: Tag
    nbytes: Expr | None
    is_io: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class NodeAccount:
    """One node: what is alive when it begins, and what it makes anew."""

    alive: tuple[Charge, ...]
    fresh: tuple[Charge, ...]


def model_account(
    plan: GraphPlan,
    reuse: Sequence[Sequence[InPlaceReuse]],
    size: Callable[[str], Expr | None],
    tags: Mapping[str, Tag],
    *,
    overwrite_inputs: bool,
) -> Iterator[NodeAccount]:
    """onnx-light's account: inputs and initializers count from first to last node, outputs once they are made.

    A value that takes over a buffer keeps that buffer's bytes, also where they are more than its own.
    """
    alive: dict[str, Charge] = {}
    for name in plan.initializers:
        alive[name] = Charge(name, "initializers", tags.get(name, ""), size(name))
    for name in plan.inputs:
        if name not in plan.initializers:
            alive[name] = Charge(name, "inputs", tags.get(name, ""), size(name))
    used_later = _last_readers(plan)
    for step, reused in zip(plan.steps, reuse, strict=True):
        node = step.node
        taken = {one.output_index: node.input[one.input_index] for one in reused}
        made = {
            position: Charge(name, "intermediates", tags.get(name, ""), size(name))
            for position, name in enumerate(node.output)
            if name
        }
        fresh = tuple(charge for position, charge in made.items() if position not in taken)
        yield NodeAccount(tuple(alive.values()), fresh)
        for position, charge in made.items():
            if charge.name in plan.outputs or used_later.get(charge.name, -1) > step.index:
                if position in taken:
                    charge = dataclasses.replace(charge, nbytes=alive[taken[position]].nbytes)  # noqa: PLW2901
                alive[charge.name] = charge
        for release in step.releases:
            alive.pop(release.name, None)
        if overwrite_inputs:
            for name in taken.values():
                if name in plan.inputs:
                    alive.pop(name, None)


def _last_readers(plan: GraphPlan) -> dict[str, int]:
    names = list(plan.slots)
    last: dict[str, int] = {}
    for step in plan.steps:
        captured = [outer for body in step.bodies for outer, _ in body.captures]
        last.update((names[slot], step.index) for slot in (*step.inputs, *captured) if slot >= 0)
    return last


def evaluator_account(
    plan: GraphPlan,
    size: Callable[[str], Expr | None],
    tags: Mapping[str, Tag],
    rank: Callable[[str], int | None],
) -> Iterator[NodeAccount]:
    """What the evaluator holds at the node's run_node event: both of its accounts, as the plan says.

    Inputs are borrowed but for rank-0 ones, which are copied; a view adds nothing; outputs stay in the io account.
    """
    standing = [
        Charge(name, "initializers", tags.get(name, ""), size(name)) for name in plan.initializers
    ]
    for name in plan.required:
        if rank(name) == 0:
            standing.append(Charge(name, "inputs", tags.get(name, ""), size(name)))
        elif rank(name) is None:
            standing.append(Charge(name, "inputs", tags.get(name, ""), None))
    born: dict[int, list[tuple[int, Charge]]] = {}
    for buffer in plan.buffers:
        owner = buffer.names[0]
        charge = Charge(
            owner, "intermediates", tags.get(owner, ""), size(owner), buffer.account != EXECUTION
        )
        born.setdefault(buffer.born, []).append((buffer.last, charge))
    alive: list[tuple[int, Charge]] = []
    for index in range(len(plan.steps)):
        alive = [(last, charge) for last, charge in alive if last >= index]
        new = born.get(index, [])
        yield NodeAccount(
            (*standing, *(charge for _, charge in alive)), tuple(charge for _, charge in new)
        )
        alive += new
