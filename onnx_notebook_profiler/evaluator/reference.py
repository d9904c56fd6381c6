"""The evaluator that people call: a model, its feeds, its outputs, and the log of what happened."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from onnx_notebook_profiler.allocators import Allocator, Buffer, SimpleRawBufferAllocator
from onnx_notebook_profiler.errors import MissingExtraError, OutputError
from onnx_notebook_profiler.evaluator.adopt import value_bytes
from onnx_notebook_profiler.evaluator.feeds import FeedCheck
from onnx_notebook_profiler.evaluator.frame import Frame
from onnx_notebook_profiler.evaluator.limits import Limit, check_max_bytes
from onnx_notebook_profiler.evaluator.loop import execute
from onnx_notebook_profiler.evaluator.observe import Observer, RunRecord, current_observers
from onnx_notebook_profiler.evaluator.onnxruntime_kernel import is_installed
from onnx_notebook_profiler.evaluator.program import Op, Program, build_program
from onnx_notebook_profiler.evaluator.run import Run, Unaccounted, free_all
from onnx_notebook_profiler.evaluator.scratch import Meter, measuring
from onnx_notebook_profiler.evaluator.tiers import KernelChoice, check_choice
from onnx_notebook_profiler.events import EventLog, RuntimeEvent
from onnx_notebook_profiler.events.rows import Scope
from onnx_notebook_profiler.model import LoadedModel, ModelSource, load_model, shorten
from onnx_notebook_profiler.plan import GraphPlan, build_plan

__all__ = ["ReferenceEvaluator", "default_allocator"]

_LEAST_CAPACITY = 4096
_SPARE_BUFFERS = 4


def default_allocator(plan: GraphPlan, log: EventLog | None = None) -> SimpleRawBufferAllocator:
    """An allocator with room for every value of *plan*: the size that onnx-light gives its own."""
    wanted = (
        len(plan.inputs)
        + len(plan.outputs)
        + len(plan.initializers)
        + sum(len(step.outputs) for step in plan.steps)
        + _SPARE_BUFFERS
    )
    return SimpleRawBufferAllocator(max(_LEAST_CAPACITY, wanted), log=log)


class ReferenceEvaluator:
    """Runs an ONNX model with numpy, and says what each node costs.

    Args:
        model: A path, serialized bytes, ONNX text, ModelProto, GraphProto, FunctionProto or NodeProto.
        events_enabled: Write the event log, see :meth:`events`.
        release_intermediates: Free each intermediate after its last use; False keeps all until the run ends.
        allocator: The execution account: initializers, intermediates, copies of rank-0 inputs. None: not counted.
        io_allocator: The account of the model's outputs. None: a private one where *allocator* is given. The same
            object as *allocator* counts outputs with the rest.
        verbose: 0 is silent; 1 and more print a line for each node that ran.
        kernels: ``"auto"`` takes for each operator this package's numpy kernel, where there is none onnxruntime's (if
            installed), then onnx.reference's class. ``"numpy"`` never touches onnxruntime, ``"onnxruntime"`` takes its
            kernels first, one node at a time and unoptimised. Each run_node event says which ``tier`` ran.
        inplace: An element-wise node writes into an input that dies there, where shape and type are the same; its event
            says so. Outputs of the model are always fresh.
        measure_scratch: Each run_node event carries ``scratch_bytes``; needs *events_enabled*.
        max_bytes: A run that would hold more stops first; None: 80 % of the free memory.
        copy_initializers: Each run computes on copies of the initializers, not on the loaded ones.

    Bytes of the execution account are given back as the plan says; the charges of initializers stay until the
    next run begins, as do those of the outputs, which belong to the caller.

    Raises:
        ModelError: The model cannot be read or is not well formed.
        UnsupportedOperatorError: A node has no implementation.
        TypeError, ValueError: *verbose* is no integer, or negative; *kernels* is none of the three.
        SizeError: *max_bytes* is negative.
        MissingExtraError: *kernels* asks for onnxruntime, which is not installed.
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        events_enabled: bool = False,
        release_intermediates: bool = True,
        allocator: Allocator | None = None,
        io_allocator: Allocator | None = None,
        verbose: int = 0,
        kernels: KernelChoice = "auto",
        inplace: bool = False,
        measure_scratch: bool = False,
        max_bytes: int | None = None,
        copy_initializers: bool = False,
    ) -> None:
        if isinstance(verbose, bool) or not isinstance(verbose, int):
            raise TypeError(f"verbose is an integer of 0 or more, not {verbose!r}")
        if verbose < 0:
            raise ValueError(f"verbose is an integer of 0 or more, not {verbose}")
        check_choice(kernels)
        check_max_bytes(max_bytes)
        if kernels == "onnxruntime" and not is_installed():
            raise MissingExtraError(
                "kernels='onnxruntime' needs the package onnxruntime, which is not installed: "
                "pip install onnx_notebook_profiler[onnxruntime], or choose kernels='numpy'"
            )
        self.model: LoadedModel = load_model(model)
        self.plan: GraphPlan = build_plan(self.model)
        self.events_enabled = events_enabled
        self.release_intermediates = release_intermediates
        self.allocator = allocator
        if io_allocator is None and allocator is not None:
            io_allocator = default_allocator(self.plan)
        self.io_allocator = io_allocator
        self.verbose = verbose
        self.kernels: KernelChoice = kernels
        self.inplace = inplace
        self.measure_scratch = measure_scratch
        self.max_bytes = max_bytes
        self.copy_initializers = copy_initializers
        self._check_feeds = FeedCheck(self.model)
        self._program: Program = build_program(
            self.plan, self.model.folder, kernels=kernels, inplace=inplace
        )
        self._weight_names = frozenset(self.plan.initializers)
        self._output_names = frozenset(self.plan.outputs)
        self._log = EventLog()
        self._charges: list[Buffer | None] = []
        """Buffers of initializers and outputs of the last run."""

    @property
    def input_names(self) -> list[str]:
        """The inputs that have to be fed: those without an initializer."""
        return list(self.plan.required)

    @property
    def output_names(self) -> list[str]:
        """The outputs, in the model's order."""
        return list(self.plan.outputs)

    @property
    def opsets(self) -> dict[str, int]:
        """Version of each operator domain."""
        return dict(self.plan.opsets)

    @property
    def log(self) -> EventLog:
        """The live log; subscribe to it to see events while a run goes on."""
        return self._log

    def events(self) -> list[RuntimeEvent]:
        """The events of the last run, also of one that failed; empty before a run and where events are off."""
        return self._log.events()

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model.

        Args:
            output_names: What to return, in this order; None: every output of the model. A value in the middle may be
                asked for too: nothing is released during such a run.
            feeds: A value for each input, by name.

        Returns:
            numpy arrays; lists for sequences.

        Raises:
            FeedError, OutputError: Before anything runs; the log of the run before stays.
            KernelError, AllocationError: A node failed; the log is kept up to it.
        """
        given = self._check_feeds(feeds)
        wanted = self._wanted(output_names)
        observers = current_observers()
        if not observers:
            log = self._log if self.events_enabled else None
            return self._run(wanted, given, feeds, log, self.allocator, self.io_allocator, ())
        return self._run_observed(observers, wanted, given, feeds)

    def _run_observed(
        self,
        observers: tuple[Observer, ...],
        wanted: tuple[str, ...],
        given: dict[str, Any],
        feeds: Mapping[str, Any],
    ) -> list[Any]:
        """A run with events and accounts, whatever the session has of its own."""
        log = self._log if self.events_enabled else EventLog()
        allocator_log = EventLog()
        execution = self.allocator or default_allocator(self.plan, allocator_log)
        io = self.io_allocator or default_allocator(self.plan, allocator_log)
        self._settle()
        accounts = {id(one): one for one in (execution, io)}.values()
        baseline = sum(one.total_allocated_size for one in accounts)
        started = perf_counter_ns()
        failure: BaseException | None = None
        try:
            return self._run(wanted, given, feeds, log, execution, io, observers)
        except BaseException as error:
            failure = error
            raise
        finally:
            took = perf_counter_ns() - started
            events, asked = tuple(log), tuple(allocator_log)
            if self.allocator is None:
                self._settle()
            record = RunRecord(self, dict(given), events, asked, failure, took, baseline)
            for observer in observers:
                observer.finished(record)
            # Their tracebacks refer to these variables: a cycle would hold the values of the run.
            del record, failure

    def _wanted(self, output_names: Sequence[str] | None) -> tuple[str, ...]:
        if output_names is None:
            return self.plan.outputs
        for name in output_names:
            if name not in self.plan.slots:
                raise OutputError(
                    f"the model makes no value {shorten(str(name))}: its outputs are "
                    f"{', '.join(shorten(one) for one in self.plan.outputs)}"
                )
        return tuple(output_names)

    def _run(
        self,
        wanted: tuple[str, ...],
        given: dict[str, Any],
        feeds: Mapping[str, Any],
        log: EventLog | None,
        execution: Allocator | None,
        io: Allocator | None,
        observers: tuple[Observer, ...],
    ) -> list[Any]:
        self._settle()
        if log is not None:
            log.clear()
        run = Run(
            execution=execution or Unaccounted(),
            io=io or Unaccounted(),
            accounted=execution is not None or io is not None,
            append=log.append if log is not None else None,
            release=self.release_intermediates and self._output_names.issuperset(wanted),
            limit=Limit(self.max_bytes),
            observe_node=self._node_observer(observers),
            copy_weights=self.copy_initializers,
            merges=log is not None and not log.has_subscribers,
        )
        frame = Frame(self._program, run, [run.io] * len(self.plan.outputs))
        weights = self._weight_names.difference(given) if run.accounted else ()
        try:
            with np.errstate(all="ignore"), self._measuring(log) as run.meter:
                for name, value in given.items():
                    frame.add_input(self.plan.slots[name], name, *_own(value, feeds[name], run))
                frame.add_weights(frozenset(given))
                self._program.meet(frame.values)
                execute(frame)
                return self._export(frame, wanted)
        finally:
            for name in weights:
                slot = self.plan.slots[name]
                self._charges.append(frame.buffers[slot])
                frame.buffers[slot] = None
            frame.close()

    def _measuring(self, log: EventLog | None) -> contextlib.AbstractContextManager[Meter | None]:
        return measuring() if self.measure_scratch and log is not None else contextlib.nullcontext()

    def _export(self, frame: Frame, wanted: tuple[str, ...]) -> list[Any]:
        """The wanted values, with bytes that are the caller's; their charges stay until the next run."""
        plan, roots = self.plan, self._program.roots
        exported: dict[str, Any] = {}
        for name in dict.fromkeys(wanted):
            slot = plan.slots[name]
            root = roots.get(slot)
            if root is not None and name in plan.outputs:
                exported[name] = frame.values[slot]
            else:
                exported[name], buffer = frame.copy_held(frame.values[slot], frame.run.io, name)
                self._charges.append(buffer)
        for name in plan.outputs:
            root = roots.get(plan.slots[name])
            if root is not None:
                self._charges.append(frame.buffers[root])
                frame.buffers[root] = None
        return [exported[name] for name in wanted]

    def _settle(self) -> None:
        """Take back what the last run left charged: its initializers and its outputs."""
        charges, self._charges = self._charges, []
        free_all(charges)

    def _node_observer(self, observers: tuple[Observer, ...]) -> Callable[[Op, Scope], None] | None:
        progress = next((one.progress for one in reversed(observers) if one.progress), None)
        total = len(self.plan.steps)
        if progress is None and not self.verbose:
            return None

        def observe(op: Op, scope: Scope) -> None:
            if progress is not None and not scope:
                progress(op.index + 1, total)
            if self.verbose:
                where = "".join(f"{attribute}@{index}/" for index, attribute in scope)
                outputs = ", ".join(output.name for output in op.outputs)
                line = f"{where}{op.label}({', '.join(op.call.inputs)}) -> {outputs}"
                print(line)  # noqa: T201 - what verbose asks for

        return observe

    def __repr__(self) -> str:
        return (
            f"ReferenceEvaluator({self.model.name!r}: {', '.join(self.input_names)} -> "
            f"{', '.join(self.output_names)}, {len(self.plan.steps)} nodes)"
        )


def _own(value: Any, fed: Any, run: Run) -> tuple[Any, int]:
    """A feed as the run holds it, with the bytes that it holds of it: rank-0 tensors are copied, the rest is borrowed.

    A feed that had to be converted or made contiguous is a copy already.
    """
    if isinstance(value, np.ndarray) and run.accounted:
        if value is not fed:
            return value, value_bytes(value)
        if value.ndim == 0:
            return value.copy(), value_bytes(value)
    return value, 0
