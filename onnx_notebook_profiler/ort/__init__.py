"""The questions of the package asked of onnxruntime: what it plans, what it asks of its arena, what it holds."""
