"""Models that other people made, on every choice of kernels, against unoptimised onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.model import generate_feed, graph_inputs, load_model
from tests.models import packaged_model
from tests.oracles import ort

SIZES = {
    "magika": (1, 2048),
    "silero": (1, 512),
    "minilm": (2, 9),
}


def feeds_of(model: Any, name: str) -> dict[str, Any]:
    """Random numbers for floats, the generated values for everything else."""
    rng = np.random.default_rng(7)
    feeds = {}
    for value in graph_inputs(model.graph):
        dims = value.type.tensor_type.shape.dim
        shape = tuple(
            dim.dim_value or (SIZES[name][axis] if len(dims) == 2 else 1)
            for axis, dim in enumerate(dims)
        )
        feed = generate_feed(value, shape)
        if feed.dtype == np.float32:
            feed = (rng.standard_normal(shape) * 0.1).astype(np.float32)
        if feed.dtype == np.int64 and name == "minilm":
            feed = rng.integers(0, 2, shape)
        if feed.dtype == np.int64 and not shape:
            feed = np.array(16000)
        feeds[value.name] = feed
    return feeds


@pytest.mark.parametrize("kernels", ["numpy", "auto", "onnxruntime"])
@pytest.mark.parametrize("name", SIZES)
def test_as_onnxruntime(name: Any, kernels: Any) -> None:
    model = load_model(packaged_model(name)).proto
    feeds = feeds_of(model, name)
    session = onp.ReferenceEvaluator(model, kernels=kernels, events_enabled=True)
    expected = ort(model, feeds)
    for one, other in zip(session.run(None, feeds), expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)
    ran = {event.tier for event in session.events() if event.tier}
    assert ran == ({"own", "onnxruntime"} if kernels == "onnxruntime" else {"own"})
