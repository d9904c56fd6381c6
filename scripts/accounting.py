# ruff: noqa: E501 - text of a page
"""Writes docs/accounting.md and its pictures: the ways to count memory, side by side on one model.

Run: python scripts/accounting.py
"""

from __future__ import annotations

from pathlib import Path

import onnx_notebook_profiler as onp
from onnx_notebook_profiler.render.sections import Chart, Series, Style
from onnx_notebook_profiler.render.svg import chart_svg

DOCS = Path(__file__).resolve().parents[1] / "docs"
MODEL = """<ir_version: 10, opset_import: ["" : 18]>
attention (float[batch,seq,64] x, float[batch,seq,64] memory) => (float[batch,seq,64] y, float[batch,seq,seq] p)
<float[64,64] w = {WEIGHTS}> {
    t = Transpose<perm = [0, 2, 1]>(memory)  scores = MatMul(x, t)  bias = MatMul(memory, t)
    moved = Add(scores, bias)  p = Softmax(moved)  mixed = MatMul(p, memory)
    wide = MatMul(mixed, w)  y = Relu(wide) }""".replace("WEIGHTS", ", ".join(["0"] * 4096))
SIZES = {"batch": 2, "seq": 96}

REUSE = {
    "none": onp.ComputeContext(reuse="none"),
    "operator": onp.ComputeContext(reuse="operator"),
    "structural": onp.ComputeContext(reuse="structural"),
}
COUNTED = {
    "everything": onp.ComputeContext(reuse="none"),
    "without outputs": onp.ComputeContext(reuse="none", count_outputs=False),
    "without initializers": onp.ComputeContext(reuse="none", count_initializers=False),
    "inputs released": onp.ComputeContext(reuse="none", release_inputs=True),
}
ACCOUNTS = {
    "model": onp.ComputeContext(),
    "evaluator": onp.ComputeContext(account="evaluator"),
}

HEAD = """# Ways to count

What a model "takes" depends on what one counts. Every switch of `ComputeContext` is shown here on one attention block of {nodes} nodes at
batch 2 and sequence 96; the figures are its peaks. `python scripts/accounting.py` makes this page.

"""

REUSE_WORDS = """`reuse="none"` gives every output bytes of its own; `"operator"` lets outputs of element-wise operators and views
take over an input of equal size that dies at the node; `"structural"` any output that fits, the bound that an ideal runtime could reach."""

COUNTED_WORDS = """`count_outputs=False` leaves out what the caller has buffers for, `count_initializers=False` the weights, and
`release_inputs=True` lets an input go after the last node that reads it."""

ACCOUNT_WORDS = """`account="model"` counts inputs and initializers from the first node to the last and outputs once they are made.
`account="evaluator"` is what `ReferenceEvaluator` holds, byte for byte: inputs are borrowed (those of rank 0 are copied), views add nothing,
outputs stay to the end. What is alive inside branches, loops and functions is in `ctx.inside` and in the peak."""

PARTS = (
    ("Reuse: may an output take over a buffer?", "reuse", REUSE, REUSE_WORDS),
    ("What is counted", "counted", COUNTED, COUNTED_WORDS),
    ("Whose account", "accounts", ACCOUNTS, ACCOUNT_WORDS),
)


def pages() -> dict[str, str]:
    """Text by name of the file under docs/."""
    found: dict[str, str] = {}
    lines: list[str] = []
    nodes = 0
    for title, name, contexts, words in PARTS:
        totals = {}
        for label, context in contexts.items():
            context.compute(MODEL)
            totals[label] = [int(value) for value in context.totals(SIZES)]
            nodes = len(context)
        operators = [operator for _, operator in next(iter(contexts.values())).labels]
        found[f"images/accounting-{name}.svg"] = _picture(title, operators, totals)
        lines += [
            f"## {title}",
            "",
            words,
            "",
            f"![{title}](images/accounting-{name}.svg)",
            "",
            "| | peak (bytes) | at node |",
            "| --- | --: | --- |",
        ]
        for label, values in totals.items():
            at = values.index(max(values))
            lines.append(f"| {label} | {max(values):,} | {at} {operators[at]} |")
        lines.append("")
    found["accounting.md"] = HEAD.format(nodes=nodes) + "\n".join(lines)
    return found


def _picture(title: str, operators: list[str], totals: dict[str, list[int]]) -> str:
    styles: tuple[Style, ...] = ("area", "line", "dashed", "line")
    series = tuple(
        Series(label, tuple(values), style)
        for (label, values), style in zip(totals.items(), styles, strict=False)
    )
    first = next(iter(totals.values()))
    peak = first.index(max(first))
    labels = tuple(f"{index} {operator}" for index, operator in enumerate(operators))
    chart = Chart(title, labels, series, peak, labels[peak])
    return chart_svg(chart, theme="light", standalone=True) + "\n"


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
