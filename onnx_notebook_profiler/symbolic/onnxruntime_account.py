"""What a run of onnxruntime asks of its allocator and holds at each node: its own plan, priced in formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx_notebook_profiler.model import LoadedModel
from onnx_notebook_profiler.plan.ort_allocation import AllocationPlan
from onnx_notebook_profiler.symbolic.accounts import Charge, Ledger, NodeAccount
from onnx_notebook_profiler.symbolic.expression import Expr, ceil_div
from onnx_notebook_profiler.symbolic.tags import Tag

__all__ = ["CHUNK_BYTES", "onnxruntime_account"]

CHUNK_BYTES = 256
"""The arena's unit: it rounds every request up to a multiple of it."""


def onnxruntime_account(
    model: LoadedModel,
    plan: AllocationPlan,
    size: Callable[[str], Expr | None],
    tags: Mapping[str, Tag],
    *,
    in_chunks: bool = False,
) -> Sequence[NodeAccount]:
    """Accounts by index of the node in *model*: what is alive while it runs, outputs of the model included.

    Counted is what a first run asks for, one buffer after the other, in the runtime's order: not the inputs, not the
    weights, not what kernels ask for beyond their outputs. A node that never runs (Constant) holds nothing. Where the
    plan is not known at some node, nothing is counted, and each node says that something is missing.

    Args:
        size: Bytes of a value.
        in_chunks: Round each buffer up to 256 bytes, as the arena does.
    """
    nothing = Ledger(()).account(())
    accounts = [nothing for _ in model.proto.graph.node]
    if plan.unplanned:
        missing = NodeAccount(nothing.already, nothing.already_io, {}, len(plan.unplanned), ())
        return [missing for _ in accounts]
    ledger = Ledger(())
    alive: dict[str, Charge] = {}
    for index in plan.order.nodes:
        fresh = []
        for name in model.proto.graph.node[index].output:
            if name and plan.placements[name].is_allocated:
                nbytes = size(name)
                if nbytes is not None and in_chunks:
                    nbytes = ceil_div(nbytes, CHUNK_BYTES) * CHUNK_BYTES
                is_io = plan.placements[name].rule == "output"
                fresh.append(Charge(name, "intermediates", tags.get(name, ""), nbytes, is_io))
        accounts[index] = ledger.account(tuple(fresh))
        for charge in fresh:
            alive[charge.name] = charge
            ledger.enter(charge)
        for name in plan.releases.get(index, ()):
            ledger.leave(alive.pop(name))
    return accounts
