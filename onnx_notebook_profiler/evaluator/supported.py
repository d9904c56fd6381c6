"""What the evaluator can run, operator by operator, and on which tier."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from onnx import defs
from onnx.reference import ops as reference_ops

from onnx_notebook_profiler.evaluator.control_flow import REGION_OPERATORS
from onnx_notebook_profiler.evaluator.onnxruntime_kernel import known_operators
from onnx_notebook_profiler.evaluator.registry import find_kernel, registrations
from onnx_notebook_profiler.evaluator.tiers import FUNCTION, ONNXRUNTIME, OWN, REFERENCE

__all__ = ["SupportedOperator", "supported_operators"]

NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class SupportedOperator:
    """*op_type* of *domain* (empty: the default one) runs on *tier* in the versions that changed it, listed."""

    domain: str
    op_type: str
    tier: str
    """own, onnxruntime, function body, reference, or none."""
    versions: tuple[int, ...]


def supported_operators(*, onnxruntime: bool = True) -> list[SupportedOperator]:
    """Every operator that onnx, this package or the installed onnxruntime knows; sorted by domain, name and tier.

    An operator has an entry for each tier that some of its versions run on. ``own`` is a kernel of this package, or for
    operators with bodies its loop over their nodes; ``function body`` stands where onnx defines the operator by others.

    Args:
        onnxruntime: False leaves onnxruntime out, as ``kernels="numpy"`` does; the result is the same everywhere.
    """
    found: dict[tuple[str, str, str], set[int]] = {}
    for domain, op_type, version, tier in _versions(onnxruntime=onnxruntime):
        found.setdefault((domain, op_type, tier), set()).add(version)
    return sorted(
        SupportedOperator(*key, versions=tuple(sorted(versions))) for key, versions in found.items()
    )


def _versions(*, onnxruntime: bool) -> Iterator[tuple[str, str, int, str]]:
    runtime = known_operators() if onnxruntime else frozenset()
    described: set[tuple[str, str]] = set()
    for schema in defs.get_all_schemas_with_history():
        if schema.deprecated:
            continue
        domain, name, version = schema.domain, schema.name, schema.since_version
        described.add((domain, name))
        yield domain, name, version, _tier(schema, (domain, name) in runtime)
    for entry in registrations():
        if (entry.domain, entry.op_type) not in described:
            yield entry.domain, entry.op_type, entry.since_version, OWN
            described.add((entry.domain, entry.op_type))
    for domain, name in runtime:
        if (domain, name) not in described:
            yield domain, name, 1, ONNXRUNTIME


def _tier(schema: defs.OpSchema, is_known: bool) -> str:
    """The first tier that has the operator in this version."""
    domain, name, version = schema.domain, schema.name, schema.since_version
    if (domain, name) in REGION_OPERATORS or find_kernel(domain, name, version) is not None:
        return OWN
    if is_known:
        return ONNXRUNTIME
    if _has_class(domain, name, version):
        return REFERENCE
    defined = schema.has_function or schema.has_context_dependent_function  # type: ignore[attr-defined]
    return FUNCTION if defined else NONE


def _has_class(domain: str, name: str, version: int) -> bool:
    if domain:
        return False
    try:
        reference_ops.load_op(domain, name, version)
    except (NotImplementedError, ValueError):
        return False
    return True
