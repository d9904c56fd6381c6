"""What is alive at each node, by source and tag: one walk over the plan for each way of accounting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from onnx_notebook_profiler.plan import GraphPlan
from onnx_notebook_profiler.plan.graph_plan import EXECUTION
from onnx_notebook_profiler.plan.inplace import InPlaceReuse
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.tags import Tag

__all__ = [
    "ALL_COUNTED",
    "Charge",
    "Counting",
    "Ledger",
    "NodeAccount",
    "Source",
    "evaluator_account",
    "model_account",
]

Source = Literal["inputs", "initializers", "intermediates"]
Bucket = tuple[Source, Tag]

_NOTHING = Expr.constant(0)


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
    """One node: what is alive when it begins, summed up, and what it makes anew."""

    already: Expr
    already_io: Expr
    buckets: Mapping[Bucket, Expr]
    unknown: int
    """Values of unknown size that are alive when the node begins."""
    fresh: tuple[Charge, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Counting:
    """What the model's account counts."""

    outputs: bool
    """The model's outputs, once they are made."""
    initializers: bool
    """The weights, from the first node to the last."""
    release_inputs: bool
    """Inputs to their last use only."""


ALL_COUNTED = Counting(outputs=True, initializers=True, release_inputs=False)


class Ledger:
    """Running sums of what is alive: a node changes few of them, however many values there are."""

    def __init__(self, charges: Iterable[Charge]) -> None:
        self._buckets: dict[Bucket, Expr] = {}
        self._total = self._io = _NOTHING
        self._unknown = 0
        grouped: dict[tuple[Source, Tag, bool], list[Expr]] = {}
        for charge in charges:
            if charge.nbytes is None:
                self._unknown += 1
            else:
                key = (charge.source, charge.tag, charge.is_io)
                grouped.setdefault(key, []).append(charge.nbytes)
        for (source, tag, is_io), sizes in grouped.items():
            self._add(Charge("", source, tag, Expr.sum(sizes), is_io), 1)

    def enter(self, charge: Charge) -> None:
        """A value is alive from now on."""
        self._add(charge, 1)

    def leave(self, charge: Charge) -> None:
        """A value is alive no more."""
        self._add(charge, -1)

    def _add(self, charge: Charge, sign: int) -> None:
        if charge.nbytes is None:
            self._unknown += sign
            return
        change = charge.nbytes if sign > 0 else -charge.nbytes
        bucket = (charge.source, charge.tag)
        self._buckets[bucket] = self._buckets.get(bucket, _NOTHING) + change
        self._total += change
        if charge.is_io:
            self._io += change

    def account(self, fresh: tuple[Charge, ...]) -> NodeAccount:
        """The account of a node that makes *fresh*."""
        return NodeAccount(self._total, self._io, dict(self._buckets), self._unknown, fresh)


def model_account(
    plan: GraphPlan,
    reuse: Sequence[Sequence[InPlaceReuse]],
    size: Callable[[str], Expr | None],
    tags: Mapping[str, Tag],
    *,
    overwrite_inputs: bool,
    counting: Counting = ALL_COUNTED,
) -> Iterator[NodeAccount]:
    """onnx-light's account: inputs and initializers count from first to last node, outputs once they are made.

    A value that takes over a buffer keeps that buffer's bytes, also where they are more than its own. *counting*
    leaves a part out.
    """
    alive: dict[str, Charge] = {}
    for name in plan.initializers if counting.initializers else ():
        alive[name] = Charge(name, "initializers", tags.get(name, ""), size(name))
    for name in plan.inputs:
        if name not in plan.initializers:
            alive[name] = Charge(name, "inputs", tags.get(name, ""), size(name))
    ledger = Ledger(alive.values())
    used_later = _last_readers(plan)
    leaving = _inputs_by_last_reader(plan, used_later) if counting.release_inputs else {}
    for step, reused in zip(plan.steps, reuse, strict=True):
        node = step.node
        taken = {one.output_index: node.input[one.input_index] for one in reused}
        made = {
            position: Charge(name, "intermediates", tags.get(name, ""), size(name))
            for position, name in enumerate(node.output)
            if name and (counting.outputs or name not in plan.outputs)
        }
        yield ledger.account(
            tuple(charge for position, charge in made.items() if position not in taken)
        )
        for position, charge in made.items():
            if charge.name in plan.outputs or used_later.get(charge.name, -1) > step.index:
                if position in taken:
                    charge = dataclasses.replace(charge, nbytes=alive[taken[position]].nbytes)  # noqa: PLW2901
                alive[charge.name] = charge
                ledger.enter(charge)
        gone = [release.name for release in step.releases]
        gone += leaving.get(step.index, ())
        if overwrite_inputs:
            gone += [name for name in taken.values() if name in plan.inputs]
        for name in gone:
            if name in alive:
                ledger.leave(alive.pop(name))


def _inputs_by_last_reader(plan: GraphPlan, last: Mapping[str, int]) -> dict[int, list[str]]:
    """The inputs that the caller could let go after each node; one that nobody reads goes after the first."""
    leaving: dict[int, list[str]] = {}
    for name in plan.inputs:
        if name not in plan.outputs:
            leaving.setdefault(last.get(name, 0), []).append(name)
    return leaving


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
    ledger = Ledger(standing)
    leaving: dict[int, list[Charge]] = {}
    for index in range(len(plan.steps)):
        new = born.get(index, [])
        yield ledger.account(tuple(charge for _, charge in new))
        for last, charge in new:
            ledger.enter(charge)
            leaving.setdefault(last, []).append(charge)
        for charge in leaving.pop(index, ()):
            ledger.leave(charge)
