"""Memory of a model as formulas over its symbolic dimensions, node by node."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx import ModelProto

from onnx_notebook_profiler.errors import ModelError, SizeError
from onnx_notebook_profiler.model import LoadedModel, ModelSource, load_model
from onnx_notebook_profiler.plan import GraphPlan, build_plan
from onnx_notebook_profiler.plan.inplace import Fit, InPlaceReuse, ReuseRule, find_reuse
from onnx_notebook_profiler.plan.ort_allocation import plan_allocation
from onnx_notebook_profiler.plan.ort_unplanned import Unplanned
from onnx_notebook_profiler.symbolic.accounts import (
    ALL_COUNTED,
    Counting,
    NodeAccount,
    evaluator_account,
    model_account,
)
from onnx_notebook_profiler.symbolic.annotate import annotate
from onnx_notebook_profiler.symbolic.bounds import Bounds, total_bounds
from onnx_notebook_profiler.symbolic.budget import Budget
from onnx_notebook_profiler.symbolic.data_sizes import (
    DataSizes,
    Decided,
    decide,
    every_data_dim,
)
from onnx_notebook_profiler.symbolic.difference import Difference, sum_by_operator
from onnx_notebook_profiler.symbolic.dims import InputDims, read_dims
from onnx_notebook_profiler.symbolic.evaluation import CompiledForms
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.inside import Moment, moments
from onnx_notebook_profiler.symbolic.inverse import feasible, largest
from onnx_notebook_profiler.symbolic.limits import Limit
from onnx_notebook_profiler.symbolic.measure import bytes_of_values, measure_of
from onnx_notebook_profiler.symbolic.node_texts import Scalar, node_texts, scalar, sum_charges
from onnx_notebook_profiler.symbolic.onnxruntime_account import onnxruntime_account
from onnx_notebook_profiler.symbolic.peak import Peak, Place
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
from onnx_notebook_profiler.symbolic.unknown import (
    ByteCoverage,
    Coverage,
    Unknown,
    byte_coverage,
    find_unknown,
)
from onnx_notebook_profiler.symbolic.work import ModelWork, WorkTotals
from onnx_notebook_profiler.symbolic.work_count import count_work, operator_label

__all__ = ["Account", "ComputeContext"]

Account = Literal["model", "evaluator", "onnxruntime"]
"""model: inputs, initializers and everything alive, as onnx-light counts. evaluator: what ReferenceEvaluator holds.
onnxruntime: what a run of an onnxruntime session on the CPU asks its allocator for."""

Sizes = Mapping[str, int | Sequence[int] | npt.NDArray[Any]]


class ComputeContext:
    """Prices the plan of a model in formulas.

    Args:
        reuse: Which outputs may take over the buffer of an input that dies at the node. ``"operator"``: those of
            element-wise operators and views, where the sizes are equal. ``"structural"``: any that fits, onnx-light's
            bound. ``"none"``: none.
        account: ``"model"`` counts inputs and initializers from the first node to the last, and outputs once they are
            made. ``"evaluator"`` counts what :class:`~onnx_notebook_profiler.ReferenceEvaluator` holds.
            ``"onnxruntime"`` counts the buffers that a first run of an onnxruntime session on this very graph asks for
            (optimizations off, one thread, or a model that a session saved), in that runtime's order and by its own
            rules of reuse; inputs, weights and scratch are not in it. Where these rules are not known,
            :attr:`unplanned` says so, and no total counts. *reuse* and the three switches are for ``"model"``.
        count_outputs: False leaves the model's outputs out: the caller has buffers for them.
        count_initializers: False leaves the weights out: they are looked at apart.
        release_inputs: True lets an input go after the last node that reads it.
        in_chunks: With ``"onnxruntime"``: each buffer rounded up to 256 bytes, as its arena does.

    Raises:
        ValueError: *reuse* or *account* is none of these words, or a switch goes with another account.
    """

    def __init__(
        self,
        reuse: ReuseRule = "operator",
        account: Account = "model",
        *,
        count_outputs: bool = True,
        count_initializers: bool = True,
        release_inputs: bool = False,
        in_chunks: bool = False,
    ) -> None:
        if reuse not in ("operator", "structural", "none"):
            raise ValueError(f"reuse is 'operator', 'structural' or 'none', not {reuse!r}")
        if account not in ("model", "evaluator", "onnxruntime"):
            raise ValueError(f"account is 'model', 'evaluator' or 'onnxruntime', not {account!r}")
        self._counting = Counting(count_outputs, count_initializers, release_inputs)
        if account != "model" and self._counting != ALL_COUNTED:
            raise ValueError(
                f"account={account!r} counts what is held there: count_outputs, count_initializers and "
                "release_inputs are switches of account='model'"
            )
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
        self._decided = Decided(self._inferred, {}, {}, frozenset())
        self._types: Mapping[str, ValueType | UnknownSize] = {}
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
        self.inside: tuple[Moment, ...] = ()
        """The nodes of branches, loop bodies and functions: what is alive while each of them runs."""
        for made_on_demand in ("_evaluator", "_io_evaluator", "peak"):
            self.__dict__.pop(made_on_demand, None)
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
        self._decided = decide(self._inferred, data_sizes or {})
        self._types = self._decided.types
        measure = measure_of(self._account)
        self._bytes = bytes_of_values(plan, self._types, measure)
        self.value_tags, self.node_tags = tag_values(loaded.proto.graph)
        self.reuse = [
            find_reuse(
                plan, step, self._fit, self._reuse_rule, overwrite_inputs=allow_input_overwrite
            )
            for step in plan.steps
        ]
        self.peak_memory = [scratch_bytes(step.node, self._types) for step in plan.steps]
        self.unknown = tuple(find_unknown(plan, self._bytes, self._types))
        accounts = list(self._walk(plan, allow_input_overwrite))
        if self._account != "onnxruntime":
            self.inside = tuple(moments(plan, accounts, self._decided, self._bytes, measure))
        self._fill(accounts)

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
            plan,
            self.reuse,
            self._bytes.get,
            self.value_tags,
            overwrite_inputs=overwrite_inputs,
            counting=self._counting,
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

    def _fill(self, accounts: Sequence[NodeAccount]) -> None:
        self._accounts = accounts
        missing = np.zeros(len(accounts), np.bool_)
        for index, account in enumerate(accounts):
            missing[index] = account.unknown or any(one.nbytes is None for one in account.fresh)
            fresh = sum_charges(account.fresh)
            self._totals.append(account.already + fresh)
            self._made.append(fresh)
            self._io_totals.append(
                account.already_io + sum_charges(one for one in account.fresh if one.is_io)
            )
        self._missing = missing

    @functools.cached_property
    def _evaluator(self) -> CompiledForms:
        return CompiledForms(self._totals, self._input_dims.names)

    @functools.cached_property
    def _io_evaluator(self) -> CompiledForms:
        return CompiledForms(self._io_totals, self._input_dims.names)

    @functools.cached_property
    def peak(self) -> Peak:
        """The most that is alive at any node, those inside other nodes included."""
        places, entries = self._entries()
        forms = CompiledForms(entries, self._input_dims.names) if self.inside else self._evaluator
        return Peak(entries, forms, places=places)

    def _entries(self) -> tuple[list[Place], list[Expr]]:
        """Every node with its total, those inside a node before it."""
        inside: dict[int, list[Moment]] = {}
        for moment in self.inside:
            inside.setdefault(moment.node, []).append(moment)
        places, entries = [], []
        for node, total in enumerate(self._totals):
            for moment in inside.get(node, ()):
                places.append(Place(node, moment.label))
                entries.append(moment.total)
            places.append(Place(node))
            entries.append(total)
        return places, entries

    # what people read

    def __len__(self) -> int:
        return len(self._totals)

    @property
    def memory(self) -> list[dict[str, Any]]:
        """For each node the totals (int, or text where symbolic) and the buckets (tag -> int or text)."""
        if self._memory is None:
            nodes = zip(self._accounts, self._totals, self._made, strict=True)
            self._memory = [node_texts(account, total, fresh) for account, total, fresh in nodes]
        return self._memory

    @property
    def dims(self) -> tuple[str, ...]:
        """Symbolic dimensions that the totals depend on or the inputs name, in the order of the inputs."""
        return self._input_dims.names

    @property
    def data_dims(self) -> Mapping[str, DataDim]:
        """Dimensions that only data decides, such as how many elements are not zero; see ``compute(data_sizes=)``."""
        return every_data_dim(self._inferred)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What has to hold for the model to run: a table's end, sizes that must agree with a number."""
        return self._inferred.limits

    @property
    def abbreviations(self) -> Mapping[str, str]:
        """Names in the formulas that stand for expressions of hundreds of parts, and their texts."""
        return {name: str(size) for name, size in self._inferred.abbreviations.items()}

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
        return tuple((step.node.name, operator_label(step.node)) for step in steps)

    @property
    def coverage(self) -> Coverage:
        """How many values have a size."""
        return Coverage(len(self._bytes) - len(self.unknown), len(self._bytes))

    def byte_coverage(self, sizes: Sizes | None = None, /, **dims: Any) -> ByteCoverage:
        """Bytes of the values that have a size, and of all values where the others are as large as they can be.

        Raises:
            SizeError: As :meth:`totals`; or a size is an array.
        """
        bounded: dict[str, Expr | None] = {}
        if self._plan is not None:
            types = decide(self._inferred, "bounds").types
            bounded = bytes_of_values(self._plan, types, measure_of(self._account))
        return byte_coverage(self._bytes, bounded, self.dims, {**(sizes or {}), **dims})

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

    @property
    def types(self) -> Mapping[str, ValueType | UnknownSize]:
        """Element type and shape of each value of the main graph, or why it is not known."""
        return self._types

    def shape(self, name: str) -> tuple[Scalar, ...] | None:
        """Shape of a value, ints and expressions as text; None where it is unknown."""
        kind = self._types.get(name)
        return tuple(map(scalar, kind.shape)) if isinstance(kind, ValueType) else None

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

    def value_bytes(self, sizes: Sizes | None = None, /, **dims: int) -> dict[str, int | None]:
        """Bytes of every value of the main graph at given sizes; None where nobody knows.

        Raises:
            SizeError: As :meth:`totals`; or a size is an array.
        """
        known = {name: nbytes for name, nbytes in self._bytes.items() if nbytes is not None}
        values = CompiledForms(list(known.values()), self.dims)({**(sizes or {}), **dims})
        if values.ndim != 1:
            raise SizeError("value_bytes takes one size for each dimension, got an array of sizes")
        sized = dict(zip(known, values.tolist(), strict=True))
        return {name: sized.get(name) for name in self._bytes}

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
        inner = [moment.total for moment in self.inside]
        return total_bounds(self._totals, asked, self._evaluator.symbols, inner)

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

    def highest(self, sizes: Sizes | None = None, /, **dims: Any) -> npt.NDArray[np.int64]:
        """Most bytes alive while each node runs: its total, or more while a node inside it runs.

        Returns:
            int64 [nodes], or [sizes, nodes] where a size is an array.

        Raises:
            SizeError: As :meth:`totals`.
        """
        found: npt.NDArray[np.int64] = self.peak.by_node({**(sizes or {}), **dims})
        return found

    def unknown_nodes(self, sizes: Sizes | None = None, /, **dims: Any) -> npt.NDArray[np.bool_]:
        """Which totals are to be read as "at least"; bool [nodes].

        They leave out a value of unknown size, be it one inside the node's branches, loop body or function.

        Raises:
            SizeError: As :meth:`totals`.
        """
        self.totals(sizes, **dims)
        missing = self._missing.copy()
        missing[[moment.node for moment in self.inside if moment.unknown]] = True
        return missing

    @property
    def work(self) -> ModelWork:
        """MACs, FLOPs, bytes read and written of each node; see :mod:`onnx_notebook_profiler.symbolic.work`."""
        if self._work is None:
            if self._plan is None:
                return ModelWork.of((), ())
            self._work = count_work(self._plan, self._decided, self.dims)
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
        """Nodes that run a branch, a loop body or a function: what is alive inside is in :attr:`inside`."""
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


def _checked(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise IndexError(f"node {index} of {count}")
    return index
