"""Integer expressions in normal form: polynomials over symbols and a few operations.

Two expressions that this form can tell to be equal are equal objects with equal text. Every rule
that brings an expression into the form keeps its value wherever the written form has one; where the
written form has none (a division by zero), the simplified form may have one. Symbols stand for
sizes; only the rules that say so rely on sizes being at least 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic import expression_rules as rules
from onnx_notebook_profiler.symbolic.atoms import (
    MAX_SIZE,
    Abbreviation,
    Atom,
    Operation,
    Symbol,
    is_large,
)
from onnx_notebook_profiler.symbolic.expression_text import polynomial_text
from onnx_notebook_profiler.symbolic.operations import Op, integer_value
from onnx_notebook_profiler.symbolic.polynomial import (
    MAX_DEGREE,
    ONE,
    Terms,
    add_terms,
    degree,
    multiply_terms,
)

__all__ = [
    "Expr",
    "as_expr",
    "broadcast",
    "ceil_div",
    "exact_div",
    "floor_mod",
    "floordiv",
    "maximum",
    "minimum",
    "operate",
]


T = TypeVar("T")
_assign = object.__setattr__


class Expr:
    """An immutable integer expression in normal form.

    `str()` is its canonical text: `16*N+64`, `-x+1`, `2*(H//2)`. Operators take expressions and
    ints: `+ - * // % **`; `//` rounds down, `%` takes the sign of the left side.
    Raises ExpressionError where a result has no value anywhere or would be absurdly large.
    """

    __slots__ = (
        "_hash",
        "_measure",
        "_nested",
        "_nonnegative",
        "_symbols",
        "flags",
        "number",
        "terms",
    )
    number: int | None
    """What the expression is where it is a number, else None."""
    terms: Terms
    """Coefficient of each monomial, read-only."""
    flags: int
    """Which kinds of operation the terms may hold (see `expression_rules`)."""
    _hash: int
    _measure: tuple[int, int]
    _nested: str
    _nonnegative: bool
    _symbols: frozenset[str]

    def __init__(self, terms: Terms, flags: int | None = None) -> None:
        """Wrap terms that are in normal form; use `symbol` and `constant` to start from."""
        own = MappingProxyType(dict(terms))
        _assign(self, "terms", own)
        _assign(self, "flags", rules.flags_of(terms) if flags is None else flags)
        is_number = not own or (len(own) == 1 and ONE in own)
        _assign(self, "number", own.get(ONE, 0) if is_number else None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Expr is immutable: cannot set {name!r}")

    def _keep(self, name: str, value: T) -> T:
        _assign(self, name, value)
        return value

    @classmethod
    def from_terms(cls, terms: Terms, flags: int | None = None) -> Expr:
        """Bring the sum of `coefficient * monomial` into normal form; no coefficient is 0."""
        made = cls(terms, flags)
        return rules.settle(made) if made.flags else made

    @classmethod
    def operation(cls, op: Op, *args: Expr) -> Expr:
        """Wrap an operation whose arguments no rule simplifies any further."""
        return cls({((Operation(op, args), 1),): 1})

    @staticmethod
    def symbol(name: str) -> Expr:
        """Return the size called `name`, which may be any text."""
        return _symbol(name)

    @staticmethod
    def constant(value: int) -> Expr:
        """Return the number `value`."""
        return _constant(int(value))

    @staticmethod
    def sum(parts: Iterable[Expr | int]) -> Expr:
        """Return the sum of all parts (0 of none), faster than adding one by one."""
        exprs = [as_expr(part) for part in parts]
        return Expr.from_terms(
            add_terms((1, expr.terms) for expr in exprs), rules.union_of(e.flags for e in exprs)
        )

    @staticmethod
    def product(parts: Iterable[Expr | int]) -> Expr:
        """Return the product of all parts (1 of none)."""
        total = Expr.constant(1)
        for part in parts:
            total = total * part
        return total

    @property
    def is_constant(self) -> bool:
        """Whether the expression is a number."""
        return self.number is not None

    @property
    def value(self) -> int:
        """The number that the expression is; raises ExpressionError where it is none."""
        if self.number is None:
            raise ExpressionError(f"{self} is not a number: it depends on {sorted(self.symbols)}")
        return self.number

    @property
    def symbols(self) -> frozenset[str]:
        """Names of all sizes in the expression."""
        if not hasattr(self, "_symbols"):
            names: set[str] = set()
            for monomial in self.terms:
                for atom, _ in monomial:
                    if isinstance(atom, Symbol):
                        names.add(atom.name)
                    else:
                        names.update(*(arg.symbols for arg in atom.args))
            return self._keep("_symbols", frozenset(names))
        return self._symbols

    @property
    def measure(self) -> tuple[int, int]:
        """(levels of nested operations, number of parts)."""
        if not hasattr(self, "_measure"):
            depth, size = 0, 1
            for monomial in self.terms:
                size += 1
                for atom, power in monomial:
                    size += power
                    if isinstance(atom, Operation):
                        depth, size = max(depth, atom.depth), size + power * atom.size
            return self._keep("_measure", (depth, size))
        return self._measure

    @property
    def is_nonnegative(self) -> bool:
        """Whether the form alone shows a value of at least 0 where all sizes are at least 0."""
        if not hasattr(self, "_nonnegative"):
            return self._keep("_nonnegative", rules.shows_nonnegative(self))
        return self._nonnegative

    @property
    def nested_text(self) -> str:
        """The text inside another operation, where the constant is sorted with the other terms."""
        if not hasattr(self, "_nested"):
            return self._keep("_nested", polynomial_text(self.terms, nested=True))
        return self._nested

    def __str__(self) -> str:
        return polynomial_text(self.terms)

    def __repr__(self) -> str:
        return f"Expr[{self}]"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.number == other
        return self is other or (isinstance(other, Expr) and self.terms == other.terms)

    def __hash__(self) -> int:
        if not hasattr(self, "_hash"):
            items = frozenset(self.terms.items())
            return self._keep("_hash", hash(self.value if self.is_constant else items))
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Expr, (dict(self.terms),)

    def __add__(self, other: Expr | int) -> Expr:
        right = as_expr(other)
        if right.number is not None and (self.number is not None or not right.number):
            return self if not right.number else _constant(right.number + (self.number or 0))
        return Expr.sum((self, right))

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return self * -1

    def __sub__(self, other: Expr | int) -> Expr:
        return self + -as_expr(other)

    def __rsub__(self, other: int) -> Expr:
        return as_expr(other) - self

    def __mul__(self, other: Expr | int) -> Expr:
        right = as_expr(other)
        if right.number == 1 or self.number == 1:
            return self if right.number == 1 else right
        if len(self.terms) * len(right.terms) > 64:
            self._check_product(right)
        return Expr.from_terms(multiply_terms(self.terms, right.terms), self.flags | right.flags)

    __rmul__ = __mul__

    def _check_product(self, other: Expr) -> None:
        size = self.measure[1] * len(other.terms) + other.measure[1] * len(self.terms)
        if size > MAX_SIZE:
            raise ExpressionError(f"the expression is too large: a product of {size} parts")

    def __pow__(self, exponent: int) -> Expr:
        if exponent < 0:
            raise ExpressionError(f"the power {exponent} of {self} is no integer expression")
        powers = max((degree(monomial) for monomial in self.terms), default=0) * exponent
        if exponent > 64 or powers > MAX_DEGREE:
            raise ExpressionError(f"the power {exponent} of {self} is too large")
        return Expr.product([self] * exponent)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return rules.divide(Op.FLOOR, self, as_expr(other))

    def __rfloordiv__(self, other: int) -> Expr:
        return as_expr(other) // self

    def __mod__(self, other: Expr | int) -> Expr:
        return rules.modulo(self, as_expr(other))

    def __rmod__(self, other: int) -> Expr:
        return as_expr(other) % self

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return the exact value at these sizes (Python ints of any magnitude).

        Raises ExpressionError that names the missing size, or the operation that has no value.
        """
        return _evaluate(self, sizes, {})

    def substitute(self, values: Mapping[str, Expr | int]) -> Expr:
        """Return the expression with each named size replaced."""
        if self.symbols.isdisjoint(values):
            return self
        return _substitute(self, values, {})


@lru_cache(maxsize=4096)
def _constant(value: int) -> Expr:
    return Expr({ONE: value} if value else {}, 0)


@lru_cache(maxsize=4096)
def _symbol(name: str) -> Expr:
    return Expr({((Symbol(name), 1),): 1}, 0)


def as_expr(value: Expr | int) -> Expr:
    """Return an expression for an expression or an int; TypeError for anything else."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        return Expr.constant(value)
    raise TypeError(f"expected an Expr or an int, got {type(value).__name__}")


def _evaluate(expr: Expr, sizes: Mapping[str, int], known: dict[Atom, int]) -> int:
    total = 0
    for monomial, coefficient in expr.terms.items():
        value = coefficient
        for atom, power in monomial:
            if atom not in known:
                known[atom] = _evaluate_atom(atom, sizes, known)
            value *= known[atom] ** power
        total += value
    return total


def _evaluate_atom(atom: Atom, sizes: Mapping[str, int], known: dict[Atom, int]) -> int:
    if isinstance(atom, Symbol):
        try:
            return int(sizes[atom.name])
        except KeyError:
            raise ExpressionError(
                f"no value for the size {atom.name!r}; given: {sorted(sizes)[:10]}"
            ) from None
    assert atom.op is not None
    try:
        return integer_value(atom.op, [_evaluate(arg, sizes, known) for arg in atom.args])
    except ExpressionError as error:
        if str(error).startswith(("no value", "in ")):
            raise
        raise ExpressionError(f"in {atom.text[:200]}: {error}") from None


def _substitute(expr: Expr, values: Mapping[str, Expr | int], known: dict[Atom, Expr]) -> Expr:
    parts = []
    for monomial, coefficient in expr.terms.items():
        part = Expr.constant(coefficient)
        for atom, power in monomial:
            if atom not in known:
                known[atom] = _substitute_atom(atom, values, known)
            part = part * known[atom] ** power
        parts.append(part)
    return Expr.sum(parts)


def _substitute_atom(atom: Atom, values: Mapping[str, Expr | int], known: dict[Atom, Expr]) -> Expr:
    if isinstance(atom, Symbol):
        return as_expr(values[atom.name]) if atom.name in values else Expr.symbol(atom.name)
    return remade(atom, [_substitute(arg, values, known) for arg in atom.args])


def remade(atom: Operation, args: Sequence[Expr]) -> Expr:
    """The operation with other arguments, simplified; an abbreviation stays one while it is large."""
    if isinstance(atom, Abbreviation) and is_large(args[0]):
        return Expr({((atom.remade(args[0]), 1),): 1})
    assert atom.op is not None
    return operate(atom.op, args)


def operate(op: Op, args: Sequence[Expr | int]) -> Expr:
    """Return the operation on these arguments, simplified."""
    exprs = [as_expr(arg) for arg in args]
    if op is Op.MAX or op is Op.MIN:
        return rules.extremum(op, exprs)
    if op is Op.BROADCAST:
        return rules.broadcast(exprs)
    num, den = exprs
    return rules.modulo(num, den) if op is Op.MOD else rules.divide(op, num, den)


def maximum(*args: Expr | int) -> Expr:
    """Return the largest of one or more expressions, printed `a^b`."""
    return operate(Op.MAX, args)


def minimum(*args: Expr | int) -> Expr:
    """Return the smallest of one or more expressions, printed `a&b`."""
    return operate(Op.MIN, args)


def broadcast(*args: Expr | int) -> Expr:
    """Return the common size of dimensions that are equal or 1."""
    return operate(Op.BROADCAST, args)


def floordiv(num: Expr | int, den: Expr | int) -> Expr:
    """Return num/den rounded towards minus infinity."""
    return operate(Op.FLOOR, (num, den))


def exact_div(num: Expr | int, den: Expr | int) -> Expr:
    """Return num/den, which has a value only where it leaves no rest; printed `num/:den`."""
    return operate(Op.EXACT, (num, den))


def ceil_div(num: Expr | int, den: Expr | int) -> Expr:
    """Return num/den rounded towards plus infinity."""
    top, bottom = as_expr(num), as_expr(den)
    if bottom.is_constant and bottom.value < 0:
        top, bottom = -top, -bottom
    if bottom.is_nonnegative:
        return (top + bottom - 1) // bottom
    return -(-top // bottom)


def floor_mod(num: Expr | int, den: Expr | int) -> Expr:
    """Return num - den*(num//den): the rest with the sign of the right side, as in Python."""
    top, bottom = as_expr(num), as_expr(den)
    if top.is_nonnegative and bottom.is_nonnegative:
        return top % bottom
    return top - bottom * (top // bottom)
