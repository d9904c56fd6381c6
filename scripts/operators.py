"""Writes docs/operators.md, which operators run on what, from ``supported_operators``.

Run: python scripts/operators.py
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import onnx_notebook_profiler as onp

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"

HEAD = """# Operators

What `ReferenceEvaluator` runs, and whose kernel does it, without onnxruntime (`kernels="numpy"`). `own` is a numpy
kernel of this package or, for operators with bodies, its loop over their nodes. `reference` is the class of
`onnx.reference`. A `function body` is what onnx defines the operator by, which `onnx.reference` expands. With
onnxruntime installed, `kernels="auto"` takes its kernel where this package has none: this brings the rest of
`com.microsoft` and whatever else that version knows. Functions of a model run node by node on every tier.

Versions are those in which onnx changed the operator; operators that onnx does not define have version 1.
"""


def page() -> str:
    """The text of the page."""
    domains: dict[str, list[onp.SupportedOperator]] = defaultdict(list)
    for entry in onp.supported_operators(onnxruntime=False):
        domains[entry.domain].append(entry)
    parts = [HEAD]
    for domain, entries in domains.items():
        own = sum(entry.tier == "own" for entry in entries)
        parts.append(
            f"## {domain or 'ai.onnx'}: {own} of {len(entries)} with a kernel of our own\n"
        )
        parts.append("| operator | versions | tier |\n|---|---|---|")
        parts += [
            f"| {entry.op_type} | {', '.join(map(str, entry.versions))} | {entry.tier} |"
            for entry in entries
        ]
        parts[-1] += "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
