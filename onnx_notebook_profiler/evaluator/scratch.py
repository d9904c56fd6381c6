"""Measures what a kernel holds beyond its inputs and outputs while it runs."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from onnx_notebook_profiler.evaluator.numpy_memory import NumpyMemory, numpy_memory

__all__ = ["Meter", "held_bytes", "measuring"]


class _Probe(Protocol):
    """Tells the live bytes, and the most that were live since it was reset."""

    def reset(self) -> int:
        """Forget the peak; the live bytes."""

    def peak(self) -> int:
        """The most live bytes since then."""


class _NumpyProbe:
    """numpy's allocation hooks: exact to the byte."""

    def __init__(self, memory: NumpyMemory) -> None:
        self._memory = memory

    def reset(self) -> int:
        self._memory.peak = self._memory.live
        return self._memory.live

    def peak(self) -> int:
        return self._memory.peak


class _TraceProbe:
    """tracemalloc: Python's own objects count too, so it is a few kB off."""

    def reset(self) -> int:
        tracemalloc.reset_peak()
        return tracemalloc.get_traced_memory()[0]

    def peak(self) -> int:
        return tracemalloc.get_traced_memory()[1]


class Meter:
    """The scratch of one node after another; nodes with bodies get the most that a node inside them took."""

    def __init__(self, probe: _Probe) -> None:
        self._probe = probe
        self._open: list[int] = []
        self._inside: list[int | None] = []

    def begin(self) -> None:
        """A node starts."""
        self._open.append(self._probe.reset())
        self._inside.append(0)

    def end(self, fresh: int, *, has_bodies: bool = False, is_seen: bool = True) -> int | None:
        """A node is done: its scratch in bytes, None where that, or that of a node inside it, is unknown.

        Args:
            fresh: Bytes of the outputs that it has not taken from an input.
            is_seen: False where the node's memory is another runtime's.
        """
        before, inside = self._open.pop(), self._inside.pop()
        scratch: int | None = None
        if has_bodies:
            scratch = inside
        elif is_seen:
            scratch = max(0, self._probe.peak() - before - fresh)
        if self._inside:
            around = self._inside[-1]
            if around is not None:
                self._inside[-1] = None if scratch is None else max(around, scratch)
        return scratch


@contextlib.contextmanager
def measuring() -> Iterator[Meter]:
    """A meter on numpy's hooks, or on tracemalloc where this Python or numpy has none."""
    with contextlib.ExitStack() as stack:
        try:
            probe: _Probe = _NumpyProbe(stack.enter_context(numpy_memory()))
        except (ImportError, AttributeError):
            if not tracemalloc.is_tracing():
                tracemalloc.start()
                stack.callback(tracemalloc.stop)
            probe = _TraceProbe()
        yield Meter(probe)


def held_bytes(values: Sequence[Any]) -> int:
    """What numpy holds for *values*: an empty array is one byte, a text the pointer to it."""
    total = 0
    for value in values:
        if isinstance(value, np.ndarray):
            total += max(value.nbytes, 1)
        elif isinstance(value, list | tuple):
            total += held_bytes(value)
    return total
