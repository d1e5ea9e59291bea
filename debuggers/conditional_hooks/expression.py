"""Conditions as text, such as ``l2_norm > 10 and step > 100``: parsed by Python's parser, compiled to closures.

Only what is listed here is understood: nothing is evaluated by Python, no attribute is read, and no function is called
but the four below.

* numbers, and the names in ``names``
* ``+ - * / **`` and signs; ``abs(x)`` and ``log10(x)``
* ``< <= > >= == !=``, also in chains such as ``0 < mean < 1``; ``isnan(x)`` and ``isfinite(x)``
* ``and``, ``or``, ``not``, parentheses

All numbers are float64. A division by zero is an infinity or NaN, a logarithm of a negative number is NaN, and a power
that is too large is an infinity, as in IEEE 754. Every comparison with NaN is false, but ``!=``.
"""

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from debuggers.conditional_hooks.arithmetic import absolute, divide, log10, power
from debuggers.conditional_hooks.bounds import Bounds, bounds_of
from debuggers.conditional_hooks.names import COUNTERS, STATISTICS
from debuggers.errors import DebuggerConfigError
from debuggers.measurement.tensor_summary import TensorSummary
from debuggers.utils import nearest_names

MAX_LENGTH = 1000
_MAX_DEPTH = 50


class Moment(Protocol):
    """What a condition is asked about."""

    @property
    def step(self) -> int:
        """The number of the step."""
        ...

    @property
    def executions(self) -> int:
        """How often the hook has acted so far."""
        ...

    @property
    def summary(self) -> TensorSummary:
        """The measurement of the tensor, which may wait for its device."""
        ...


Number: TypeAlias = Callable[[Moment], float]
Test: TypeAlias = Callable[[Moment], bool]

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: divide,
    ast.Pow: power,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[[float], float]] = {"abs": absolute, "log10": log10}
_TESTS: dict[str, Callable[[float], bool]] = {"isnan": math.isnan, "isfinite": math.isfinite}


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled condition.

    Attributes:
        text: What it was compiled from.
        of_counters: What it asks of ``step`` and ``executions`` alone: where one of them is false, so is all.
        of_values: The rest, which needs the tensor's measurement.
        bounds: Tells of most tensors without a whole measurement that the rest cannot hold; None where nothing does.
    """

    text: str
    of_counters: tuple[Test, ...]
    of_values: tuple[Test, ...]
    bounds: Bounds | None = None


def compile_expression(text: str) -> Expression:
    """Compiles a condition.

    Raises:
        DebuggerConfigError: For a syntax error, a name that is unknown, and what is no condition; the message shows the
            place, and for a name the nearest ones.
    """
    source = " ".join(text.split("\n")).strip()
    if not source or len(source) > MAX_LENGTH:
        raise DebuggerConfigError(f"the condition has {len(source)} characters; expected 1 to {MAX_LENGTH}")
    try:
        body = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        # Without an offset, the text ended too early.
        raise _at(source, error.offset - 1 if error.offset else len(source), error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL; parentheses without end
        raise DebuggerConfigError(f"the condition cannot be read: {error}") from None
    compiler = _Compiler(source)
    conjuncts = body.values if isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And) else [body]
    tests = [(compiler.test(part, 0), _needs_values(part)) for part in conjuncts]
    return Expression(
        source,
        of_counters=tuple(test for test, needs_values in tests if not needs_values),
        of_values=tuple(test for test, needs_values in tests if needs_values),
        bounds=bounds_of([part for part in conjuncts if _needs_values(part)]),
    )


def _needs_values(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Name) and part.id in STATISTICS for part in ast.walk(node))


def _at(source: str, column: int, what: str) -> DebuggerConfigError:
    """The error at a place, with an arrow below it."""
    column = min(max(column, 0), len(source))
    return DebuggerConfigError(f"condition, column {column + 1}: {what}\n  {source}\n  {' ' * column}^")


class _Compiler:
    """Turns each node into a closure; a number and a condition never stand for each other."""

    def __init__(self, source: str) -> None:
        self._source = source

    def test(self, node: ast.expr, depth: int) -> Test:
        self._check_depth(node, depth)
        match node:
            case ast.BoolOp(op=ast.And()):
                tests = [self.test(part, depth + 1) for part in node.values]
                return lambda moment: all(test(moment) for test in tests)
            case ast.BoolOp():
                tests = [self.test(part, depth + 1) for part in node.values]
                return lambda moment: any(test(moment) for test in tests)
            case ast.UnaryOp(op=ast.Not()):
                inner = self.test(node.operand, depth + 1)
                return lambda moment: not inner(moment)
            case ast.Compare():
                return self._comparison(node, depth)
            case ast.Call(func=ast.Name(id=name)) if name in _TESTS:
                function, argument = _TESTS[name], self._argument(node, depth)
                return lambda moment: function(argument(moment))
        raise self._refusal(node, "a condition, such as l2_norm > 10")

    def _number(self, node: ast.expr, depth: int) -> Number:
        self._check_depth(node, depth)
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as value):
                return self._constant(node, value)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign):
                inner = self._number(node.operand, depth + 1)
                return inner if isinstance(sign, ast.UAdd) else lambda moment: -inner(moment)
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                operation = _ARITHMETIC[type(node.op)]
                left, right = self._number(node.left, depth + 1), self._number(node.right, depth + 1)
                return lambda moment: operation(left(moment), right(moment))
            case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
                function, argument = _FUNCTIONS[name], self._argument(node, depth)
                return lambda moment: function(argument(moment))
        raise self._refusal(node, "a number or a name")

    def _constant(self, node: ast.expr, value: float) -> Number:
        try:
            number = float(value)
        except OverflowError:
            raise self._error(node, "an integer that is too large for float64") from None
        return lambda moment: number

    def _name(self, node: ast.expr, name: str) -> Number:
        if name == "step":
            return lambda moment: float(moment.step)
        if name == "executions":
            return lambda moment: float(moment.executions)
        if name in STATISTICS:
            read = STATISTICS[name]
            return lambda moment: float(read(moment.summary))
        known = [*COUNTERS, *STATISTICS]
        raise self._error(node, f"unknown name {name!r} ({nearest_names(name, known)}; all: {', '.join(known)})")

    def _comparison(self, node: ast.Compare, depth: int) -> Test:
        for comparison in node.ops:
            if type(comparison) not in _COMPARISONS:
                raise self._refusal(node, "one of < <= > >= == !=")
        first = self._number(node.left, depth + 1)
        rest = [
            (_COMPARISONS[type(comparison)], self._number(right, depth + 1))
            for comparison, right in zip(node.ops, node.comparators, strict=True)
        ]

        def test(moment: Moment) -> bool:
            left = first(moment)
            for compare, number in rest:
                right = number(moment)
                if not compare(left, right):
                    return False
                left = right
            return True

        return test

    def _argument(self, node: ast.Call, depth: int) -> Number:
        if len(node.args) != 1 or node.keywords:
            raise self._refusal(node, "one argument")
        return self._number(node.args[0], depth + 1)

    def _check_depth(self, node: ast.expr, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise self._error(node, f"nested more than {_MAX_DEPTH} deep")

    def _refusal(self, node: ast.expr, expected: str) -> DebuggerConfigError:
        text = ast.get_source_segment(self._source, node) or type(node).__name__
        functions = ", ".join([*_FUNCTIONS, *_TESTS])
        hint = f" (functions: {functions})" if isinstance(node, ast.Call) else ""
        return self._error(node, f"{text!r} is not understood; expected {expected}{hint}")

    def _error(self, node: ast.expr, what: str) -> DebuggerConfigError:
        # The parser counts bytes of UTF-8.
        column = len(self._source.encode()[: node.col_offset].decode(errors="ignore"))
        return _at(self._source, column, what)
