"""Which kernel runs an operator: a table keyed by domain, operator and the version since which it holds."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from onnx_notebook_profiler.evaluator.kernel import AdoptingKernel, Kernel

__all__ = ["Registration", "find_kernel", "register", "registrations"]

KernelClass = type[Kernel] | type[AdoptingKernel]
_Class = TypeVar("_Class", bound=KernelClass)


class Registration(NamedTuple):
    """*kernel* runs *op_type* of *domain* in every opset from *since_version* up to the next registration."""

    domain: str
    op_type: str
    since_version: int
    kernel: KernelClass | None
    """None: from this version on, no kernel of ours."""


_table: dict[tuple[str, str], list[Registration]] = {}


def canonical_domain(domain: str) -> str:
    """The default domain has two names, ``""`` and ``"ai.onnx"``; here it is the empty one."""
    return "" if domain == "ai.onnx" else domain


def register(
    op_type: str, *, since_version: int, until_version: int | None = None, domain: str = ""
) -> Callable[[_Class], _Class]:
    """Class decorator: the kernel runs *op_type* from opset *since_version* on.

    A later registration of the same operator takes over at its own version; *until_version* is the first opset that the
    kernel no longer holds for. Decorators stack, one for each operator of a family.
    """

    def decorate(kernel: _Class) -> _Class:
        entries = _table.setdefault((canonical_domain(domain), op_type), [])
        entries.append(Registration(domain, op_type, since_version, kernel))
        if until_version is not None:
            entries.append(Registration(domain, op_type, until_version, None))
        entries.sort(key=lambda entry: (entry.since_version, entry.kernel is not None))
        return kernel

    return decorate


@functools.cache
def _collect() -> None:
    """Import every file of ``kernels/`` once; each registers what it holds."""
    package = importlib.import_module("onnx_notebook_profiler.evaluator.kernels")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"{package.__name__}.{module.name}")


def find_kernel(domain: str, op_type: str, opset: int) -> KernelClass | None:
    """The kernel for an operator at an opset, or None where the project has no own one."""
    _collect()
    entries = _table.get((canonical_domain(domain), op_type), [])
    position = bisect_right(entries, opset, key=lambda entry: entry.since_version)
    return entries[position - 1].kernel if position else None


def registrations() -> Iterator[Registration]:
    """Every registration with a kernel, sorted by domain, operator and version."""
    _collect()
    for key in sorted(_table):
        yield from (entry for entry in _table[key] if entry.kernel is not None)
