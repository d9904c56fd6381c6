"""The one canonical way to write an expression; the parser reads it back to the same expression.

Terms are sorted as text, coefficient first, no spaces; the constant comes last at the top level and
is sorted with the others inside an operation. A name that is no identifier is put in double quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx_notebook_profiler.symbolic.operations import Op
from onnx_notebook_profiler.symbolic.polynomial import ONE, Monomial, Terms

if TYPE_CHECKING:
    from onnx_notebook_profiler.symbolic.atoms import Atom
    from onnx_notebook_profiler.symbolic.expression import Expr

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)


def name_text(name: str) -> str:
    """Return the name as it stands in an expression: quoted unless it is an identifier."""
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)


def sole_atom(terms: Terms) -> Atom | None:
    """Return the atom that the polynomial consists of, or None."""
    if len(terms) == 1:
        ((monomial, coefficient),) = terms.items()
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            return monomial[0][0]
    return None


def polynomial_text(terms: Terms, *, nested: bool = False) -> str:
    """Return the text of a sum; `nested` sorts the constant with the other terms."""
    if not terms:
        return "0"
    atom = sole_atom(terms)
    if atom is not None:
        return atom.text
    rows = sorted((not nested and m == ONE, _summand_text(m, c), c) for m, c in terms.items())
    signed = "".join(("-" if c < 0 else "+") + text for _, text, c in rows)
    return signed.removeprefix("+")


def leads_negative(terms: Terms) -> bool:
    """Return whether the leading coefficient is negative; of x and -x one alone is so."""
    if len(terms) == 1:
        return next(iter(terms.values())) < 0
    return min((m == ONE, _product_text(m, abs(c)), c) for m, c in terms.items())[2] < 0


def operation_text(op: Op, args: Sequence[Expr]) -> str:
    """Return the text of an operation that stands alone."""
    if op is Op.BROADCAST:
        return f"broadcast({','.join(arg.nested_text for arg in args)})"
    if op is Op.MAX:
        return "^".join(arg.nested_text for arg in args)
    if op is Op.MIN:
        return "&".join(_minimum_operand(arg) for arg in args)
    num, den = args
    return f"{_left_operand(num)}{op.value}{_right_operand(den)}"


def _summand_text(monomial: Monomial, coefficient: int) -> str:
    if coefficient == 1 and len(monomial) == 1:
        atom, power = monomial[0]
        if power == 1 and atom.op not in (Op.MAX, Op.MIN):
            return atom.text
    return _product_text(monomial, abs(coefficient))


def _product_text(monomial: Monomial, magnitude: int) -> str:
    factors = [str(magnitude)] if magnitude != 1 or not monomial else []
    for atom, power in monomial:
        factors.extend([atom.key] * power)
    return "*".join(factors)


def _minimum_operand(arg: Expr) -> str:
    atom = sole_atom(arg.terms)
    return f"({arg.nested_text})" if atom is not None and atom.op is Op.MAX else arg.nested_text


def _left_operand(arg: Expr) -> str:
    if len(arg.terms) == 1:
        ((monomial, coefficient),) = arg.terms.items()
        if coefficient > 0:
            return _product_text(monomial, coefficient)
    return f"({arg.nested_text})" if arg.terms else "0"


def _right_operand(arg: Expr) -> str:
    atom = sole_atom(arg.terms)
    if atom is not None:
        return atom.key
    return str(arg.value) if arg.is_constant and arg.value >= 0 else f"({arg.nested_text})"
