"""Reads the text of an expression, hostile text included; nothing is ever handed to `eval`.

    maximum:  minimum ('^' minimum)*            sum:      product (('+' | '-') product)*
    minimum:  sum ('&' sum)*                    product:  unary (('*' | '//' | '/:' | '%') unary)*
    unary:    ('+' | '-')* power                power:    atom ('**' number)?
    atom:     number | name | "name" | '(' maximum ')' | function '(' maximum, ... ')'

Inside `floor(...)` and `ceiling(...)` a single `/` stands for the true quotient.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from onnx_notebook_profiler.errors import ExpressionError
from onnx_notebook_profiler.symbolic.expression import Expr
from onnx_notebook_profiler.symbolic.operations import Op
from onnx_notebook_profiler.symbolic.ratio import EXPRESSIONS, INTEGERS, Ratio, RatioAlgebra

V = TypeVar("V")
MAX_LENGTH = 100_000
MAX_DEPTH = 48
_MAX_LITERAL = 2**63 - 1
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r'|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<symbol>//|/:|\*\*|[-+*/%^&(),]))',
    re.ASCII,
)
__all__ = ["evaluate_expression", "parse_expression", "simplify_expression"]

_CALLS = {
    "max": Op.MAX,
    "Max": Op.MAX,
    "min": Op.MIN,
    "Min": Op.MIN,
    "broadcast": Op.BROADCAST,
}
_ROUNDINGS = {"floor": "floor", "ceil": "ceiling", "ceiling": "ceiling"}
_DIVISIONS = {"//": Op.FLOOR, "/:": Op.EXACT, "%": Op.MOD}
_END = ("end", "")


def parse_expression(text: str) -> Expr:
    """Read a text into an expression in normal form.

    Raises ExpressionError where the text is no expression, where it has no value at any sizes
    (`x//0`), or where it would become absurdly large.
    """
    return _Parser(text, EXPRESSIONS, Expr.symbol).parse()


def simplify_expression(expression: str | int) -> int | str:
    """Return the canonical text of an expression, or an int where it is a number.

    A text that is no expression comes back unchanged. A difference in which all sizes cancel
    (`x-x`) gives the text "0".
    """
    if isinstance(expression, int):
        return int(expression)
    try:
        expr = parse_expression(expression)
    except ExpressionError:
        return expression
    if not expr.terms and not _is_literal_zero(expression):
        return "0"
    return expr.value if expr.is_constant else str(expr)


def _is_literal_zero(text: str) -> bool:
    """Return whether a text of value 0 names no size at all."""
    return not any(kind in ("name", "quoted") for kind, _ in _tokens(text))


def evaluate_expression(expression: str | int, sizes: Mapping[str, int]) -> int:
    """Return the exact value of an expression, as it is written, at these sizes.

    `//` rounds towards minus infinity, `%` takes the sign of its left side as in C.
    Raises ExpressionError: no expression, a size that is missing, a division by zero or an exact
    division that leaves a rest, sizes that do not broadcast.
    """
    if isinstance(expression, int):
        return int(expression)

    def size(name: str) -> int:
        if name not in sizes:
            raise ExpressionError(
                f"no value for the size {_shown(name)} of {_shown(expression)}; "
                f"given: {', '.join(map(repr, sorted(sizes)[:10])) or 'none'}"
            )
        return int(sizes[name])

    return _Parser(expression, INTEGERS, size).parse()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return (kind, text) of each token; raises ExpressionError at the first that is none."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"the expression is too long: {len(text)} characters (at most {MAX_LENGTH})"
        )
    end = len(text.rstrip())
    tokens, at = [], 0
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise ExpressionError(
                f"cannot read {_shown(text)}: unexpected {text[at]!r} at position {at}"
            )
        assert match.lastgroup is not None
        tokens.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    return tokens


class _Parser(Generic[V]):
    """Recursive descent over the tokens; computes with one number type as it goes."""

    def __init__(self, text: str, algebra: RatioAlgebra[V], size: Callable[[str], V]) -> None:
        self._text = text
        self._algebra = algebra
        self._size = size
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._fractions = 0

    def parse(self) -> V:
        value = self._maximum()
        if self._peek() != _END:
            raise self._unexpected()
        return self._algebra.integer(value)

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self, *symbols: str) -> str:
        """Return the next token and step over it if it is one of these symbols, else ''."""
        kind, text = self._peek()
        if kind == "symbol" and text in symbols:
            self._at += 1
            return text
        return ""

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._unexpected(f", expected {symbol!r}")

    def _unexpected(self, hint: str = "") -> ExpressionError:
        kind, text = self._peek()
        found = "end" if kind == "end" else _shown(text)
        return self._error(f"unexpected {found}{hint}")

    def _error(self, message: str) -> ExpressionError:
        return ExpressionError(f"cannot read {_shown(self._text)}: {message}")

    def _whole(self, value: Ratio[V]) -> V:
        """Return a value that must not be a fraction."""
        if value.den is not None:
            raise self._error("a fraction may only be added, multiplied, divided and rounded")
        return value.num

    def _maximum(self) -> Ratio[V]:
        return self._extremum(Op.MAX, self._minimum)

    def _minimum(self) -> Ratio[V]:
        return self._extremum(Op.MIN, self._sum)

    def _extremum(self, op: Op, operand: Callable[[], Ratio[V]]) -> Ratio[V]:
        first = operand()
        if self._peek() != ("symbol", op.value):
            return first
        values = [self._whole(first)]
        while self._take(op.value):
            values.append(self._whole(operand()))
        return Ratio(self._algebra.base.operate(op, values))

    def _sum(self) -> Ratio[V]:
        parts = [self._product()]
        while sign := self._take("+", "-"):
            part = self._product()
            parts.append(self._algebra.negate(part) if sign == "-" else part)
        return parts[0] if len(parts) == 1 else self._algebra.total(parts)

    def _product(self) -> Ratio[V]:
        value = self._unary()
        while symbol := self._take("*", "//", "/:", "%", "/"):
            right = self._unary()
            if symbol == "*":
                value = self._algebra.multiply(value, right)
            elif symbol == "/":
                if not self._fractions:
                    raise self._error("a single '/' is only known inside floor(...); use '//'")
                value = self._algebra.divide(value, right)
            elif symbol == "//":
                value = Ratio(self._algebra.floor(self._algebra.divide(value, right)))
            else:
                args = (self._whole(value), self._whole(right))
                value = Ratio(self._algebra.base.operate(_DIVISIONS[symbol], args))
        return value

    def _unary(self) -> Ratio[V]:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        value = self._power()
        return self._algebra.negate(value) if negative else value

    def _power(self) -> Ratio[V]:
        value = self._atom()
        if not self._take("**"):
            return value
        kind, text = self._peek()
        if kind != "number":
            raise self._unexpected(", expected a number as exponent")
        self._at += 1
        return self._algebra.power(value, self._literal(text))

    def _atom(self) -> Ratio[V]:
        kind, text = self._peek()
        self._at += 1
        if kind == "number":
            return self._algebra.constant(self._literal(text))
        if kind == "quoted":
            return Ratio(self._size(self._unquoted(text)))
        if kind == "name":
            return self._call(text) if self._take("(") else Ratio(self._size(text))
        if (kind, text) == ("symbol", "("):
            value = self._nested(self._maximum)
            self._expect(")")
            return value
        self._at -= 1
        raise self._unexpected()

    def _nested(self, rule: Callable[[], Ratio[V]]) -> Ratio[V]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} levels deep")
        value = rule()
        self._depth -= 1
        return value

    def _literal(self, digits: str) -> int:
        if len(digits.lstrip("0")) > 19 or int(digits) > _MAX_LITERAL:
            raise self._error(f"the number {_shown(digits)} does not fit into 64 bits")
        return int(digits)

    def _unquoted(self, text: str) -> str:
        try:
            return str(json.loads(text))
        except ValueError as error:
            raise self._error(f"bad quoted name: {error}") from None

    def _arguments(self) -> list[Ratio[V]]:
        arguments: list[Ratio[V]] = []
        while not arguments or self._take(","):
            arguments.append(self._nested(self._maximum))
        self._expect(")")
        return arguments

    def _call(self, name: str) -> Ratio[V]:
        if name in _ROUNDINGS:
            return Ratio(self._round(_ROUNDINGS[name]))
        arguments = self._arguments()
        if name in _CALLS:
            values = [self._whole(argument) for argument in arguments]
            return Ratio(self._algebra.base.operate(_CALLS[name], values))
        if name not in ("CeilToInt", "Mod", "mod"):
            known = "max, min, broadcast, floor, ceiling, CeilToInt, Mod"
            raise self._error(f"unknown function {_shown(name)} (known: {known})")
        if len(arguments) != 2:
            raise self._error(f"{name} takes 2 arguments, not {len(arguments)}")
        if name == "CeilToInt":
            num, den = (self._whole(argument) for argument in arguments)
            return Ratio(self._algebra.base.ceil_div(num, den))
        return self._algebra.floor_mod(*arguments)

    def _round(self, rounding: str) -> V:
        self._fractions += 1
        arguments = self._arguments()
        self._fractions -= 1
        if len(arguments) != 1:
            raise self._error(f"{rounding} takes 1 argument, not {len(arguments)}")
        algebra = self._algebra
        return (algebra.floor if rounding == "floor" else algebra.ceiling)(arguments[0])
