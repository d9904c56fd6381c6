"""Executes one graph: the loop over its nodes, with every byte accounted for and every event written."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from onnx_notebook_profiler.allocators import Allocator, Buffer
from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.adopt import adopt, copy_value, owners, value_bytes
from onnx_notebook_profiler.evaluator.failures import explained
from onnx_notebook_profiler.evaluator.kernel import Array
from onnx_notebook_profiler.evaluator.program import BodyProgram, Op, Output, OutputPlan, Program
from onnx_notebook_profiler.evaluator.run import Holding, Run, free_all
from onnx_notebook_profiler.evaluator.scratch import held_bytes
from onnx_notebook_profiler.evaluator.tiers import ONNXRUNTIME
from onnx_notebook_profiler.events import RuntimeEventAction
from onnx_notebook_profiler.events.event import INITIALIZER_NODE, NO_NODE
from onnx_notebook_profiler.events.rows import STEP, NodeStamp, Scope, first_of
from onnx_notebook_profiler.plan.graph_plan import ABSENT

__all__ = ["Frame"]

# Plain integers: the members of an IntEnum cost more to put into a row and to compare.
_ADD = int(RuntimeEventAction.ADD)
_REMOVE = int(RuntimeEventAction.REMOVE)
_RUN_NODE = int(RuntimeEventAction.RUN_NODE)
_FAIL_NODE = int(RuntimeEventAction.FAIL_NODE)

_NOTHING = np.empty(0)


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

    # the loop

    def execute(self) -> None:  # noqa: C901, PLR0912, PLR0915 - one loop, whose calls would cost more than small nodes
        """Run every node in order.

        Raises:
            KernelError, AllocationError: A node failed; the message names it. The log ends with its ``fail_node``.
        """
        run, values, buffers = self.run, self.values, self.buffers
        recording, accounted, observe_node = run.append is not None, run.accounted, run.observe_node
        unchecked, meter = run.limit.unchecked, run.meter
        merged = recording and run.merges and run.release and meter is None
        started, ended, empty = 0, 0, np.empty
        for op in self.program.ops:
            inputs = op.fetch(values)
            if recording:
                if meter is not None:
                    meter.begin()
                started = perf_counter_ns()
            single, plan = op.single, None  # a kernel that gives up changes the op
            try:
                if single is not None:
                    # One output with bytes of its own, nearly every node: _compute without its generality.
                    output, compute, inferred, signature = single
                    key = signature(inputs)
                    plans = inferred.get(key) or op.infer(inputs, key)
                    if plans:
                        plan = plans[0]
                        shape, dtype, nbytes, _ = plan
                        slot = output.slot
                        if nbytes > unchecked:
                            self.make_room(nbytes, output.name)
                        if accounted:
                            account = self.accounts[output.account]
                            buffers[slot] = account.allocate(nbytes, output.name)
                        value = values[slot] = empty(shape, dtype)
                        compute(inputs, (value,))
                    else:
                        self._adopt(op, inputs)
                elif op.constant is not None:
                    plan, value = op.constant
                    self._lend(op.outputs[0], plan[2], value)
                elif op.kernel is not None:
                    self._compute(op, inputs)
                elif op.adopting is not None:
                    self._adopt(op, inputs)
                else:
                    self._run_region(op, inputs)
            except BaseException as error:
                self._write_failure(op, started, error)
                if isinstance(error, Exception):
                    # In no variable: its traceback would refer to it, and hold the values of the run.
                    raise explained(op, inputs, error) from error
                raise
            if merged and plan is not None and op.stamp is not None:
                self._write_step(op, op.stamp, plan, value, started)
                inputs, value = (), _NOTHING  # what is released must really go
                if observe_node is not None:
                    observe_node(op, self.scope)
                continue
            if recording:
                ended = self._write_node(op, started)
            inputs, value = (), _NOTHING
            if op.releases and run.release:
                if recording or accounted:
                    self._release(op, ended)
                else:
                    for slot, _, _ in op.releases:
                        values[slot] = None
            if observe_node is not None:
                observe_node(op, self.scope)

    def _write_node(self, op: Op, started: int) -> int:
        """The add events of a node's outputs, then its run_node event; all at one instant, which is returned."""
        now = perf_counter_ns()
        run, scope, index, call = self.run, self.scope, op.index, op.call
        append, scratch = run.append, None
        assert append is not None
        if self.taken != ABSENT:
            call = call._replace(in_place=call.inputs[self.taken])
        if run.meter is not None:
            scratch = self._scratch(op)
        self.taken = ABSENT
        memory = run.memory()
        for output in op.outputs:
            value, buffer = self.values[output.slot], self.buffers[output.slot]
            if isinstance(value, np.ndarray):
                held = buffer.nbytes if buffer is not None else 0
                seen = (value.dtype, value.shape, first_of(value))
                append((_ADD, now, scope, *memory, op.kind, output.name, index, held, *seen))
        append((_RUN_NODE, started, scope, *memory, index, call, now - started, "", scratch))
        return now

    def _scratch(self, op: Op) -> int | None:
        """What the meter says of the node that has just run; None where its memory is not numpy's."""
        assert self.run.meter is not None
        fresh = [
            self.values[output.slot]
            for output in op.outputs
            if output.view == ABSENT and (output.position or self.taken == ABSENT)
        ]
        if op.constant is not None:
            fresh = []
        return self.run.meter.end(
            held_bytes(fresh),
            has_bodies=op.region is not None,
            is_seen=op.call.tier != ONNXRUNTIME,
        )

    def _write_step(
        self, op: Op, stamp: NodeStamp, plan: OutputPlan, value: Array, started: int
    ) -> None:
        """One row for all that a node with one output does, its releases included, which happen here."""
        now = perf_counter_ns()
        run, values, buffers = self.run, self.values, self.buffers
        append = run.append
        assert append is not None
        shape, dtype, nbytes, small = plan
        first = value.tobytes() if small else first_of(value)
        if not run.accounted:
            for slot, _, _ in op.releases:
                values[slot] = None
            # fmt: off
            append((STEP, started, now, self.scope, 0, 0, 0, 0, stamp, 0, dtype, shape, first, stamp.zeros))
            # fmt: on
            return
        execution, io = run.execution, run.shown_io
        live, peak = execution.total_allocated_size, execution.peak_allocated_size
        io_live, io_peak = io.total_allocated_size, io.peak_allocated_size
        lives = []
        for slot, frees, _ in op.releases:
            values[slot] = None
            if frees != ABSENT:
                buffer = buffers[frees]
                if buffer is not None:
                    buffers[frees] = None
                    execution.free(buffer)
            lives.append(execution.total_allocated_size)
        memory = (live, peak, io_live, io_peak)
        append((STEP, started, now, self.scope, *memory, stamp, nbytes, dtype, shape, first, lives))

    def _compute(self, op: Op, inputs: Sequence[Any]) -> None:
        """Ask what the outputs look like, have their bytes granted, fill them."""
        if op.is_view and not isinstance(inputs[0], np.ndarray):
            # A sequence or an absent optional, passed on.
            self.values[op.outputs[0].slot] = inputs[0]
            return
        key = op.signature(inputs)
        plans = op.inferred.get(key) or op.infer(inputs, key)
        if not plans:
            self._adopt(op, inputs)
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

    def _lend(self, output: Output, nbytes: int, value: Array) -> None:
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

    def _adopt(self, op: Op, inputs: Sequence[Any]) -> None:
        """Compute first, then take the results over; a tier that does not do the case gives way to the next one."""
        while op.adopting is not None:
            try:
                results = op.adopting.call(inputs)
                break
            except UnsupportedOperatorError as error:
                op.fall(error)
        else:
            self._compute(op, inputs)
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

    def _run_region(self, op: Op, inputs: Sequence[Any]) -> None:
        """Run a node with bodies; its results come with their buffers, in the account of each output already."""
        results = op.region(self, op, inputs)  # type: ignore[misc]
        for output in op.outputs:
            self.values[output.slot], self.buffers[output.slot] = results[output.position]
            results[output.position] = (None, None)
        free_all(buffer for _, buffer in results)  # of outputs that the node leaves out

    def _release(self, op: Op, now: int) -> None:
        """Drop what no later node reads; the plan frees only what the execution account holds."""
        values, buffers, run = self.values, self.buffers, self.run
        append, free = run.append, run.execution.free
        for slot, frees, name in op.releases:
            tensor = isinstance(values[slot], np.ndarray)
            values[slot] = None
            if frees != ABSENT:
                buffer = buffers[frees]
                if buffer is not None:
                    buffers[frees] = None
                    free(buffer)
            if append is not None and tensor:
                live, peak, io_live, io_peak = run.memory()
                append((_REMOVE, now, self.scope, live, peak, io_live, io_peak, name))

    def _write_failure(self, op: Op, started: int, error: BaseException) -> None:
        """The ``fail_node`` event."""
        append = self.run.append
        if append is not None:
            took = perf_counter_ns() - started
            reason = f"{type(error).__name__}: {error}"
            head = (_FAIL_NODE, started, self.scope, *self.run.memory())
            append((*head, op.index, op.call, took, reason, None))

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
            for name, (value, buffer) in zip(body.program.plan.inputs, inputs, strict=False):
                slot = body.program.plan.slots[name]
                inner.buffers[slot] = buffer
                inner.add_input(slot, name, value, 0)
            inner.add_weights(frozenset(body.program.plan.inputs[: len(inputs)]))
            inner.execute()
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
