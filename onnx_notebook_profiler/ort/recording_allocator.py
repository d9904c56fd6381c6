"""An allocator for onnxruntime that writes down each request, in the C API's form."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, Final

from onnx_notebook_profiler.ort.c_api import CApi

__all__ = ["ALLOC", "FREE", "RESERVE", "RecordingAllocator"]

ALLOC, FREE, RESERVE = 0, 1, 2
"""What a row is: its first entry."""

_VERSION: Final = 18
"""The form of the C API's OrtAllocator that has Alloc, Free, Info and Reserve."""

_ALIGNMENT: Final = 64
_NO_TRIM, _NO_MMAP = -1, -4

_TAKE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_GIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_INFO = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _OrtAllocator(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32),
        ("alloc", _TAKE),
        ("free", _GIVE),
        ("info", _INFO),
        ("reserve", _TAKE),
        *((name, ctypes.c_void_p) for name in ("get_stats", "alloc_on_stream", "shrink")),
    )


class RecordingAllocator:
    """Registered with an environment, it serves every session with ``session.use_env_allocators``.

    It must live as long as that environment. Memory comes from the C library, and stays with the process when it is
    given back, as it would in an arena.
    """

    def __init__(self, api: CApi, environment: ctypes.c_void_p, info: ctypes.c_void_p) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        """(ALLOC, FREE or RESERVE, ns of :func:`time.time_ns`, address, bytes; 0 bytes for FREE)."""
        take, give = _c_memory()
        self._table = _OrtAllocator(
            _VERSION,
            self._taking(ALLOC, take),
            self._giving(give),
            _INFO(lambda _: info.value),
            self._taking(RESERVE, take),
        )
        api.call("RegisterAllocator", environment, ctypes.byref(self._table))

    def taken(self) -> list[tuple[int, int, int, int]]:
        """The rows since the last call."""
        rows = self.rows[:]
        self.rows.clear()
        return rows

    def _taking(self, kind: int, take: Callable[[int, int], int | None]) -> Any:
        append, now = self.rows.append, time.time_ns

        def allocate(_: int, size: int) -> int | None:
            if not size:
                return None
            address = take(_ALIGNMENT, (size + 127) & -64)
            if address:
                append((kind, now(), address, size))
            return address

        return _TAKE(allocate)

    def _giving(self, give: Callable[[int], None]) -> Any:
        append, now = self.rows.append, time.time_ns

        def free(_: int, address: int | None) -> None:
            if address:
                append((FREE, now(), address, 0))
                give(address)

        return _GIVE(free)


def _c_memory() -> tuple[Callable[[int, int], int | None], Callable[[int], None]]:
    """The C library's ``aligned_alloc`` and ``free``, called with Python's lock held: a call costs less so."""
    library = ctypes.PyDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_NO_MMAP, 0)
        library.mallopt(_NO_TRIM, 2**31 - 1)
    take, give = library.aligned_alloc, library.free
    take.restype, take.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    give.restype, give.argtypes = None, (ctypes.c_void_p,)
    return take, give
