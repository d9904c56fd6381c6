"""Writes docs/work.md, what counts as MACs, FLOPs and bytes, from the rules themselves.

Run: python scripts/work.py
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from onnx_notebook_profiler.symbolic.work_rules.costs import COSTS, ELEMENTWISE
from onnx_notebook_profiler.symbolic.work_rules.registry import rules
from onnx_notebook_profiler.symbolic.work_rules.without_rule import WITHOUT_RULE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "work.md"

HEAD = """# Work: MACs, FLOPs and bytes

`ComputeContext.work` has the work of each node as formulas in the model's symbolic dimensions, and `work_totals`
what they add up to at any sizes. They are worked out when they are first asked for.

```python
context = ComputeContext()
context.compute("model.onnx")
context.work[3].macs  # an expression, or None where it is unknown
context.work[3].intensity(N=8)  # FLOPs for each byte read or written
totals = context.work_totals(N=8)  # macs, flops, read, written, unknown, by_operator
context.work.unruled  # operators that no rule counts
```

## The convention

{convention}

Bytes are those of tensors as ONNX stores them, sub-byte types packed. A node reads every distinct input once, weights
included; Gather, GatherElements, GatherND, Slice, Compress, CenterCropPad, TorchEmbedding and ArrayFeatureExtractor
read of their first input only as much as they take, Shape, Size and EyeLike nothing. It writes its outputs once. Views
(Reshape, Squeeze, Unsqueeze, Flatten, Identity, Dropout at inference) read and write nothing. There is no cache in this
and no temporary: it is the least that a machine without fusion has to move.

Arithmetic intensity is FLOPs divided by bytes read and written.

Unknown is a value. Where a size is unknown, what depends on it is None, and `reason` says why; `unknown` counts such
nodes, and the totals are then "at least". log2 has no formula here, so TopK needs a fixed k, and Unique and Fourier
transforms a fixed length. A node that runs others (If, Loop, Scan, SequenceMap, a function of the model) does their
work as often as they run, and reads and writes once more what it puts together of all the runs; `bodies` has the work
inside for one run. Where data decides which branch runs, or how often, what depends on it is unknown. `unruled` names
the operators without a rule.

Other tools count otherwise: some call every element-wise operation a MAC, some leave all but products out.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD.format(convention=_convention()), *_costs(), *_rules(), *_others()])


def _convention() -> str:
    text = inspect.getdoc(import_module("onnx_notebook_profiler.symbolic.work_rules")) or ""
    return text.split("\n\n", 1)[1].replace("``", "`")


def _costs() -> list[str]:
    rows: dict[tuple[int, str, bool], list[str]] = defaultdict(list)
    for name, one in COSTS.items():
        rows[one.flops, one.formula, name in ELEMENTWISE].append(name)
    return [
        "## FLOPs for each element\n",
        "What these operators, and parts of others, cost for each element.\n",
        "| what | FLOPs | counted from |\n|---|---|---|",
        *(
            f"| {', '.join(sorted(names))} | {flops} | {formula.replace('|', chr(92) + '|')} |"
            for (flops, formula, _), names in rows.items()
        ),
        "",
    ]


def _rules() -> list[str]:
    """One table for each family, which is a file."""
    families: dict[str, dict[Callable[..., Any], list[str]]] = defaultdict(dict)
    for (domain, op_type), rule in rules().items():
        operators = families[rule.__module__].setdefault(rule, [])
        operators.append(f"{domain}::{op_type}" if domain else op_type)
    parts: list[str] = ["## Operators\n"]
    for module in sorted(families):
        title = module.rpartition(".")[2].replace("_", " ").capitalize()
        parts.append(f"### {title}\n\n{_text(import_module(module))}\n")
        parts.append("| operators | how they are counted |\n|---|---|")
        parts += [
            f"| {', '.join(names)} | {_text(one)} |" for one, names in families[module].items()
        ]
        parts[-1] += "\n"
    return parts


def _text(described: Any) -> str:
    """A docstring as one line for a table."""
    words = (inspect.getdoc(described) or "").replace("``", "`").split()
    return " ".join(words).replace("|", "\\|")


def _others() -> list[str]:
    """Operators without a rule, by reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for (domain, op_type), reason in WITHOUT_RULE.items():
        reasons[reason].append(f"{domain}::{op_type}" if domain else op_type)
    return [
        "## Without a rule\n",
        "| operators | why |\n|---|---|",
        *(f"| {', '.join(names)} | {reason} |" for reason, names in reasons.items()),
        "",
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
