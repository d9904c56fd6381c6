"""RotaryEmbedding of both domains, and com.microsoft's GemmaRotaryEmbedding.

https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html and ContribOperators.md of onnxruntime. float16 and bfloat16
are computed in float32 and rounded once. Scratch: see ``_rotary.py``; the angles of all positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from onnx_notebook_profiler.evaluator.kernel import Array, Kernel, NodeSpec, TensorSpec
from onnx_notebook_profiler.evaluator.kernels._rotary import angles_at, rotate
from onnx_notebook_profiler.evaluator.kernels._shared import FLOAT32, given, operands
from onnx_notebook_profiler.evaluator.registry import register

__all__ = ["GemmaRotaryEmbedding", "RotaryEmbedding"]

_MS: Final = "com.microsoft"


@register("RotaryEmbedding", since_version=23)
@register("RotaryEmbedding", since_version=1, domain=_MS)
class RotaryEmbedding(Kernel):
    """X [B, H, S, D] or [B, S, H D], turned by the angles of its positions.

    com.microsoft's has the positions as its second input, one number for a whole batch that starts there.
    """

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(spec)
        attributes = spec.attributes
        self._foreign = spec.domain == _MS
        self._heads = int(attributes.get("num_heads", 0))
        self._size = int(attributes.get("rotary_embedding_dim", 0))
        self._interleaved = bool(attributes.get("interleaved", 0))

    def _parts(self, inputs: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Cosines, sines, positions."""
        if self._foreign:
            places, cos, sin = inputs[1:4]
        else:
            cos, sin, places = inputs[1], inputs[2], given(inputs, 3)
        return cos, sin, places

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As X."""
        x = operands(self.spec, inputs, 4 if self._foreign else 3)[0]
        if x.ndim not in {3, 4}:
            raise ValueError(f"RotaryEmbedding expects X of rank 3 or 4, got {list(x.shape)}")
        cos, sin, places = self._parts(inputs)
        size = self._head_size(x, cos)
        turned = self._size or size
        if turned > size or turned % 2 or cos.shape[-1] != turned // 2 or cos.shape != sin.shape:
            raise ValueError(
                f"RotaryEmbedding: heads of {size} numbers, {turned} of them turned, do not fit "
                f"cos_cache {list(cos.shape)} and sin_cache {list(sin.shape)}"
            )
        batch, length = x.shape[0], x.shape[2] if x.ndim == 4 else x.shape[1]
        one = self._foreign and places is not None and places.size == 1
        found = cos.shape[:2] if places is None else places.shape
        if (cos.ndim != (3 if places is None else 2)) or (found != (batch, length) and not one):
            raise ValueError(
                f"RotaryEmbedding expects an angle for each of [{batch}, {length}] positions, got those of "
                f"{list(found)} in cos_cache {list(cos.shape)}"
            )
        return (TensorSpec(x.shape, x.dtype),)

    def _head_size(self, x: Array, cos: Array) -> int:
        """The numbers of one head.

        Raises:
            ValueError: The heads are not given, or do not divide the last axis.
        """
        if x.ndim == 4:
            return int(x.shape[3])
        heads = self._heads
        if not heads and self._foreign and not self._size:
            heads = x.shape[2] // max(2 * cos.shape[-1], 1)
        if heads < 1 or x.shape[2] % heads:
            raise ValueError(
                f"RotaryEmbedding: num_heads {heads} does not divide the last axis of {list(x.shape)}"
            )
        return int(x.shape[2] // heads)

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Pick the angles, turn the pairs."""
        x, (y,) = inputs[0], outputs
        cos, sin, places = self._parts(inputs)
        length = x.shape[2] if x.ndim == 4 else x.shape[1]
        if places is not None:
            if self._foreign and places.size == 1:
                places = np.arange(length)[None] + places.reshape(1, 1)
            cos, sin = angles_at(cos, places), angles_at(sin, places)
        if x.ndim == 4:
            source, target = x.transpose(0, 2, 1, 3), y.transpose(0, 2, 1, 3)
        else:
            size = self._head_size(x, cos)
            shape = (*x.shape[:2], x.shape[2] // max(size, 1), size)
            source, target = x.reshape(shape), y.reshape(shape)
        rotate(source, target, cos, sin, interleaved=self._interleaved)


@register("GemmaRotaryEmbedding", since_version=1, domain=_MS)
class GemmaRotaryEmbedding(Kernel):
    """emb [B, S, D], q, q_rot, k, k_rot [B, H, S, D] -> q cos(emb) + q_rot sin(emb), and so for k.

    The angles' cosines and sines are rounded to float16, as the products are, in which the operator computes.
    """

    def infer(self, inputs: Sequence[Array | None]) -> Sequence[TensorSpec]:
        """As q and k."""
        emb, q, q_rot, k, k_rot = operands(self.spec, inputs, 5)
        fits = emb.ndim == 3 and q.ndim == 4 and k.ndim == 4
        expected = (emb.shape[0], *emb.shape[1:]) if fits else ()
        if (
            not fits
            or q_rot.shape != q.shape
            or k_rot.shape != k.shape
            or any((one.shape[0], *one.shape[2:]) != expected for one in (q, k))
        ):
            raise ValueError(
                f"GemmaRotaryEmbedding: emb {list(emb.shape)}, q {list(q.shape)}, q_rot {list(q_rot.shape)}, "
                f"k {list(k.shape)}, k_rot {list(k_rot.shape)} do not fit"
            )
        return (TensorSpec(q.shape, q.dtype), TensorSpec(k.shape, k.dtype))[: len(self.spec.wanted)]

    def compute(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Item by item."""
        emb, *rest = inputs[:5]
        kind = rest[0].dtype
        for item in range(emb.shape[0]):
            cos, sin = (
                function(emb[item]).astype(kind).astype(FLOAT32) for function in (np.cos, np.sin)
            )
            for position, y in enumerate(outputs):
                if y is None:
                    continue
                x, other = rest[2 * position][item], rest[2 * position + 1][item]
                straight = (x.astype(FLOAT32) * cos).astype(kind).astype(FLOAT32)
                crossed = (other.astype(FLOAT32) * sin).astype(kind)
                y[item] = straight + crossed
