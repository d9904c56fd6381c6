"""Memory of a model as formulas over its symbolic dimensions, node by node."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx import ModelProto

from onnx_notebook_profiler.errors import ModelError
from onnx_notebook_profiler.model import LoadedModel, ModelSource, load_model
from onnx_notebook_profiler.plan import GraphPlan, build_plan
from onnx_notebook_profiler.plan.inplace import Fit, InPlaceReuse, ReuseRule, find_reuse
from onnx_notebook_profiler.plan.ort_allocation import plan_allocation
from onnx_notebook_profiler.plan.ort_unplanned import Unplanned
from onnx_notebook_profiler.plan.views import keeps_bytes
from onnx_notebook_profiler.symbolic.accounts import (
    Charge,
    NodeAccount,
    Source,
    evaluator_account,
    model_account,
)
from onnx_notebook_profiler.symbolic.annotate import annotate
from onnx_notebook_profiler.symbolic.bounds import Bounds, total_bounds
from onnx_notebook_profiler.symbolic.budget import Budget
from onnx_notebook_profiler.symbolic.data_sizes import DataSizes, decided_types
from onnx_notebook_profiler.symbolic.difference import Difference, sum_by_operator
from onnx_notebook_profiler.symbolic.dims import InputDims, read_dims
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.inverse import feasible, largest
from onnx_notebook_profiler.symbolic.limits import Limit
from onnx_notebook_profiler.symbolic.onnxruntime_account import onnxruntime_account
from onnx_notebook_profiler.symbolic.peak import Peak
from onnx_notebook_profiler.symbolic.ranges import check_ranges
from onnx_notebook_profiler.symbolic.scratch import scratch_bytes
from onnx_notebook_profiler.symbolic.shapes import (
    DataDim,
    Inferred,
    UnknownSize,
    ValueType,
    infer_types,
)
from onnx_notebook_profiler.symbolic.tags import Tag, tag_values
from onnx_notebook_profiler.symbolic.value_bytes import (
    numpy_bytes,
    runtime_bytes,
    stored_bytes,
)
from onnx_notebook_profiler.symbolic.work import ModelWork, WorkTotals, count_work

__all__ = [
    "NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY",
    "NODE_MEMORY_INITIALIZERS_KEY",
    "NODE_MEMORY_INPUTS_KEY",
    "NODE_MEMORY_INTERMEDIATES_KEY",
    "NODE_MEMORY_OUTPUTS_KEY",
    "NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY",
    "NODE_MEMORY_TOTAL_BYTES_KEY",
    "NODE_PEAK_MEMORY_KEY",
    "Account",
    "ComputeContext",
    "Coverage",
    "Unknown",
]

NODE_MEMORY_TOTAL_BYTES_KEY = "total_bytes"
NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY = "already_allocated_bytes"
NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY = "output_allocation_bytes"
NODE_MEMORY_INPUTS_KEY = "inputs"
NODE_MEMORY_INITIALIZERS_KEY = "initializers"
NODE_MEMORY_INTERMEDIATES_KEY = "intermediates"
NODE_MEMORY_OUTPUTS_KEY = "outputs"
NODE_PEAK_MEMORY_KEY = "onnx_light.peak_memory"

Account = Literal["model", "evaluator", "onnxruntime"]
"""model: inputs, initializers and everything alive, as onnx-light counts. evaluator: what ReferenceEvaluator holds.
onnxruntime: what a run of an onnxruntime session on the CPU asks its allocator for."""

_MEASURES = {"model": stored_bytes, "evaluator": numpy_bytes, "onnxruntime": runtime_bytes}

Sizes = Mapping[str, int | Sequence[int] | npt.NDArray[Any]]
Scalar = int | str


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """A value whose size no rule gives: which node makes it (-1: none, it is an input or initializer) and why."""

    value: str
    node: int
    op: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    """How many values have a size, of how many."""

    known: int
    total: int

    def __str__(self) -> str:
        return f"{self.known} of {self.total} values"


class ComputeContext:
    """Prices the plan of a model in formulas.

    Args:
        reuse: Which outputs may take over the buffer of an input that dies at the node. ``"operator"``: those of
            element-wise operators and views, where the sizes are equal. ``"structural"``: any that fits, onnx-light's
            bound. ``"none"``: none.
        account: ``"model"`` counts inputs and initializers from the first node to the last, and outputs once they are
            made. ``"evaluator"`` counts what :class:`~onnx_notebook_profiler.ReferenceEvaluator` holds, for models
            without control flow; *reuse* does not apply to it. ``"onnxruntime"`` counts the buffers that a first run
            of an onnxruntime session on this very graph asks for (optimizations off, one thread, or a model that a
            session saved), in that runtime's order and by its own rules of reuse; inputs, weights and scratch are not
            in it. Where these rules are not known, :attr:`unplanned` says so, and no total counts.
        in_chunks: With ``"onnxruntime"``: each buffer rounded up to 256 bytes, as its arena does.

    Raises:
        ValueError: *reuse* or *account* is none of these words, or *in_chunks* goes with another account.
    """

    def __init__(
        self,
        reuse: ReuseRule = "operator",
        account: Account = "model",
        *,
        in_chunks: bool = False,
    ) -> None:
        if reuse not in ("operator", "structural", "none"):
            raise ValueError(f"reuse is 'operator', 'structural' or 'none', not {reuse!r}")
        if account not in _MEASURES:
            raise ValueError(f"account is 'model', 'evaluator' or 'onnxruntime', not {account!r}")
        if in_chunks and account != "onnxruntime":
            raise ValueError(
                "in_chunks rounds as onnxruntime's arena does: set account='onnxruntime'"
            )
        self._in_chunks = in_chunks
        self._reuse_rule = reuse
        self._account = account
        self._clear()

    def _clear(self) -> None:
        self._model: LoadedModel | None = None
        self._plan: GraphPlan | None = None
        self._input_dims = InputDims((), {}, {})
        self._inferred = Inferred({}, {}, {})
        self._types: dict[str, ValueType | UnknownSize] = {}
        self._bytes: dict[str, Expr | None] = {}
        self.value_tags: dict[str, Tag] = {}
        self.node_tags: list[Tag] = []
        self.reuse: list[tuple[InPlaceReuse, ...]] = []
        """For each node, which output takes over which input's buffer."""
        self.peak_memory: list[int] = []
        """Scratch bytes of each node."""
        self._accounts: Sequence[NodeAccount] = ()
        self._memory: list[dict[str, Any]] | None = None
        self._totals: list[Expr] = []
        self._io_totals: list[Expr] = []
        self._made: list[Expr] = []
        self._prepare()
        self._missing: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.unplanned: tuple[Unplanned, ...] = ()
        """account="onnxruntime": nodes at which that runtime's plan is not known, and why."""
        self.unknown: tuple[Unknown, ...] = ()
        """Values of unknown size, in the order of the nodes: no total holds them."""
        self._work: ModelWork | None = None

    # analysis

    def compute(
        self,
        model: ModelSource | LoadedModel,
        allow_input_overwrite: bool = False,
        *,
        data_sizes: DataSizes | None = None,
    ) -> None:
        """Analyse *model*: shapes, tags, reuse, memory of each node. The weights are not read.

        Args:
            allow_input_overwrite: Let outputs take over the buffers of the model's inputs too.
            data_sizes: Sizes for some of :attr:`data_dims`, or ``"bounds"``: each is as large as it can be, and the
                totals are upper bounds. What is left open makes values unknown.

        Raises:
            ModelError: The model cannot be read or is not well formed.
            SizeError: *data_sizes* names no such dimension, or gives it no size.
        """
        loaded = model if isinstance(model, LoadedModel) else load_model(model)
        self._clear()
        self._model = loaded
        self._plan = plan = build_plan(loaded)
        self._input_dims = read_dims(loaded)
        self._inferred = infer_types(loaded, self._input_dims)
        self._types = decided_types(self._inferred, data_sizes or {})
        self._measure(plan)
        self.value_tags, self.node_tags = tag_values(loaded.proto.graph)
        self.reuse = [
            find_reuse(
                plan, step, self._fit, self._reuse_rule, overwrite_inputs=allow_input_overwrite
            )
            for step in plan.steps
        ]
        self.peak_memory = [scratch_bytes(step.node, self._types) for step in plan.steps]
        self.unknown = tuple(self._find_unknown(plan))
        self._fill(list(self._walk(plan, allow_input_overwrite)))

    def _measure(self, plan: GraphPlan) -> None:
        """Bytes of every value; what only rearranges its input has as many, also where its shape is unknown."""
        measure = functools.cache(_MEASURES[self._account])
        for name in plan.slots:
            kind = self._types.get(name)
            self._bytes[name] = measure(kind) if isinstance(kind, ValueType) else None
        for step in plan.steps:
            if not step.is_call and keeps_bytes(step.node):
                source, result = step.node.input[0], step.node.output[0]
                if self._bytes[result] is None:
                    self._bytes[result] = self._bytes[source]

    def _walk(self, plan: GraphPlan, overwrite_inputs: bool) -> Iterable[NodeAccount]:
        if self._account == "evaluator":
            return evaluator_account(plan, self._bytes.get, self.value_tags, self._rank)
        if self._account == "onnxruntime":
            assert self._model is not None
            allocation = plan_allocation(self._model)
            self.unplanned = allocation.unplanned
            return onnxruntime_account(
                self._model, allocation, self._bytes.get, self.value_tags, in_chunks=self._in_chunks
            )
        return model_account(
            plan, self.reuse, self._bytes.get, self.value_tags, overwrite_inputs=overwrite_inputs
        )

    def _rank(self, name: str) -> int | None:
        """Rank of an input; -1 for sequences and maps, which are borrowed like tensors of rank 1 and more."""
        assert self._model is not None
        for value in self._model.proto.graph.input:
            if value.name == name:
                if value.type.WhichOneof("value") not in (None, "tensor_type"):
                    return -1
                kind = value.type.tensor_type
                return len(kind.shape.dim) if kind.HasField("shape") else None
        return None

    def _fit(self, output: str, source: str) -> Fit | None:
        ours, theirs = self._types.get(output), self._types.get(source)
        if isinstance(ours, ValueType) and ours == theirs:
            return "equal"
        out, given = self._bytes.get(output), self._bytes.get(source)
        if out is None or given is None:
            return None
        if out == given:
            return "equal"
        if out.is_constant and given.is_constant and given.value > out.value:
            return "greater"
        return None

    def _find_unknown(self, plan: GraphPlan) -> Iterable[Unknown]:
        makers = {name: step for step in plan.steps for name in step.node.output if name}
        for name, nbytes in self._bytes.items():
            if nbytes is not None:
                continue
            step = makers.get(name)
            kind = self._types.get(name)
            reason = (
                kind.reason
                if isinstance(kind, UnknownSize)
                else "its element type has no fixed width"
            )
            yield Unknown(
                name, step.index if step else -1, step.node.op_type if step else "", reason
            )

    def _fill(self, accounts: Sequence[NodeAccount]) -> None:
        self._accounts = accounts
        missing = np.zeros(len(accounts), np.bool_)
        for index, account in enumerate(accounts):
            missing[index] = account.unknown or any(one.nbytes is None for one in account.fresh)
            fresh = _sum(account.fresh)
            self._totals.append(account.already + fresh)
            self._made.append(fresh)
            self._io_totals.append(
                account.already_io + _sum(one for one in account.fresh if one.is_io)
            )
        self._missing = missing
        self._prepare()

    def _prepare(self) -> None:
        """Make the totals ready to be evaluated."""
        names = self._input_dims.names
        self._evaluator = CompiledForms(self._totals, names)
        self._io_evaluator = CompiledForms(self._io_totals, names)
        self.peak = Peak(self._totals, self._evaluator)
        """The highest total over all nodes."""

    # what people read

    def __len__(self) -> int:
        return len(self._totals)

    @property
    def memory(self) -> list[dict[str, Any]]:
        """For each node the totals (int, or text where symbolic) and the buckets (tag -> int or text)."""
        if self._memory is None:
            nodes = zip(self._accounts, self._totals, self._made, strict=True)
            self._memory = [_shown(account, total, fresh) for account, total, fresh in nodes]
        return self._memory

    @property
    def dims(self) -> tuple[str, ...]:
        """Symbolic dimensions that the totals depend on or the inputs name, in the order of the inputs."""
        return self._input_dims.names

    @property
    def data_dims(self) -> Mapping[str, DataDim]:
        """Dimensions that only data decides, such as how many elements are not zero; see ``compute(data_sizes=)``."""
        return self._inferred.data_dims

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What has to hold for the model to run: a table's end, sizes that must agree with a number."""
        return self._inferred.limits

    @property
    def author_dims(self) -> Mapping[str, str]:
        """What the model calls a dimension that had to be renamed, because its name is missing or cannot be read."""
        return self._input_dims.author_texts

    @property
    def input_dims(self) -> Mapping[str, tuple[Expr, ...] | None]:
        """Shape of each input as expressions; None for an input that declares none."""
        return self._input_dims.shapes

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """Name and operator of each node."""
        steps = self._plan.steps if self._plan is not None else ()
        return tuple(
            (step.node.name, _op_label(step.node.domain, step.node.op_type)) for step in steps
        )

    @property
    def coverage(self) -> Coverage:
        """How many values have a size."""
        return Coverage(len(self._bytes) - len(self.unknown), len(self._bytes))

    def node_memory(self, index: int) -> dict[str, Any]:
        """Totals and buckets of one node; IndexError where there is no such node."""
        return self.memory[_checked(index, len(self.memory))]

    def node_peak_memory(self, index: int) -> int:
        """Scratch bytes of one node, beyond its total; IndexError where there is no such node."""
        return self.peak_memory[_checked(index, len(self.peak_memory))]

    def node_reuse(self, index: int) -> tuple[InPlaceReuse, ...]:
        """Which outputs of one node take over which inputs; IndexError where there is no such node."""
        return self.reuse[_checked(index, len(self.reuse))]

    def node_tag(self, index: int) -> Tag:
        """Tag of one node; IndexError where there is no such node."""
        return self.node_tags[_checked(index, len(self.node_tags))]

    def shape(self, name: str) -> tuple[Scalar, ...] | None:
        """Shape of a value, ints and expressions as text; None where it is unknown."""
        kind = self._types.get(name)
        return tuple(map(_scalar, kind.shape)) if isinstance(kind, ValueType) else None

    def input_shapes(
        self, sizes: Sizes | None = None, /, **dims: int
    ) -> dict[str, tuple[int, ...] | None]:
        """Shape of each input at given sizes; None for an input that declares none.

        Raises:
            SizeError: A dimension is missing, unknown, negative or no integer.
        """
        given = {**(sizes or {}), **dims}
        shapes = {
            name: shape for name, shape in self._input_dims.shapes.items() if shape is not None
        }
        flat = [size for shape in shapes.values() for size in shape]
        values = iter(CompiledForms(flat, self.dims)(given).tolist())
        sized = {name: tuple(next(values) for _ in shape) for name, shape in shapes.items()}
        return {name: sized.get(name) for name in self._input_dims.shapes}

    def totals(self, sizes: Sizes | None = None, /, **dims: Any) -> npt.NDArray[np.int64]:
        """Bytes alive at each node, its outputs included.

        Args:
            sizes: One mapping, for dimensions whose names are no identifiers.
            dims: A size for each of :attr:`dims`; arrays of sizes are gone through side by side.

        Returns:
            int64 [nodes], or [sizes, nodes] where a size is an array. Values of unknown size are left out:
            see :meth:`unknown_nodes`.

        Raises:
            SizeError: A dimension is missing, unknown, negative or no integer, or a total leaves 64 bits.
        """
        return self._evaluator({**(sizes or {}), **dims})

    def largest(
        self, dim: str, budget: Budget, sizes: Mapping[str, int] | None = None, /, **others: int
    ) -> int:
        """The greatest size of *dim*, 1 or more, at which the peak is within *budget*; 0 where none fits.

        Args:
            dim: The dimension asked for.
            budget: Bytes, or text such as ``"512 MiB"``.
            sizes: Sizes of the others, for names that are no identifiers.
            others: Sizes of the others.

        Raises:
            SizeError: A size is missing or wrong, *budget* is no amount of memory, or every size fits.
        """
        return largest(self.peak, self.dims, dim, budget, {**(sizes or {}), **others}, self.limits)

    def feasible(
        self, grid: Mapping[str, Iterable[int]], budget: Budget, /, **others: int
    ) -> npt.NDArray[np.bool_]:
        """Whether the peak is within *budget* at each combination of the sizes in *grid*.

        Returns:
            bool, one axis for each dimension of *grid*, in its order. False where the model cannot run.

        Raises:
            SizeError: As :meth:`largest`.
        """
        return feasible(self.peak, self.dims, grid, budget, others, self.limits)

    def bounds(self, ranges: Mapping[str, Any] | None = None, /, **dims: Any) -> Bounds:
        """Bytes that each node's total is never below and never above while the sizes lie in ranges.

        Args:
            ranges: One mapping, for dimensions whose names are no identifiers.
            dims: (least, greatest) of each dimension, both included.

        Raises:
            SizeError: A range is missing or wrong, or an operation has no value in it.
        """
        asked = check_ranges({**(ranges or {}), **dims}, self.dims)
        return total_bounds(self._totals, asked, self._evaluator.symbols)

    def diff(self, other: ComputeContext) -> Difference:
        """This model against *other*: peaks, bytes by operator, and where one overtakes the other."""
        return Difference(
            (self.peak, other.peak),
            (self.dims, other.dims),
            (self.made_by_operator(), other.made_by_operator()),
        )

    def made_by_operator(self) -> dict[str, Expr]:
        """Bytes that the nodes of each operator make, as expressions; values of unknown size are left out."""
        return sum_by_operator([label for _, label in self.labels], self._made)

    def io_totals(self, sizes: Sizes | None = None, /, **dims: Any) -> npt.NDArray[np.int64]:
        """The part of :meth:`totals` that the evaluator holds in its io account; 0 for ``account="model"``.

        With ``account="onnxruntime"``: the part that belongs to the caller's outputs.
        """
        return self._io_evaluator({**(sizes or {}), **dims})

    def unknown_nodes(self, sizes: Sizes | None = None, /, **dims: Any) -> npt.NDArray[np.bool_]:
        """Which totals are to be read as "at least"; bool [nodes].

        They leave out a value of unknown size, or what the node's branches, loop body or function hold while it runs.

        Raises:
            SizeError: As :meth:`totals`.
        """
        self.totals(sizes, **dims)
        missing = self._missing.copy()
        missing[list(self.body_nodes)] = True
        return missing

    @property
    def work(self) -> ModelWork:
        """MACs, FLOPs, bytes read and written of each node; see :mod:`onnx_notebook_profiler.symbolic.work`."""
        if self._work is None:
            if self._plan is None:
                return ModelWork.of((), ())
            operators = [operator for _, operator in self.labels]
            self._work = count_work(self._plan, self._types, operators, self.dims)
        return self._work

    def work_totals(self, sizes: Sizes | None = None, /, **dims: Any) -> WorkTotals:
        """What :attr:`work` adds up to at one size, for the model and for each operator.

        Raises:
            SizeError: As :meth:`totals`; or a size is an array.
        """
        given: dict[str, Any] = {**(sizes or {}), **dims}
        return self.work.totals(given)

    @property
    def body_nodes(self) -> tuple[int, ...]:
        """Nodes that run a branch, a loop body or a function: what is alive inside is in no total."""
        steps = self._plan.steps if self._plan is not None else ()
        return tuple(step.index for step in steps if step.bodies)

    def unsized_nodes(self) -> npt.NDArray[np.bool_]:
        """Which totals leave out a value of unknown size; bool [nodes]."""
        return self._missing.copy()

    def write_to_model(self, model: ModelProto) -> None:
        """Write inferred shapes and annotations into *model*, see :mod:`onnx_notebook_profiler.symbolic.annotate`.

        Raises:
            ModelError: *model* has another number of nodes than the one that was computed.
        """
        if self._plan is None or len(model.graph.node) != len(self._plan.steps):
            raise ModelError(
                f"the model has {len(model.graph.node)} nodes, the context was computed for "
                f"{len(self._plan.steps) if self._plan else 0}: compute this model first"
            )
        annotate(model, self._plan, self._types, self.value_tags, self.reuse, self.peak_memory)

    def __repr__(self) -> str:
        if self._model is None:
            return f"ComputeContext(reuse={self._reuse_rule!r}, account={self._account!r})"
        return (
            f"ComputeContext({self._model.name!r}, {len(self)} nodes, dims {', '.join(self.dims) or 'none'}, "
            f"sizes of {self.coverage})"
        )


def _shown(account: NodeAccount, total: Expr, fresh: Expr) -> dict[str, Any]:
    """What one node holds and makes, as numbers and texts."""
    made = {charge.tag for charge in account.fresh}
    return {
        NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY: _scalar(account.already),
        NODE_MEMORY_INITIALIZERS_KEY: _bucket(account, "initializers"),
        NODE_MEMORY_INPUTS_KEY: _bucket(account, "inputs"),
        NODE_MEMORY_INTERMEDIATES_KEY: _bucket(account, "intermediates"),
        NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY: _scalar(fresh),
        NODE_MEMORY_OUTPUTS_KEY: _scalars(
            {tag: _sum(one for one in account.fresh if one.tag == tag) for tag in made}
        ),
        NODE_MEMORY_TOTAL_BYTES_KEY: _scalar(total),
    }


def _sum(charges: Iterable[Charge]) -> Expr:
    return Expr.sum(charge.nbytes for charge in charges if charge.nbytes is not None)


def _scalar(size: Expr) -> Scalar:
    return size.value if size.is_constant else str(size)


def _bucket(account: NodeAccount, source: Source) -> dict[str, Scalar]:
    return _scalars({tag: size for (kind, tag), size in account.buckets.items() if kind == source})


def _scalars(sizes: Mapping[Tag, Expr]) -> dict[str, Scalar]:
    """Bytes by tag, sorted by tag; tags of 0 bytes are left out."""
    return {tag: _scalar(sizes[tag]) for tag in sorted(sizes) if sizes[tag] != Expr.constant(0)}


def _op_label(domain: str, op_type: str) -> str:
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"


def _checked(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise IndexError(f"node {index} of {count}")
    return index
