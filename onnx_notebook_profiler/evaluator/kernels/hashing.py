"""com.microsoft's MurmurHash3: the 32-bit variant of the hash, of each element by itself.

ContribOperators.md of onnxruntime; the algorithm is Austin Appleby's MurmurHash3_x86_32. Elements go through the mixing
steps together, one word of four bytes after the other; only long strings by themselves. Scratch: a few arrays of a
block of elements, for strings a matrix of their bytes (4 MiB at most).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.errors import UnsupportedOperatorError
from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._shared import BLOCK, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["MurmurHash3"]

_WORD: Final = np.dtype("<u4")
_LONG: Final = 256
"""Bytes from which on a string goes by itself: a step for all costs as much as some fifty for one."""

_FIRST: Final = np.uint32(0xCC9E2D51)
_SECOND: Final = np.uint32(0x1B873593)
_ADDED: Final = 0xE6546B64
_ALL: Final = 0xFFFFFFFF
_FINAL: Final = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))


def _rotated(x: Array, bits: int) -> Array:
    turned: Array = (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
    return turned


def _scrambled(words: Array) -> Array:
    """What each word contributes to its hash."""
    scrambled: Array = _rotated(words * _FIRST, 15) * _SECOND
    return scrambled


def _finished(state: Array, lengths: Array) -> Array:
    state ^= lengths.astype(_WORD)
    for shift, factor in _FINAL:
        state ^= state >> np.uint32(shift)
        state *= np.uint32(factor)
    return state


def _hashes(words: Array, lengths: Array | None, seed: int) -> Array:
    """Hashes [n] of the bytes in words [n, w]: all of them, or *lengths* [n] and zeros."""
    state = np.full(len(words), seed, _WORD)
    for number in range(words.shape[1]):
        rest = state ^ _scrambled(words[:, number])
        full = _rotated(rest, 13) * np.uint32(5) + np.uint32(_ADDED)
        if lengths is None:
            state = full
            continue
        left = lengths - 4 * number
        state = np.where(left >= 4, full, np.where(left > 0, rest, state))
    return _finished(state, np.array(4 * words.shape[1]) if lengths is None else lengths)


def _text_hashes(texts: Sequence[bytes], lengths: Array, seed: int) -> Array:
    """Hashes of strings that are not long, a numpy string of zeros and all for each."""
    width = max(4, -(-int(lengths.max()) // 4) * 4)
    joined = np.array(texts, f"S{width}")
    return _hashes(joined.view(_WORD).reshape(len(texts), -1), lengths, seed)


def _long_hash(text: bytes, seed: int) -> int:
    """The hash of one string: what its words contribute, folded in plain integers."""
    state, whole = seed, len(text) // 4
    for start in range(0, whole, BLOCK):
        words = np.frombuffer(text, _WORD, min(BLOCK, whole - start), start * 4)
        for word in _scrambled(words).tolist():
            state ^= word
            state = (((state << 13) | (state >> 19)) & _ALL) * 5 + _ADDED & _ALL
    if len(text) % 4:
        last = np.frombuffer(text[whole * 4 :].ljust(4, b"\0"), _WORD)
        state ^= int(_scrambled(last)[0])
    return int(_finished(np.full(1, state, _WORD), np.array([len(text)]))[0])


@register("MurmurHash3", since_version=1, domain="com.microsoft")
class MurmurHash3(Kernel):
    """X [...] -> hashes [...], uint32 or, where ``positive`` is 0, int32."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        self._seed = int(spec.attributes.get("seed", 0)) & _ALL
        self._type = np.dtype(np.uint32 if spec.attributes.get("positive", 1) else np.int32)

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """X's shape."""
        (x,) = operands(self.spec, inputs, 1)
        if x.dtype.kind not in "OUS" and x.dtype.itemsize not in {4, 8}:
            raise UnsupportedOperatorError(
                f"MurmurHash3 of elements of {x.dtype.itemsize} bytes ({x.dtype})"
            )
        return (TensorSpec(x.shape, self._type),)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Block by block."""
        x, target = inputs[0].reshape(-1), outputs[0].reshape(-1).view(np.uint32)
        for start in range(0, x.size, BLOCK):
            part = x[start : start + BLOCK]
            if x.dtype.kind in "OUS":
                self._hash_texts(part.tolist(), target[start : start + BLOCK])
                continue
            words = part.view(_WORD).reshape(-1, x.itemsize // 4)
            target[start : start + BLOCK] = _hashes(words, None, self._seed)

    def _hash_texts(self, texts: Sequence[str | bytes], target: Array) -> None:
        """Long strings by themselves, the others together."""
        found = [
            text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
            for text in texts
        ]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        long = np.flatnonzero(lengths > _LONG).tolist()
        for number in long:
            target[number], found[number] = _long_hash(found[number], self._seed), b""
        if len(long) < len(found):
            short = lengths <= _LONG
            lengths[long] = 0
            np.copyto(target, _text_hashes(found, lengths, self._seed), where=short)
