"""The child process of a trace: it owns onnxruntime's library, so that a fault in there ends no notebook.

``python -m onnx_notebook_profiler.ort.tracer FOLDER`` reads ``FOLDER/jobs.json``, writes one ``answer.NUMBER.json`` for
each job and imports neither onnx nor onnxruntime. :mod:`~onnx_notebook_profiler.ort.tracing` writes the one and reads
the other.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_notebook_profiler.ort.c_api import CApi, Status, find_library
from onnx_notebook_profiler.ort.recording_allocator import RecordingAllocator

__all__ = ["main"]

_STRING = 8
"""TensorProto code of strings."""

Job = Mapping[str, Any]


class _Runtime:
    """The library, with one environment whose sessions ask a recording allocator."""

    def __init__(self) -> None:
        self.api = CApi(find_library())
        self.environment = self.api.make("CreateEnv", 4, b"trace")
        self.info = self.api.make("CreateCpuMemoryInfo", 0, 0)
        self.plain = self.api.make("GetAllocatorWithDefaultOptions")
        self.allocator = RecordingAllocator(self.api, self.environment, self.info)

    def session(self, job: Job) -> ctypes.c_void_p:
        """A session of the job's model; the caller releases it."""
        api = self.api
        options = api.make("CreateSessionOptions")
        try:
            api.call("SetSessionLogSeverityLevel", options, 4)
            api.call("SetSessionGraphOptimizationLevel", options, job["level"])
            api.call("SetSessionExecutionMode", options, int(job["parallel"]))
            api.call("SetIntraOpNumThreads", options, job["threads"])
            if not job["pattern"]:
                api.call("DisableMemPattern", options)
            if job["profile"]:
                api.call("EnableProfiling", options, job["profile"].encode())
            if job["saved"]:
                api.call("SetOptimizedModelFilePath", options, job["saved"].encode())
            for key, value in job["config"].items():
                api.call("AddSessionConfigEntry", options, key.encode(), value.encode())
            model = Path(job["model"]).read_bytes()
            size = ctypes.c_size_t(len(model))
            return api.make("CreateSessionFromArray", self.environment, model, size, options)
        finally:
            api.release("SessionOptions", options)

    def value(self, kind: Mapping[str, Any], data: Any) -> ctypes.c_void_p:
        """A tensor over the bytes in *data*, or one of strings."""
        shape = (ctypes.c_int64 * len(kind["shape"]))(*kind["shape"])
        rank = ctypes.c_size_t(len(kind["shape"]))
        if kind["code"] == _STRING:
            made = self.api.make("CreateTensorAsOrtValue", self.plain, shape, rank, _STRING)
            texts = [text.encode(errors="surrogateescape") for text in kind["strings"]]
            held = (ctypes.c_char_p * len(texts))(*texts)
            self.api.call("FillStringTensor", made, held, ctypes.c_size_t(len(texts)))
            return made
        address, size = ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes)
        return self.api.make(
            "CreateTensorWithDataAsOrtValue", self.info, address, size, shape, rank, kind["code"]
        )

    def end_profiling(self, session: ctypes.c_void_p) -> str:
        """Where the profile was written."""
        place = self.api.make("SessionEndProfiling", session, self.plain)
        path = ctypes.string_at(place.value or 0).decode()
        self.api.call("AllocatorFree", self.plain, place)
        return path


class _Inputs:
    """Feeds as the library takes them, and the call of a run on them."""

    def __init__(self, runtime: _Runtime, kinds: Sequence[Mapping[str, Any]], job: Job) -> None:
        self._api = runtime.api
        self._arrays: list[Any] = []  # the library reads their bytes
        self._values = []
        for kind in kinds:
            self._arrays.append(np.load(kind["file"]) if "file" in kind else None)
            self._values.append(runtime.value(kind, self._arrays[-1]))
        count, outputs = len(kinds), job["outputs"]
        self._results = (ctypes.c_void_p * len(outputs))()
        self._args = (
            None,
            (ctypes.c_char_p * count)(*[kind["name"].encode() for kind in kinds]),
            (ctypes.c_void_p * count)(*[value.value for value in self._values]),
            ctypes.c_size_t(count),
            (ctypes.c_char_p * len(outputs))(*[name.encode() for name in outputs]),
            ctypes.c_size_t(len(outputs)),
            self._results,
        )

    def run(self, session: ctypes.c_void_p) -> None:
        self._api.call("Run", session, *self._args)

    def release_results(self) -> None:
        for at, made in enumerate(self._results):
            self._api.release("Value", made)
            self._results[at] = None

    def release(self) -> None:
        self.release_results()
        for value in self._values:
            self._api.release("Value", value)


def _answer(runtime: _Runtime, job: Job) -> dict[str, Any]:
    """Do one job; what fails is told in ``error``, with the rows so far."""
    answer: dict[str, Any] = {"version": runtime.api.version, "runs": [], "error": "", "begin": 0}
    runtime.allocator.taken()
    session = None
    fed: list[_Inputs] = []
    before = _clocks()
    try:
        session = runtime.session(job)
        answer["made"] = runtime.allocator.taken()
        if job["profile"]:
            answer["begin"] = _begin(runtime, session, before)
        fed = [_Inputs(runtime, kinds, job) for kinds in job["feeds"]]
        for at in job["runs"]:
            answer["runs"].append(_run(runtime, session, fed[at]))
            if answer["runs"][-1]["error"]:
                answer["error"] = answer["runs"][-1]["error"]
                break
        if job["profile"]:
            answer["profile"] = runtime.end_profiling(session)
    except Status as error:
        answer["error"] = str(error)
    for inputs in fed:
        inputs.release()
    runtime.api.release("Session", session)
    return answer


def _run(runtime: _Runtime, session: ctypes.c_void_p, inputs: _Inputs) -> dict[str, Any]:
    error = ""
    began = time.time_ns()
    try:
        inputs.run(session)
    except Status as status:
        error = str(status)
    ended = time.time_ns()
    inputs.release_results()
    rows = runtime.allocator.taken()
    return {"began": began, "ended": ended, "rows": rows, "error": error}


def _clocks() -> dict[str, int]:
    """The clocks that a profile may be counted from, at this instant."""
    clocks: dict[str, Callable[[], int]] = {
        "epoch": time.time_ns,
        "monotonic": time.monotonic_ns,
        "counter": time.perf_counter_ns,
    }
    if hasattr(time, "CLOCK_MONOTONIC_RAW"):
        clocks["raw"] = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    return {name: clock() for name, clock in clocks.items()}


def _begin(runtime: _Runtime, session: ctypes.c_void_p, before: Mapping[str, int]) -> int | None:
    """When the profile began, in ns of :func:`time.time_ns`; None where its clock is none that is known."""
    begin = ctypes.c_uint64()
    runtime.api.call("SessionGetProfilingStartTimeNs", session, ctypes.byref(begin))
    after = _clocks()
    for name, time_after in after.items():
        if before[name] <= begin.value <= time_after:
            return begin.value - time_after + after["epoch"]
    return None


def main(folder: Path) -> None:
    """Do the jobs in *folder*, in order."""
    runtime = _Runtime()
    jobs = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would take longer than a node
    for number, job in enumerate(jobs):
        text = json.dumps(_answer(runtime, job))
        (folder / f"answer.{number}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
