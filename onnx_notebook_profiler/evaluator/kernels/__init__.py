"""The project's own kernels, one file for each operator family; see :mod:`onnx_notebook_profiler.evaluator.kernel`."""
