"""The C API of the library inside the onnxruntime wheel, through ctypes: errors are exceptions, nothing is imported.

A fault in there ends the process: only :mod:`~onnx_notebook_profiler.ort.tracer`, a child, loads it.
Source: https://onnxruntime.ai/docs/api/c/struct_ort_api.html
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

from onnx_notebook_profiler.errors import MissingExtraError, OnnxRuntimeError

__all__ = ["CApi", "Status", "find_library"]

_API_VERSION: Final = 20
"""The table that is asked for: that of onnxruntime 1.20, which every later library has too."""

_PLACES: Final = {
    "GetErrorMessage": 2,
    "CreateEnv": 3,
    "CreateSessionFromArray": 8,
    "Run": 9,
    "CreateSessionOptions": 10,
    "SetOptimizedModelFilePath": 11,
    "SetSessionExecutionMode": 13,
    "EnableProfiling": 14,
    "DisableMemPattern": 17,
    "SetSessionLogSeverityLevel": 22,
    "SetSessionGraphOptimizationLevel": 23,
    "SetIntraOpNumThreads": 24,
    "SetInterOpNumThreads": 25,
    "CreateTensorAsOrtValue": 48,
    "CreateTensorWithDataAsOrtValue": 49,
    "FillStringTensor": 52,
    "CreateCpuMemoryInfo": 69,
    "AllocatorFree": 76,
    "GetAllocatorWithDefaultOptions": 78,
    "ReleaseStatus": 93,
    "ReleaseSession": 95,
    "ReleaseValue": 96,
    "ReleaseSessionOptions": 100,
    "SessionEndProfiling": 110,
    "AddSessionConfigEntry": 130,
    "SessionGetProfilingStartTimeNs": 146,
    "RegisterAllocator": 176,
}
"""Where a function stands in the table, to which new ones are only added."""


def find_library() -> Path:
    """The shared library of the installed wheel; onnxruntime is not imported.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        OnnxRuntimeError: There is no such library, or not on this platform.
    """
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "a trace needs onnxruntime, which is not installed: pip install onnx-notebook-profiler[onnxruntime]"
        )
    pattern = {"linux": "libonnxruntime.so.*", "darwin": "libonnxruntime.*dylib"}.get(sys.platform)
    if pattern is None:
        raise OnnxRuntimeError(
            f"a trace works on Linux and macOS, this is {sys.platform}: use backend='onnxruntime' without trace"
        )
    found = sorted((Path(spec.origin).parent / "capi").glob(pattern))
    if not found:
        raise OnnxRuntimeError(
            f"the installed onnxruntime has no {pattern} in its folder capi: install a wheel of 1.20 or newer from "
            f"PyPI, or use backend='onnxruntime' without trace"
        )
    return found[0]


class Status(Exception):  # noqa: N818 - the C API's own word
    """A call failed; the text is the library's."""


class CApi:
    """The functions of a library, by their names in the C API.

    Args:
        path: As :func:`find_library` gives it.

    Raises:
        OnnxRuntimeError: The library is older than 1.20.
    """

    def __init__(self, path: Path) -> None:
        base = ctypes.CDLL(str(path)).OrtGetApiBase
        base.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api, get_version = base()[0], base()[1]
        self.version: str = ctypes.CFUNCTYPE(ctypes.c_char_p)(get_version)().decode()
        table = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(get_api)(_API_VERSION)
        if not table:
            raise OnnxRuntimeError(
                f"a trace needs onnxruntime 1.20 or newer, found {self.version}: update it"
            )
        self._table = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))

    def function(self, name: str, result: Any = None) -> Any:
        """A function that returns *result*; arguments are ctypes objects, ints that fit an int, or bytes."""
        return ctypes.CFUNCTYPE(result)(self._table[_PLACES[name]])

    def call(self, name: str, *args: Any) -> None:
        """Call a function that returns a status.

        Raises:
            Status: It is not that of success.
        """
        status = self.function(name, ctypes.c_void_p)(*args)
        if status:
            held = ctypes.c_void_p(status)
            text = self.function("GetErrorMessage", ctypes.c_char_p)(held).decode(errors="replace")
            self.function("ReleaseStatus")(held)
            raise Status(text)

    def make(self, name: str, *args: Any) -> ctypes.c_void_p:
        """Call a function whose last argument is where it puts what it made."""
        made = ctypes.c_void_p()
        self.call(name, *args, ctypes.byref(made))
        return made

    def release(self, kind: str, held: ctypes.c_void_p | int | None) -> None:
        """Give back what was made; *kind* is ``Value``, ``Session`` or ``SessionOptions``."""
        value = held.value if isinstance(held, ctypes.c_void_p) else held
        if value:
            self.function(f"Release{kind}")(ctypes.c_void_p(value))
