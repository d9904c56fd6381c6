"""The errors of the product: each says what was expected, what was found and what to do."""

from __future__ import annotations

__all__ = [
    "AllocationError",
    "ArenaLimitError",
    "ExpressionError",
    "FeedError",
    "InvalidFreeError",
    "KernelError",
    "MissingExtraError",
    "ModelError",
    "OnnxRuntimeError",
    "OutputError",
    "ProfilerError",
    "SizeError",
    "UnsupportedOperatorError",
]


class ProfilerError(Exception):
    """Base class of every error that this package raises on purpose."""


class ModelError(ProfilerError, ValueError):
    """The model cannot be read, or breaks a rule of ONNX that a run rests on."""


class FeedError(ProfilerError, ValueError):
    """The feeds of a run do not fit the model's inputs: a missing or unknown name, a wrong type or rank."""


class OutputError(ProfilerError, RuntimeError):
    """A run was asked for a value that the model does not have."""


class UnsupportedOperatorError(ProfilerError, NotImplementedError):
    """No implementation is known for an operator of the model."""


class KernelError(ProfilerError, RuntimeError):
    """An operator failed while it ran; the message names node, inputs and cause."""


class AllocationError(ProfilerError, MemoryError):
    """An allocator refused a request; the message names node, value and figures."""


class ArenaLimitError(AllocationError):
    """An arena refused a request: no free chunk fits, and its limit forbids another region."""

    def __init__(
        self,
        message: str,
        *,
        nbytes: int,
        rounded: int,
        available: int,
        regions: tuple[object, ...],
    ) -> None:
        super().__init__(message)
        self.nbytes = nbytes
        """Bytes that were asked for."""
        self.rounded = rounded
        """The same, rounded up to the arena's unit."""
        self.available = available
        """Bytes that a new region could have."""
        self.regions = regions
        """What the arena looked like then, as :meth:`~onnx_notebook_profiler.BFCArena.regions` gives it."""


class InvalidFreeError(ProfilerError, ValueError):
    """A buffer was freed twice, or given to an allocator that does not own it."""


class ExpressionError(ProfilerError, RuntimeError):
    """A symbolic expression cannot be read or evaluated."""


class SizeError(ProfilerError, ValueError):
    """A size is missing, unknown or impossible, or a result leaves 64-bit integers."""


class MissingExtraError(ProfilerError, ImportError):
    """An optional package is needed and not installed; the message names the extra."""


class OnnxRuntimeError(ProfilerError, RuntimeError):
    """onnxruntime failed, died, or does not offer what was asked; the message has its own last words."""
