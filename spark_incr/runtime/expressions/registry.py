"""What a kernel is, and the list of those that are verified to be equal to Spark.

A kernel belongs to a class of AST nodes (or to a function name that the parser keeps as it is).
It is given its operands compiled and Spark's type of the node, and returns the compiled node, or
None where equality with Spark is not certain. Nodes outside `RULES`, and nodes that carry an
argument their kernel does not name, are never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.types import arrow_type

Types = Callable[[exp.Expr], "T.DataType | None"]
Evaluate = Callable[[Mapping[str, pa.Array], int], pa.Array]


@dataclass(frozen=True)
class Settings:
    """The settings of the session that change what an expression means."""

    ansi: bool = True
    time_zone: str = "UTC"
    whole_digits_first: bool = True
    """What decimals keep that have more digits than fit: those before the point, or those after."""

    @property
    def is_utc(self) -> bool:
        return self.time_zone in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")


@dataclass(frozen=True)
class Compiled:
    """A typed expression that can be evaluated; `scalar` is its value when it is a literal.

    `raises` tells that evaluation may fail for some row, so that a row must not be shown to it
    that Spark would not show to it. `is_written` tells a literal of the text from what is constant by
    computation: Spark counts the digits of the former alone.
    """

    type: T.DataType
    evaluate: Evaluate
    columns: frozenset[str] = frozenset()
    raises: bool = False
    scalar: pa.Scalar | None = None
    is_written: bool = False

    @property
    def is_null(self) -> bool:
        return self.scalar is not None and not self.scalar.is_valid

    @property
    def value(self) -> Any:
        """The Python value of a literal; None if it is NULL or no literal."""
        return None if self.scalar is None else self.scalar.as_py()


def literal(scalar: pa.Scalar, spark_type: T.DataType) -> Compiled:
    """The constant expression."""
    return Compiled(spark_type, lambda columns, n: pa.repeat(scalar, n), scalar=scalar)


def null(spark_type: T.DataType) -> Compiled:
    """NULL of a type."""
    arrow = arrow_type(spark_type)
    return Compiled(
        spark_type, lambda columns, n: pa.nulls(n, arrow), scalar=pa.scalar(None, arrow)
    )


@dataclass(frozen=True)
class Call:
    """A node whose operands are compiled and whose type Spark has told."""

    node: exp.Expr
    type: T.DataType
    operands: tuple[Compiled, ...]
    settings: Settings

    @property
    def arrow(self) -> pa.DataType:
        return arrow_type(self.type)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*(operand.columns for operand in self.operands))


Kernel = Callable[[Call], "Compiled | None"]
Operands = Callable[[exp.Expr], "list[exp.Expr] | None"]


@dataclass(frozen=True)
class Rule:
    """How a class of nodes is compiled: where its operands are, and its kernel."""

    operands: Operands
    kernel: Kernel


RULES: dict[type[exp.Expr] | str, Rule] = {}
KERNELS: dict[str, str] = {}


def named_arguments(names: Iterable[str], flags: Iterable[str] = ()) -> Operands:
    """Operands are the arguments of these names, in order; `flags` may stand beside them.

    A node with any other argument has no operands that we know of.
    """
    order, known = tuple(names), {*names, *flags}

    def operands(node: exp.Expr) -> list[exp.Expr] | None:
        if any(value and key not in known for key, value in node.args.items()):
            return None
        found: list[exp.Expr] = []
        for name in order:
            value = node.args.get(name)
            found.extend(value if isinstance(value, list) else [] if value is None else [value])
        return found if all(isinstance(value, exp.Expr) for value in found) else None

    return operands


def kernel(
    *keys: type[exp.Expr] | str,
    words: str,
    arguments: Iterable[str] = ("this", "expression"),
    flags: Iterable[str] = (),
    operands: Operands | None = None,
) -> Callable[[Kernel], Kernel]:
    """Register the kernel of node classes, or of functions by name; `words` says what it takes."""

    def register(function: Kernel) -> Kernel:
        for key in keys:
            if isinstance(key, str):
                RULES[key] = Rule(
                    operands or named_arguments(("expressions",), ("this",)), function
                )
            else:
                RULES[key] = Rule(operands or named_arguments(arguments, flags), function)
            KERNELS[key if isinstance(key, str) else key.__name__] = words
        return function

    return register


def rule_of(node: exp.Expr) -> Rule | None:
    """The rule for a node, if it has one."""
    if isinstance(node, exp.Anonymous):
        return RULES.get(node.name.lower())
    return RULES.get(type(node))
