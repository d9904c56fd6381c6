"""What happened: the events that evaluator and allocators write and everything downstream reads."""

from onnx_notebook_profiler.events.event import RuntimeEvent, RuntimeEventAction
from onnx_notebook_profiler.events.log import EventLog

__all__ = ["EventLog", "RuntimeEvent", "RuntimeEventAction"]
