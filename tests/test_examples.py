"""The example notebooks print the figures of the documents that the product comes from.

The expected lines are those documents' own printouts; only durations and executor ids are hidden. The code of a
notebook is run here, so what is compared is not what happens to be saved in it.
"""

import contextlib
import io
import os
import re
from pathlib import Path

import matplotlib as mpl
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

RUNTIME_MEMORY = """\
opset: domain='' version=18
graph: name='agraph'
input: float[N] x
init: float[] two
0: Mul(x, two) -> z
1: Add(z, x) -> w
output: float[N] w
w[:4] = [0. 3. 6. 9.]
Recorded 7 event(s):
  [add/input] 'x' mem=0B peak=0B
  [add/initializer] 'two' mem=4B peak=4B
  [add/intermediate] 'z' node#0 mem=4100B peak=4100B
  [run_node/unknown] ai.onnx::Mul(x, two) node#0 took TIME executor#ID mem=4100B peak=4100B
  [add/intermediate] 'w' node#1 mem=4100B peak=4100B
  [run_node/unknown] ai.onnx::Add(z, x) node#1 took TIME executor#ID mem=4100B peak=4100B
  [remove/unknown] 'z' mem=4B peak=4100B
Per-node time and memory profile:
  Mul      took TIME  live=  4100 B  peak=  4100 B
  Add      took TIME  live=  4100 B  peak=  4100 B
Allocator peak footprint: 4100 bytes
"""

MEMORY_FORMULAS = """\
opset: domain='' version=18
graph: name='compute_context_memory_demo'
input: float[N,4] X
init: float[4,4] W
0: MatMul(X, W) -> M
1: Concat(M, X) -> C
2: Shape(C) -> S
3: Abs(C) -> A
4: Reshape(A, S) -> Z
output: float[] Z
Symbolic ComputeContext.memory table:
  ----  -------  -----------------  -----------------  -----------  ------------  ---------------------  -----------  -------
  node  op       already_allocated  output_allocation  inputs       initializers  intermediates          outputs      total
  ----  -------  -----------------  -----------------  -----------  ------------  ---------------------  -----------  -------
  0     MatMul   16*N+64            16*N               weight=16*N  weight=64     -                      weight=16*N  32*N+64
  1     Concat   32*N+64            32*N               weight=16*N  weight=64     weight=16*N            weight=32*N  64*N+64
  2     Shape    48*N+64            16                 weight=16*N  weight=64     weight=32*N            shape=16     48*N+80
  3     Abs      48*N+80            0                  weight=16*N  weight=64     shape=16, weight=32*N  -            48*N+80
  4     Reshape  48*N+80            0                  weight=16*N  weight=64     shape=16, weight=32*N  -            48*N+80
  ----  -------  -----------------  -----------------  -----------  ------------  ---------------------  -----------  -------
Per-node peak scratch memory (bytes):
  node0   MatMul: 0
  node1   Concat: 0
  node2    Shape: 0
  node3      Abs: 0
  node4  Reshape: 0
Evaluated total_bytes per node:
       N node 0 node 1 node 2 node 3 node 4
       1     96    128    128    128    128
       8    320    576    464    464    464
      32   1088   2112   1616   1616   1616
     128   4160   8256   6224   6224   6224
"""  # noqa: E501 - a table as it was printed


def run(path: Path) -> str:
    """What the code cells of a notebook print, in a shell of their own."""
    shell = InteractiveShell.instance()
    shell.reset(new_session=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mpl.rc_context({"backend": "agg"}):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                shell.run_cell(cell.source, store_history=False).raise_error()
    return printed.getvalue()


def lines(text: str) -> list[str]:
    """Lines without trailing blanks and empty lines; durations and executor ids hidden."""
    hidden = re.sub(r"took +\d+ ?ns", "took TIME", text)
    hidden = re.sub(r"executor#\d+/\d+", "executor#ID", hidden)
    return [line.rstrip() for line in hidden.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("runtime_memory", RUNTIME_MEMORY), ("memory_formulas", MEMORY_FORMULAS)],
)
def test_printouts(root: Path, name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "ONP_PROGRESS", "0")
    wanted, shown = lines(expected), lines(run(root / "examples" / f"{name}.ipynb"))
    positions = [shown.index(wanted[0])]
    for line in wanted[1:]:
        assert line in shown[positions[-1] :], f"{line!r} is not printed, or not in this place"
        positions.append(shown.index(line, positions[-1] + (line == wanted[0])))
    assert positions == sorted(positions)
