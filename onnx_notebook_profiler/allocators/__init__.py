"""Who holds the bytes: one protocol, and the allocators that follow it."""

from onnx_notebook_profiler.allocators.bfc_arena import BFCArena
from onnx_notebook_profiler.allocators.protocol import Allocator, Buffer
from onnx_notebook_profiler.allocators.simple import SimpleRawBufferAllocator

__all__ = ["Allocator", "BFCArena", "Buffer", "SimpleRawBufferAllocator"]
