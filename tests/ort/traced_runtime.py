"""The real onnxruntime under an allocator that writes down each request: what it did, to compare rules with.

Run as a script it is the child process that owns the library: a fault there ends no test run.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Places in the C API's table, which only grows (onnxruntime_c_api.h).
_PLACES = {
    "GetErrorMessage": 2,
    "CreateEnv": 3,
    "CreateSession": 7,
    "Run": 9,
    "CreateSessionOptions": 10,
    "SetOptimizedModelFilePath": 11,
    "EnableProfiling": 14,
    "SetSessionGraphOptimizationLevel": 23,
    "SetIntraOpNumThreads": 24,
    "CreateTensorAsOrtValue": 48,
    "CreateTensorWithDataAsOrtValue": 49,
    "FillStringTensor": 52,
    "CreateCpuMemoryInfo": 69,
    "GetAllocatorWithDefaultOptions": 78,
    "ReleaseStatus": 93,
    "ReleaseSession": 95,
    "ReleaseValue": 96,
    "SessionEndProfiling": 110,
    "AddSessionConfigEntry": 130,
    "RegisterAllocator": 176,
}
_API_VERSION = 20


@dataclasses.dataclass(frozen=True)
class Traced:
    """What the runtime did with one model."""

    ran: tuple[tuple[str, int], ...]
    """Name and number of each node, as they ran."""
    runs: tuple[tuple[tuple[str, int, int], ...], ...]
    """For each run its requests: (alloc, address, bytes) and (free, address, bytes)."""
    reserved: tuple[int, ...]
    """Bytes of each request while the session was made."""
    saved: Path
    """The model that the session ran, as it saved it; only where it optimized."""
    error: str = ""

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the nodes as they ran."""
        return tuple(name for name, _ in self.ran)


def library() -> Path | None:
    """The shared library inside the installed wheel; None where there is none that is known to work."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None or not sys.platform.startswith("linux"):
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("capi/libonnxruntime.so.*"))), None)


def trace(
    folder: Path,
    models: Sequence[tuple[bytes | Path, Sequence[Mapping[str, Array]]]],
    level: int = 0,
) -> list[Traced]:
    """Run each model once for each of its feeds, one thread; all in one child process.

    *level* is that of the graph's optimization: 0 none, 99 all.
    """
    jobs = []
    for number, (model, feeds) in enumerate(models):
        path = model if isinstance(model, Path) else folder / f"{number}.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        for run, one in enumerate(feeds):
            np.savez(folder / f"{number}.{run}.npz", **one)  # type: ignore[arg-type]
        jobs.append((str(path), len(feeds)))
    (folder / "jobs.json").write_text(json.dumps({"models": jobs, "level": level}))
    done = subprocess.run(
        [sys.executable, __file__, str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = [folder / f"{number}.json" for number in range(len(jobs))]
    assert all(path.exists() for path in found), done.stderr[-2000:]
    return [_read(path) for path in found]


def _read(path: Path) -> Traced:
    answer = json.loads(path.read_text())
    return Traced(
        tuple((name, number) for name, number in answer["ran"]),
        tuple(tuple((kind, at, size) for kind, at, size in run) for run in answer["runs"]),
        tuple(answer["reserved"]),
        path.with_suffix(".saved.onnx"),
        answer["error"],
    )


# the child


class _Library:
    """The C API with errors as exceptions, and one environment whose allocator records."""

    def __init__(self) -> None:
        path = library()
        assert path is not None
        base = ctypes.CDLL(str(path)).OrtGetApiBase
        base.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(base()[0])
        self.table = ctypes.cast(get_api(_API_VERSION), ctypes.POINTER(ctypes.c_void_p))
        self.events: list[tuple[str, int, int]] = []
        self.env = self.make("CreateEnv", 4, b"trace")
        self.info = self.make("CreateCpuMemoryInfo", 0, 0)
        self.plain = self.make("GetAllocatorWithDefaultOptions")
        self._register()

    def function(self, name: str, result: Any) -> Any:
        return ctypes.CFUNCTYPE(result)(self.table[_PLACES[name]])

    def call(self, name: str, *args: Any) -> None:
        status = self.function(name, ctypes.c_void_p)(*args)
        if status:
            message = self.function("GetErrorMessage", ctypes.c_char_p)(ctypes.c_void_p(status))
            text = message.decode(errors="replace")
            self.function("ReleaseStatus", None)(ctypes.c_void_p(status))
            raise RuntimeError(text)

    def make(self, name: str, *args: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(name, *args, ctypes.byref(made))
        return made

    def _register(self) -> None:
        c = ctypes.CDLL(None)
        c.aligned_alloc.restype, c.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
        c.free.argtypes = [ctypes.c_void_p]
        live: dict[int, int] = {}
        take_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        free_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        info_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

        def allocate(_: int, size: int) -> int | None:
            if size == 0:
                return None
            address = int(c.aligned_alloc(64, (size + 127) // 64 * 64))
            live[address] = size
            self.events.append(("alloc", address, size))
            return address

        def free(_: int, address: int | None) -> None:
            if address:
                self.events.append(("free", address, live.pop(address)))
                c.free(address)

        class Table(ctypes.Structure):
            _fields_ = (
                ("version", ctypes.c_uint32),
                ("alloc", take_type),
                ("free", free_type),
                ("info", info_type),
                ("reserve", take_type),
                *((name, ctypes.c_void_p) for name in ("stats", "on_stream", "shrink")),
            )

        take = take_type(allocate)
        # What the library calls must live as long as the environment does.
        self.allocator = Table(
            18, take, free_type(free), info_type(lambda _: self.info.value), take
        )
        self.call("RegisterAllocator", self.env, ctypes.byref(self.allocator))

    def session(self, path: str, place: Path, level: int) -> ctypes.c_void_p:
        options = self.make("CreateSessionOptions")
        self.call("SetIntraOpNumThreads", options, 1)
        self.call("SetSessionGraphOptimizationLevel", options, level)
        self.call("EnableProfiling", options, str(place.with_suffix(".profile")).encode())
        if level:
            saved = place.with_suffix(".saved.onnx")
            self.call("SetOptimizedModelFilePath", options, str(saved).encode())
        self.call("AddSessionConfigEntry", options, b"session.use_env_allocators", b"1")
        return self.make("CreateSession", self.env, path.encode(), options)

    def value(self, array: Array) -> ctypes.c_void_p:
        import onnx

        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        rank = ctypes.c_size_t(array.ndim)
        if array.dtype.kind == "U":
            made = self.make("CreateTensorAsOrtValue", self.plain, shape, rank, 8)
            texts = (ctypes.c_char_p * array.size)(*[str(one).encode() for one in array.ravel()])
            self.call("FillStringTensor", made, texts, ctypes.c_size_t(array.size))
            return made
        return self.make(
            "CreateTensorWithDataAsOrtValue",
            self.info,
            array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(array.nbytes),
            shape,
            rank,
            onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
        )

    def run(
        self, session: ctypes.c_void_p, feeds: Mapping[str, Array], outputs: Sequence[str]
    ) -> None:
        values = [self.value(array) for array in feeds.values()]
        names = (ctypes.c_char_p * len(feeds))(*[name.encode() for name in feeds])
        wanted = (ctypes.c_char_p * len(outputs))(*[name.encode() for name in outputs])
        results = (ctypes.c_void_p * len(outputs))()
        given = (ctypes.c_void_p * len(values))(*values)
        counts = ctypes.c_size_t(len(values)), ctypes.c_size_t(len(outputs))
        self.call("Run", session, None, names, given, counts[0], wanted, counts[1], results)
        for made in (*values, *results):
            self.function("ReleaseValue", None)(ctypes.c_void_p(getattr(made, "value", made)))


def _jobs(library: _Library, folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import onnx

    work = json.loads((folder / "jobs.json").read_text())
    for number, (path, runs) in enumerate(work["models"]):
        answer: dict[str, Any] = {"ran": [], "runs": [], "reserved": [], "error": ""}
        graph = onnx.load(path, load_external_data=False).graph
        feeds = []
        for run in range(runs):
            with np.load(folder / f"{number}.{run}.npz") as stored:
                feeds.append({name: np.array(stored[name], order="C") for name in stored.files})
        library.events.clear()
        try:
            session = library.session(path, folder / f"{number}.json", work["level"])
            answer["reserved"] = [size for kind, _, size in library.events if kind == "alloc"]
            for given in feeds:
                library.events.clear()
                library.run(session, given, [value.name for value in graph.output])
                answer["runs"].append(list(library.events))
            file = ctypes.c_char_p()
            library.call("SessionEndProfiling", session, library.plain, ctypes.byref(file))
            rows = json.loads(Path((file.value or b"").decode()).read_text())
            ran = [
                (row["name"].removesuffix("_kernel_time"), int(row["args"]["node_index"]))
                for row in rows
                if row["cat"] == "Node"
            ]
            answer["ran"] = ran[: len(ran) // runs]
            library.function("ReleaseSession", None)(session)
        except RuntimeError as error:
            answer["error"] = str(error)
        yield number, answer


if __name__ == "__main__":
    place = Path(sys.argv[1])
    for job, found in _jobs(_Library(), place):
        (place / f"{job}.json").write_text(json.dumps(found))
