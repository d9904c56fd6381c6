"""What numpy really holds: its own allocation hooks (NEP 49), counted byte by byte.

A handler of ours stands before the one that numpy has, notes each request and passes it on. numpy keeps the handler
that made an array with that array, so ours lives as long as the process; while nobody counts, its functions are those
of numpy's own. Each counter sees the requests of the thread that started it. What numpy takes without its hooks is
not seen: LAPACK's work space, fft, stable sorts, the packed panels of BLAS.

https://numpy.org/neps/nep-0049.html
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import threading
from collections.abc import Iterator
from ctypes import PYFUNCTYPE, c_char, c_size_t, c_uint8, c_void_p, py_object
from typing import Any, Final, NamedTuple

__all__ = ["NumpyMemory", "numpy_memory"]

# Places in numpy's table of C functions: PyDataMem_SetHandler and PyDataMem_GetHandler.
_SET_HANDLER: Final = 304
_GET_HANDLER: Final = 305
_CAPSULE_NAME: Final = ctypes.create_string_buffer(b"mem_handler")  # a capsule keeps the pointer

_MALLOC: Final = PYFUNCTYPE(c_void_p, c_void_p, c_size_t)
_CALLOC: Final = PYFUNCTYPE(c_void_p, c_void_p, c_size_t, c_size_t)
_REALLOC: Final = PYFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
_FREE: Final = PYFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class _Functions(ctypes.Structure):
    _fields_ = (
        ("ctx", c_void_p),
        ("malloc", _MALLOC),
        ("calloc", _CALLOC),
        ("realloc", _REALLOC),
        ("free", _FREE),
    )


class _Handler(ctypes.Structure):
    _fields_ = (("name", c_char * 127), ("version", c_uint8), ("functions", _Functions))


class NumpyMemory:
    """Bytes of array data that live arrays asked for since the counting began, and the most of it at once."""

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0
        self.requests = 0
        self.thread = threading.get_ident()
        self._sizes: dict[int, int] = {}

    def note(self, place: int, size: int) -> None:
        """*size* bytes were granted at *place*."""
        self._sizes[place] = size
        self.requests += 1
        self.live += size
        self.peak = max(self.peak, self.live)

    def forget(self, place: int) -> None:
        """What lies at *place* is freed; what came before the counting is not counted."""
        self.live -= self._sizes.pop(place, 0)

    def __repr__(self) -> str:
        return f"NumpyMemory(live={self.live}, peak={self.peak}, requests={self.requests})"


_counters: Final[list[NumpyMemory]] = []


def _note(place: int, size: int) -> None:
    thread = threading.get_ident()
    for counter in _counters:
        if counter.thread == thread:
            counter.note(place, size)


def _forget(place: int) -> None:
    for counter in _counters:
        counter.forget(place)


def _counting_functions(own: Any) -> _Functions:
    """Functions that count and call *own*."""

    def malloc(_: int | None, size: int) -> int | None:
        place: int | None = own.malloc(own.ctx, size)
        if place and _counters:
            _note(place, size)
        return place

    def calloc(_: int | None, count: int, size: int) -> int | None:
        place: int | None = own.calloc(own.ctx, count, size)
        if place and _counters:
            _note(place, count * size)
        return place

    def realloc(_: int | None, old: int | None, size: int) -> int | None:
        place: int | None = own.realloc(own.ctx, old, size)
        if place and _counters:
            _forget(old or 0)
            _note(place, size)
        return place

    def free(_: int | None, place: int | None, size: int) -> None:
        if place and _counters:
            _forget(place)
        own.free(own.ctx, place, size)

    return _Functions(None, _MALLOC(malloc), _CALLOC(calloc), _REALLOC(realloc), _FREE(free))


class _Switch(NamedTuple):
    set_handler: Any
    own: _Handler
    ours: _Handler
    our_capsule: Any
    counting: _Functions


@functools.cache
def _switch() -> _Switch:
    """Numpy's handler and ours, each with the capsule that numpy passes around."""
    table: Any = importlib.import_module("numpy._core._multiarray_umath")
    pointer, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    pointer.restype, pointer.argtypes = c_void_p, (py_object, ctypes.c_char_p)
    new.restype, new.argtypes = py_object, (c_void_p, c_void_p, c_void_p)
    functions = ctypes.cast(pointer(table._ARRAY_API, None), ctypes.POINTER(c_void_p))  # noqa: SLF001 - numpy's C API
    set_handler = PYFUNCTYPE(py_object, py_object)(functions[_SET_HANDLER] or 0)
    own_capsule = PYFUNCTYPE(py_object)(functions[_GET_HANDLER] or 0)()
    own = _Handler.from_address(pointer(own_capsule, _CAPSULE_NAME.value))
    ours = _Handler(b"counting", 1, own.functions)
    capsule = new(ctypes.addressof(ours), ctypes.addressof(_CAPSULE_NAME), None)
    return _Switch(set_handler, own, ours, capsule, _counting_functions(own.functions))


@contextlib.contextmanager
def numpy_memory() -> Iterator[NumpyMemory]:
    """Count what numpy allocates in this thread from here on; arrays that exist already are not counted.

    Raises:
        ImportError, AttributeError: This Python or numpy has no such hooks.
    """
    switch = _switch()
    memory = NumpyMemory()
    _counters.append(memory)
    switch.ours.functions = switch.counting
    before = switch.set_handler(switch.our_capsule)
    try:
        yield memory
    finally:
        switch.set_handler(before)
        _counters.remove(memory)
        if not _counters:
            switch.ours.functions = switch.own.functions
