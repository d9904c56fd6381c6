"""onnx's own runner of its simple, PyTorch and real-model cases, through a backend of the usual form.

The node cases have a file of their own, which looks at memory, too. Real models are the light ones that onnx ships:
their weights are constant, so that they say little about numbers and much about whether a model runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.reference import ReferenceEvaluator

# onnx.reference has no Gradient either: it differentiates the graph around it, which is training's business.
EXCLUDED = ("test_gradient_of_add_cpu", "test_gradient_of_add_and_mul_cpu")


class _Prepared(BackendRep):
    def __init__(self, session: ReferenceEvaluator) -> None:
        super().__init__()
        self._session = session

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[Any, ...]:
        feeds = dict(zip(self._session.input_names, inputs, strict=False))
        return tuple(self._session.run(None, feeds))


class EvaluatorBackend(Backend):
    """The evaluator on numpy alone, as onnx's tests call it."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **_: Any) -> BackendRep:
        assert cls.supports_device(device)
        return _Prepared(ReferenceEvaluator(model, kernels="numpy"))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def _collect() -> dict[str, Any]:
    """The runner's classes but for the node cases, without the tests for devices that we do not claim."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose while they are made
        found = BackendTest(EvaluatorBackend, __name__).test_cases
    classes = {name: case for name, case in found.items() if "Node" not in name}
    for case in classes.values():
        for name in [name for name in vars(case) if name.endswith("_cuda")]:
            delattr(case, name)
        case.pytestmark = [pytest.mark.filterwarnings("ignore")]  # type: ignore[attr-defined]
    return classes


CASES = _collect()
EXCLUDED_TESTS = {
    name: vars(case)[name] for case in CASES.values() for name in EXCLUDED if name in vars(case)
}
for case in CASES.values():
    for name in [name for name in EXCLUDED if name in vars(case)]:
        delattr(case, name)
globals().update(CASES)
del case


@pytest.mark.parametrize("name", EXCLUDED)
def test_what_is_left_out_still_cannot_run(name: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match="Gradient"):
        EXCLUDED_TESTS[name](CASES["OnnxBackendSimpleModelTest"]())


def test_the_cases_are_found() -> None:
    counts = {
        kind: sum(name.startswith("test_") for name in vars(case)) for kind, case in CASES.items()
    }
    assert counts["OnnxBackendSimpleModelTest"] >= 20
    assert counts["OnnxBackendPyTorchConvertedModelTest"] >= 50
    assert counts["OnnxBackendPyTorchOperatorModelTest"] >= 20
    assert counts["OnnxBackendRealModelTest"] >= 8
