"""The list of what can be run says what happens."""

from __future__ import annotations

from onnx import defs

import onnx_notebook_profiler as onp


def test_every_schema_is_in_the_list_once() -> None:
    listed = {
        (entry.domain, entry.op_type, version): entry.tier
        for entry in onp.supported_operators(onnxruntime=False)
        for version in entry.versions
    }
    wanted = {
        (schema.domain, schema.name, schema.since_version)
        for schema in defs.get_all_schemas_with_history()
        if not schema.deprecated
    }
    assert wanted <= set(listed)
    without = {key: tier for key, tier in listed.items() if tier != "own"}
    assert without == {
        ("", "ImageDecoder", 20): "reference",
        ("ai.onnx.preview", "FlexAttention", 1): "function body",
        ("ai.onnx.preview.training", "Gradient", 1): "none",
    }


def test_sorted_and_with_onnxruntime_more() -> None:
    alone, together = onp.supported_operators(onnxruntime=False), onp.supported_operators()
    assert alone == sorted(alone)
    assert together == sorted(together)
    names = {(entry.domain, entry.op_type) for entry in together}
    assert {(entry.domain, entry.op_type) for entry in alone} <= names
    assert ("com.microsoft", "BeamSearch") in names
