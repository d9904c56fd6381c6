"""Says where a run failed, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_notebook_profiler.errors import AllocationError, KernelError, ProfilerError
from onnx_notebook_profiler.evaluator.program import Op

__all__ = ["explained"]


def explained(op: Op, inputs: Sequence[Any], error: Exception) -> ProfilerError:
    """*error* as one of ours that names the node, and for a kernel's failure types and shapes of its inputs."""
    if isinstance(error, MemoryError):
        return AllocationError(f"{op.label}: {error}")
    if isinstance(error, ProfilerError):
        return type(error)(f"{op.label}: {error}")
    given = ", ".join(
        f"{name}: {_describe(value)}"
        for name, value in zip(op.call.inputs, inputs, strict=False)
        if name
    )
    return KernelError(f"{op.label} failed on ({given}): {str(error) or type(error).__name__}")


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return "absent" if value is None else type(value).__name__
