"""The child process that tries limits on the real runtime: ``python -m onnx_notebook_profiler.ort.limit_trial FOLDER``.

It reads ``FOLDER/job.json`` and writes ``FOLDER/answer.json``; :mod:`~onnx_notebook_profiler.ort.limit_trials` writes
the one and reads the other. Every limit gets an arena of its own on the environment (onnxruntime 1.23 and newer), and a
session that asks that arena.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["main"]


def _register(settings: Mapping[str, int]) -> None:
    import onnxruntime

    info = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    onnxruntime.create_and_register_allocator(info, onnxruntime.OrtArenaCfg(dict(settings)))


def _session(job: Mapping[str, Any]) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = job["pattern"]
    if not job["optimized"]:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.use_env_allocators", "1")
    for key, value in job["config"].items():
        options.add_session_config_entry(key, value)
    model = Path(job["model"]).read_bytes()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _feeds(folder: Path, kinds: list[Mapping[str, Any]]) -> dict[str, Any]:
    feeds = {}
    for kind in kinds:
        if "strings" in kind:
            texts = np.array(kind["strings"], dtype=object)
            feeds[kind["name"]] = texts.reshape(kind["shape"])
        else:
            feeds[kind["name"]] = np.load(folder / kind["file"])
    return feeds


def _try(job: Mapping[str, Any], limit: int, runs: list[dict[str, Any]]) -> str:
    """What the runtime says under this limit; empty where all runs went through."""
    _register({**job["settings"], "max_mem": limit})
    try:
        session = _session(job)
        for feeds in runs:
            session.run(None, feeds)
    except Exception as error:  # noqa: BLE001 - its classes differ from version to version
        return str(error) or type(error).__name__
    return ""


def main(folder: Path) -> None:
    """Try the limits in *folder*, in order."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    runs = [_feeds(folder, kinds) for kinds in job["feeds"]]
    order = [runs[at] for at in job["runs"]]
    answers = [_try(job, limit, order) for limit in job["limits"]]
    import onnxruntime

    text = json.dumps({"version": onnxruntime.__version__, "answers": answers})
    (folder / "answer.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
