"""The masks of com.microsoft's attention operators, in all their forms, as biases.

ContribOperators.md of onnxruntime and attention_helper.h there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array

__all__ = ["key_bias"]


def key_bias(mask: Array, queries: int, keys: int, batch: int, filtered: float) -> Array:
    """0 where *mask* allows a key, else *filtered*; float32, broadcasts to [B, H, S, T].

    One axis: numbers of keys [B], ends and starts [2 B], or numbers followed by offsets [3 B + 2]. Two: [B, T]. Three:
    [B, S, T]. Four: [B, 1, M, M], a square whose rows are all positions.

    Raises:
        ValueError: The mask's shape is none of these.
    """
    found: Array = np.subtract(1, _allowed(mask, queries, keys, batch), dtype=np.float32)
    np.multiply(found, np.float32(filtered), found)
    return found


def _allowed(mask: Array, queries: int, keys: int, batch: int) -> Any:
    places = np.arange(keys)
    shape = mask.shape
    if shape in {(batch,), (3 * batch + 2,)}:
        return (places < mask[:batch, None])[:, None, None]
    if shape == (2 * batch,):
        return ((places < mask[:batch, None]) & (places >= mask[batch:, None]))[:, None, None]
    if shape == (batch, keys):
        return (mask != 0)[:, None, None]
    if shape == (batch, queries, keys):
        return (mask != 0)[:, None]
    if mask.ndim == 4 and shape[0] in {1, batch} and shape[1] == 1 and min(shape[2:]) >= keys:
        return mask[:, :, keys - queries : keys, :keys] != 0
    raise ValueError(
        f"a mask {list(shape)} does not fit {batch} items of {queries} queries and {keys} keys"
    )
