"""What a node holds and makes, as numbers and texts by source and tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx_notebook_profiler.symbolic.accounts import Charge, NodeAccount, Source
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.tags import Tag

__all__ = [
    "NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY",
    "NODE_MEMORY_INITIALIZERS_KEY",
    "NODE_MEMORY_INPUTS_KEY",
    "NODE_MEMORY_INTERMEDIATES_KEY",
    "NODE_MEMORY_OUTPUTS_KEY",
    "NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY",
    "NODE_MEMORY_TOTAL_BYTES_KEY",
    "NODE_PEAK_MEMORY_KEY",
    "Scalar",
    "node_texts",
    "scalar",
    "sum_charges",
]

NODE_MEMORY_TOTAL_BYTES_KEY = "total_bytes"
NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY = "already_allocated_bytes"
NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY = "output_allocation_bytes"
NODE_MEMORY_INPUTS_KEY = "inputs"
NODE_MEMORY_INITIALIZERS_KEY = "initializers"
NODE_MEMORY_INTERMEDIATES_KEY = "intermediates"
NODE_MEMORY_OUTPUTS_KEY = "outputs"
NODE_PEAK_MEMORY_KEY = "onnx_light.peak_memory"

Scalar = int | str
"""A number, or an expression as text."""


def node_texts(account: NodeAccount, total: Expr, fresh: Expr) -> dict[str, Any]:
    """One node: *total* bytes alive, of which it makes *fresh*, and the buckets (tag -> int or text)."""
    made = {charge.tag for charge in account.fresh}
    return {
        NODE_MEMORY_ALREADY_ALLOCATED_BYTES_KEY: scalar(account.already),
        NODE_MEMORY_INITIALIZERS_KEY: _bucket(account, "initializers"),
        NODE_MEMORY_INPUTS_KEY: _bucket(account, "inputs"),
        NODE_MEMORY_INTERMEDIATES_KEY: _bucket(account, "intermediates"),
        NODE_MEMORY_OUTPUT_ALLOCATION_BYTES_KEY: scalar(fresh),
        NODE_MEMORY_OUTPUTS_KEY: _scalars(
            {tag: sum_charges(one for one in account.fresh if one.tag == tag) for tag in made}
        ),
        NODE_MEMORY_TOTAL_BYTES_KEY: scalar(total),
    }


def sum_charges(charges: Iterable[Charge]) -> Expr:
    """Bytes of those that have a size."""
    return Expr.sum(charge.nbytes for charge in charges if charge.nbytes is not None)


def scalar(size: Expr) -> Scalar:
    """An expression as people read it."""
    return size.value if size.is_constant else str(size)


def _bucket(account: NodeAccount, source: Source) -> dict[str, Scalar]:
    return _scalars({tag: size for (kind, tag), size in account.buckets.items() if kind == source})


def _scalars(sizes: Mapping[Tag, Expr]) -> dict[str, Scalar]:
    """Bytes by tag, sorted by tag; tags of 0 bytes are left out."""
    return {tag: scalar(sizes[tag]) for tag in sorted(sizes) if sizes[tag] != Expr.constant(0)}
