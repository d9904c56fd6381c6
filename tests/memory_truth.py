"""Runs a model and compares the bytes of its events with what numpy holds at the same moments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from onnx_notebook_profiler.allocators import Buffer, SimpleRawBufferAllocator
from onnx_notebook_profiler.evaluator.numpy_memory import NumpyMemory, numpy_memory
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator
from onnx_notebook_profiler.events import RuntimeEvent, RuntimeEventAction

# The moments at which the account must be true: a node is done, a value has gone.
CHECKED = frozenset({RuntimeEventAction.RUN_NODE, RuntimeEventAction.REMOVE})


class LedgerAllocator(SimpleRawBufferAllocator):
    """Knows apart what was loaded before the run (reserved), and how many live buffers are empty.

    numpy never asks for 0 bytes: an empty array holds 1. (An empty sequence holds none, so that many is a bound.)
    """

    def __init__(self) -> None:
        super().__init__(100_000)
        self.reserved = 0
        self._reserved_numbers: set[int] = set()
        self._empty_numbers: set[int] = set()

    @property
    def empty(self) -> int:
        """Live buffers of 0 bytes."""
        return len(self._empty_numbers)

    def allocate(self, nbytes: int, owner: str = "", **options: Any) -> Buffer:
        buffer = super().allocate(nbytes, owner, **options)
        if nbytes == 0:
            self._empty_numbers.add(buffer.number)
        return buffer

    def reserve(self, nbytes: int, owner: str = "") -> Buffer:
        buffer = super().reserve(nbytes, owner)
        self._empty_numbers.discard(buffer.number)
        self._reserved_numbers.add(buffer.number)
        self.reserved += nbytes
        return buffer

    def free(self, buffer: Buffer) -> None:
        super().free(buffer)
        self._empty_numbers.discard(buffer.number)
        if buffer.number in self._reserved_numbers:
            self._reserved_numbers.remove(buffer.number)
            self.reserved -= buffer.nbytes


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """At *event*, the accounts said *accounted* bytes and numpy held *held*."""

    event: RuntimeEvent
    accounted: int
    held: int

    def __str__(self) -> str:
        where = "/".join(f"{name}@{index}" for index, name in self.event.subgraph_path)
        return f"{where} {self.event.summary()}: accounted {self.accounted}, held {self.held}"


class TruthRun:
    """One evaluator whose runs are watched; ``differences`` are those of all its runs."""

    def __init__(self, model: Any, **options: Any) -> None:
        self.execution = LedgerAllocator()
        self.io = LedgerAllocator()
        self.evaluator = ReferenceEvaluator(
            model,
            events_enabled=True,
            allocator=self.execution,
            io_allocator=self.io,
            **{"kernels": "numpy", **options},  # bytes of other runtimes are not numpy's
        )
        self.differences: list[Difference] = []
        self.checked = 0
        self.left = 0
        """What numpy still holds of the last run once it is over: its outputs should be all of it."""
        self.evaluator.log.subscribe(self._check)
        self._memory: NumpyMemory | None = None

    def run(self, feeds: Mapping[str, Any], names: list[str] | None = None) -> list[Any]:
        """The outputs; what numpy held before and what the last run left to its caller is not counted."""
        with numpy_memory() as self._memory:
            outputs = self.evaluator.run(names, feeds)
            self.left = self._memory.live
        return outputs

    def _check(self, event: RuntimeEvent) -> None:
        if event.action in CHECKED and self._memory is not None:
            execution, io = self.execution, self.io
            # an account that is stamped later than the event would hide a wrong number
            assert event.allocated_bytes == execution.total_allocated_size
            assert event.io_allocated_bytes == io.total_allocated_size
            accounted = event.live_bytes - execution.reserved
            held = self._memory.live
            self.checked += 1
            if not accounted <= held <= accounted + execution.empty + io.empty:
                self.differences.append(Difference(event, accounted, held))


def assert_accounts_are_true(
    model: Any, *feeds: Mapping[str, Any], names: list[str] | None = None, **options: Any
) -> list[list[Any]]:
    """Run *model* once for each of *feeds*; the outputs of each run.

    At each event the accounts must be true, and after a run numpy may hold nothing of it but the outputs.
    """
    truth = TruthRun(model, **options)
    outputs = []
    for one in feeds:
        outputs.append(truth.run(one, names))
        account = truth.io.total_allocated_size
        assert account <= truth.left <= account + truth.io.empty
    assert truth.checked >= len(feeds)
    assert not truth.differences, "\n".join(map(str, truth.differences[:20]))
    return outputs
