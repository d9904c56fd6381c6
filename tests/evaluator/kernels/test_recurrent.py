"""LSTM, GRU and RNN against onnxruntime, over directions, lengths, initial states, clips and activations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.evaluator.kernels.harness import run
from tests.evaluator.kernels.one_node import by_both

S, B, WIDTH, H = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clip": {"clip": 0.5},
    "other": {},
}

ALL_ACTIVATIONS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"), ()),
    **dict.fromkeys(("LeakyRelu", "ThresholdedRelu", "Elu"), (0.3,)),
    **dict.fromkeys(("Affine", "ScaledTanh", "HardSigmoid"), (0.4, 0.2)),
}


def normal(seed: int, *shape: int) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.6).astype(np.float32)


def attributes(op: str, directions: int, variant: str) -> dict[str, Any]:
    if variant != "other":
        return VARIANTS[variant]
    if op == "GRU":
        return {"linear_before_reset": 1}
    if op == "LSTM":
        return {"input_forget": 1, "activations": ["HardSigmoid", "Softsign", "Elu"] * directions}
    return {"activations": ["LeakyRelu"] * directions, "activation_alpha": [0.3] * directions}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_as_onnxruntime(op: str, direction: str, variant: str) -> None:
    directions, gates = 1 + (direction == "bidirectional"), GATES[op]
    choices = (None, np.array([5, 2, 3], np.int32), np.array([4, 0, 1], np.int32))
    for lengths, states in itertools.product(choices, (False, True)):
        inputs = [
            normal(1, S, B, WIDTH),
            normal(2, directions, gates * H, WIDTH),
            normal(3, directions, gates * H, H),
            normal(4, directions, 2 * gates * H),
            lengths,
            normal(5, directions, B, H) if states else None,
        ]
        if op == "LSTM" and states:
            inputs += [normal(6, directions, B, H)]
            inputs += [normal(7, directions, 3 * H)] if variant != "other" else []
        while inputs[-1] is None:
            inputs.pop()
        ours, theirs = by_both(
            op,
            *inputs,
            outputs=3 if op == "LSTM" else 2,
            hidden_size=H,
            direction=direction,
            **attributes(op, directions, variant),
        )
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
def test_the_batch_first_layout_is_the_other_one_transposed(op: str) -> None:
    gates = GATES[op]
    x, w, r = normal(1, S, B, WIDTH), normal(2, 2, gates * H, WIDTH), normal(3, 2, gates * H, H)
    h = normal(5, 2, B, H)
    common: dict[str, Any] = {"hidden_size": H, "direction": "bidirectional", "outputs": 2}
    y, last = run(op, x, w, r, None, None, h, **common)
    turned = (x.swapaxes(0, 1).copy(), w, r, None, None, h.swapaxes(0, 1).copy())
    other, other_last = run(op, *turned, layout=1, **common)
    np.testing.assert_allclose(other, y.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(other_last, last.swapaxes(0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL_ACTIVATIONS)
@pytest.mark.parametrize("op", GATES)
def test_activations_with_their_parameters(op: str, name: str) -> None:
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op] * 2
    gates, parameters = GATES[op], ALL_ACTIVATIONS[name]
    given: dict[str, Any] = {
        key: [value] * count
        for key, value in zip(("activation_alpha", "activation_beta"), parameters, strict=False)
    }
    ours, theirs = by_both(
        op,
        *(normal(1, S, B, WIDTH), normal(2, 2, gates * H, WIDTH), normal(3, 2, gates * H, H)),
        outputs=2,
        hidden_size=H,
        direction="bidirectional",
        activations=[name] * count,
        clip=3.0,
        **given,
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
def test_large_sums_saturate(op: str) -> None:
    gates = GATES[op]
    x, w, r = normal(1, S, B, WIDTH), normal(2, 1, gates * H, WIDTH), normal(3, 1, gates * H, H)
    ours, theirs = by_both(op, x * 1000, w, r, outputs=2, hidden_size=H)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (3, np.zeros((1, 5), np.float32), "B of shape"),
        (4, np.array([6, 1, 1], np.int32), "from 0 to 5"),
        (4, np.array([-1, 1, 1], np.int32), "from 0 to 5"),
        (4, np.array([1], np.int32), "sequence_lens of shape"),
        (5, np.zeros((1, 1, H), np.float32), "initial_h of shape"),
        (6, np.zeros((B, H), np.float32), "initial_c of shape"),
        (7, np.zeros((1, H), np.float32), "P of shape"),
    ],
)
def test_inputs_that_do_not_fit_are_named(position: int, value: Any, words: str) -> None:
    inputs: list[Any] = [
        *(normal(1, S, B, WIDTH), normal(2, 1, 4 * H, WIDTH), normal(3, 1, 4 * H, H)),
        *[None] * 5,
    ]
    inputs[position] = value
    with pytest.raises(ValueError, match=words):
        run("LSTM", *inputs, hidden_size=H)


def test_half_precision_is_rounded_once_at_the_end() -> None:
    x, w, r = normal(1, S, B, WIDTH), normal(2, 1, 4 * H, WIDTH), normal(3, 1, 4 * H, H)
    wide = run(
        "LSTM", *(one.astype(np.float16).astype(np.float32) for one in (x, w, r)), hidden_size=H
    )
    narrow = run("LSTM", *(one.astype(np.float16) for one in (x, w, r)), hidden_size=H)
    assert narrow.dtype == np.float16
    np.testing.assert_array_equal(narrow, wide.astype(np.float16))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"direction": "up"}, "forward, reverse or bidirectional"),
        ({"activations": ["Sin", "Tanh", "Tanh"]}, "not 'Sin'"),
        ({"activations": ["Tanh"]}, "3 activations"),
        ({"hidden_size": 7}, "do not fit"),
    ],
)
def test_bad_attributes(change: Any, words: str) -> None:
    given = {"hidden_size": H, **change}
    with pytest.raises(ValueError, match=words):
        run(
            "LSTM",
            normal(1, S, B, WIDTH),
            normal(2, 1, 4 * H, WIDTH),
            normal(3, 1, 4 * H, H),
            **given,
        )
