"""The values of a graph that runs, with every byte accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from onnx_notebook_profiler.allocators import Allocator, Buffer
from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.adopt import adopt, copy_value, owners, value_bytes
from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.loop import execute
from onnx_notebook_profiler.evaluator.program import BodyProgram, Op, Output, OutputPlan, Program
from onnx_notebook_profiler.evaluator.run import Holding, Run, free_all
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import INITIALIZER_NODE, NO_NODE
from onnx_notebook_profiler.events.rows import Scope, first_of
from onnx_notebook_profiler.plan.graph_plan import ABSENT

__all__ = ["Frame"]

_ADD = int(RuntimeEventAction.ADD)


class Frame:
    """The values of one graph while it runs.

    ``values`` and ``buffers`` are indexed by slot; the extra place at the end, which the slot of an absent input (-1)
    reaches, holds None. ``accounts`` holds the allocator of each output of the graph and, at the end, where account -1
    reaches it, the execution allocator.
    """

    __slots__ = ("accounts", "buffers", "program", "run", "scope", "taken", "values")

    def __init__(
        self,
        program: Program,
        run: Run,
        output_accounts: Sequence[Allocator],
        scope: Scope = (),
    ) -> None:
        self.program = program
        self.run = run
        self.scope = scope
        self.accounts = (*output_accounts, run.execution)
        self.values: list[Any] = program.template.copy()
        self.buffers: list[Buffer | None] = [None] * len(self.values)
        self.taken = ABSENT
        """Input of the running node whose bytes its first output took over."""
        run.frames.append(self)

    def held(self) -> int:
        """Bytes of the values that this graph owns, its constants included."""
        values, owned = self.values, {}
        for slot, root in self.program.roots.items():
            if values[slot] is not None:
                owned[root] = value_bytes(values[slot])
        return sum(owned.values()) + sum(value.nbytes for _, _, value in self.program.weights)

    def make_room(self, nbytes: int, name: str) -> None:
        """Refuse *nbytes* more where that is beyond the run's limit.

        Raises:
            AllocationError: It is.
        """
        if nbytes > self.run.limit.unchecked:
            self.run.limit.check(name, nbytes, self.run.held)

    # values that come from outside

    def add_input(self, slot: int, name: str, value: Any, nbytes: int) -> None:
        """Take in a value; *nbytes* of it are held by this run (0: borrowed)."""
        if nbytes:
            self.buffers[slot] = self.run.execution.allocate(nbytes, name)
        self.values[slot] = value
        self._write_add("input", name, NO_NODE, slot)

    def add_weights(self, skip: frozenset[str] = frozenset()) -> None:
        """Charge the graph's constants to the execution account, but for those that were fed."""
        run = self.run
        if not run.accounted and run.append is None and not run.copy_weights:
            return  # they are in their places already
        reserve = run.reserve
        for slot, name, value in self.program.weights:
            if name not in skip:
                if run.limit.max_bytes is not None and run.accounted:
                    self.make_room(value_bytes(value), name)
                self.values[slot] = value.copy() if run.copy_weights else value
                if run.accounted:
                    self.buffers[slot] = reserve(value_bytes(value), name)
                self._write_add("initializer", name, INITIALIZER_NODE, slot)

    def _write_add(self, kind: str, name: str, node: int, slot: int) -> None:
        """The add event of a tensor; other values come and go without one."""
        append, value, buffer = self.run.append, self.values[slot], self.buffers[slot]
        if append is not None and isinstance(value, np.ndarray):
            held = buffer.nbytes if buffer is not None else 0
            head = (_ADD, perf_counter_ns(), self.scope, *self.run.memory())
            append((*head, kind, name, node, held, value.dtype, value.shape, first_of(value)))

    # nodes

    def output_plans(self, op: Op, inputs: Sequence[Any]) -> tuple[OutputPlan, ...]:
        """What the outputs look like.

        Nothing for a sequence or an absent optional that is passed on, and where the kernel gave up and another tier
        has the node now.
        """
        if op.is_view and not isinstance(inputs[0], np.ndarray):
            return ()
        key = op.signature(inputs)
        plans = op.inferred.get(key) or op.infer(inputs, key)
        if not plans:
            self.program.mark_steady()
        elif op.steady:
            op.fixed = plans[0]
        return plans

    def compute(self, op: Op, inputs: Sequence[Any]) -> None:
        """Ask what the outputs look like, have their bytes granted, fill them."""
        plans = self.output_plans(op, inputs)
        if not plans:
            self.take_results(op, inputs)
            return
        filled: list[Any] = [None] * op.output_count
        for output in op.outputs:
            shape, dtype, nbytes, _ = plans[output.position]
            if output.view != ABSENT:
                self.values[output.slot] = inputs[output.view].reshape(shape)
                continue
            if op.reuse and not output.position and self._take_over(op, inputs, plans[0]):
                filled[0] = self.values[output.slot]
                continue
            self.make_room(nbytes, output.name)
            if self.run.accounted:
                account = self.accounts[output.account]
                self.buffers[output.slot] = account.allocate(nbytes, output.name)
            filled[output.position] = self.values[output.slot] = np.empty(shape, dtype)
        if any(one is not None for one in filled):
            op.kernel.compute(inputs, filled)  # type: ignore[union-attr]

    def lend(self, output: Output, nbytes: int, value: Array) -> None:
        """Charge a constant of the program, as an initializer is charged."""
        self.values[output.slot] = value
        if self.run.accounted:
            self.make_room(nbytes, output.name)
            self.buffers[output.slot] = self.run.reserve(nbytes, output.name)

    def _take_over(self, op: Op, inputs: Sequence[Any], plan: OutputPlan) -> bool:
        """Give output 0 the bytes of an input that dies here and looks the same; False where there is none."""
        shape, dtype, _, _ = plan
        if not self.run.release:
            return False
        output, buffers = op.outputs[0], self.buffers
        for position, _, root in op.reuse:
            value, buffer = inputs[position], buffers[root]
            if buffer is None and self.run.accounted:
                continue
            if value.shape == shape and value.dtype == dtype and value.flags.writeable:
                self.values[output.slot], buffers[output.slot] = value, buffer
                buffers[root] = None
                if buffer is not None:
                    buffer.owner = output.name
                self.taken = position
                return True
        return False

    def take_results(self, op: Op, inputs: Sequence[Any]) -> None:
        """Compute first, then take the results over; a tier that does not do the case gives way to the next one."""
        if op.is_view and not isinstance(inputs[0], np.ndarray):
            self.values[op.outputs[0].slot] = inputs[0]
            return
        while op.adopting is not None:
            try:
                results = op.adopting.call(inputs)
                break
            except UnsupportedOperatorError as error:
                op.fall(error)
                self.program.mark_steady()
        else:
            self.compute(op, inputs)
            return
        if len(results) < len(op.outputs):
            raise ValueError(f"{len(results)} results came back for {len(op.outputs)} outputs")
        if op.adopting.fresh:
            for output in op.outputs:
                self._hold(output.slot, output.account, output.name, results[output.position])
            return
        foreign = owners(inputs)
        for output in op.outputs:
            value = adopt(results[output.position], foreign)
            foreign |= owners((value,))
            self._hold(output.slot, output.account, output.name, value)

    def _hold(self, slot: int, account: int, name: str, value: Any) -> None:
        nbytes = value_bytes(value)
        self.make_room(nbytes, name)
        if self.run.accounted:
            self.buffers[slot] = self.accounts[account].allocate(nbytes, name)
        self.values[slot] = value

    def run_region(self, op: Op, inputs: Sequence[Any]) -> None:
        """Run a node with bodies; its results come with their buffers, in the account of each output already."""
        results = op.region(self, op, inputs)  # type: ignore[misc]
        for output in op.outputs:
            self.values[output.slot], self.buffers[output.slot] = results[output.position]
            results[output.position] = (None, None)
        free_all(buffer for _, buffer in results)  # of outputs that the node leaves out

    # bodies

    def run_body(
        self,
        op: Op,
        body: BodyProgram,
        inputs: Sequence[Holding],
        accounts: Sequence[Allocator],
    ) -> list[Holding]:
        """Run a body of *op* and hand over its outputs, each in its account.

        Args:
            inputs: Values for the body's inputs. A buffer that comes along belongs to the body and is freed with it;
                without one the value is borrowed from the caller, who keeps it alive.
            accounts: The allocator of each output of the body.
        """
        inner = Frame(body.program, self.run, accounts, (*self.scope, (op.index, body.name)))
        try:
            for outer, slot in body.captures:
                inner.values[slot] = self.values[outer]
            for (name, slot), (value, buffer) in zip(body.inputs, inputs, strict=False):
                inner.buffers[slot] = buffer
                inner.add_input(slot, name, value, 0)
            if body.program.weights:
                inner.add_weights(frozenset(name for name, _ in body.inputs[: len(inputs)]))
            body.program.meet(inner.values)
            execute(inner)
            return inner.hand_over()
        finally:
            inner.close()

    def hand_over(self) -> list[Holding]:
        """The outputs, each with a buffer of its own in its account; what is borrowed or given twice is copied."""
        plan, roots = self.program.plan, self.program.roots
        handed: list[Holding] = []
        taken: set[int] = set()
        try:
            for number, name in enumerate(plan.outputs):
                slot = plan.slots[name]
                root = roots.get(slot)
                if root is None or root in taken:
                    handed.append(self.copy_held(self.values[slot], self.accounts[number], name))
                else:
                    taken.add(root)
                    handed.append((self.values[slot], self.buffers[root]))
                    self.buffers[root] = None
        except BaseException:
            free_all(buffer for _, buffer in handed)
            raise
        return handed

    def copy_held(self, value: Any, account: Allocator, name: str) -> Holding:
        """A copy of *value*, accounted for in *account*."""
        if value is None:
            return (None, None)
        nbytes = value_bytes(value)
        self.make_room(nbytes, name)
        buffer = account.allocate(nbytes, name) if self.run.accounted else None
        return (copy_value(value), buffer)

    def close(self) -> None:
        """Let go of every value, also where a traceback holds the list; give back every buffer that is still held."""
        self.run.frames.pop()
        self.values[:] = [None] * len(self.values)
        buffers, self.buffers = self.buffers, [None] * len(self.buffers)
        free_all(buffers)
