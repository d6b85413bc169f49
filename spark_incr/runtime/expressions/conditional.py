"""CASE, IF, COALESCE, NULLIF: a branch is evaluated on the rows that take it and on no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.types import arrow_type
from spark_incr.runtime.expressions.casts import coerce
from spark_incr.runtime.expressions.comparison import comparison_of
from spark_incr.runtime.expressions.evaluation import lazily, strict, true_rows
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel, null

ANY = "results of one type, or of types that widen exactly"


def _case_operands(node: exp.Expr) -> list[exp.Expr] | None:
    """[subject], then condition and result of each branch, then [default]."""
    if any(value and key not in ("this", "ifs", "default") for key, value in node.args.items()):
        return None
    found = [] if node.this is None or node.this == "" else [node.this]
    for branch in node.args["ifs"]:
        if not isinstance(branch, exp.If) or branch.args.get("false"):
            return None
        found += [branch.this, branch.args["true"]]
    default = node.args.get("default")
    return found if default is None else [*found, default]


@kernel(exp.Case, words=ANY + "; simple and searched", operands=_case_operands)
def case(call: Call) -> Compiled | None:
    operands = list(call.operands)
    subject = operands.pop(0) if call.node.args.get("this") else None
    default = operands.pop() if call.node.args.get("default") else null(T.NullType())
    conditions, results = operands[0::2], operands[1::2]
    if subject is not None:
        matched = [_matches(call, subject, value) for value in conditions]
        if subject.raises or None in matched:
            return None
        conditions = [condition for condition in matched if condition is not None]
    return choose(call, conditions, [*results, default])


def _matches(call: Call, subject: Compiled, value: Compiled) -> Compiled | None:
    found = comparison_of("=", subject, value, call.settings)
    if found is None:
        return None
    inner = Call(call.node, T.BooleanType(), (subject, value), call.settings)
    return strict(inner, found[2], operands=found[:2])


@kernel(exp.If, words=ANY, arguments=("this", "true", "false"))
def if_else(call: Call) -> Compiled | None:
    if len(call.operands) != 3:
        return None
    condition, *results = call.operands
    return choose(call, [condition], results)


@kernel(exp.Nvl2, words=ANY, arguments=("this", "true", "false"))
def nvl2(call: Call) -> Compiled | None:
    if len(call.operands) != 3:
        return None
    subject, *results = call.operands
    return choose(call, [_present(subject)], results)


def _present(subject: Compiled) -> Compiled:
    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        return subject.evaluate(columns, n).is_valid()

    return Compiled(T.BooleanType(), evaluate, subject.columns, subject.raises)


def choose(
    call: Call, conditions: Sequence[Compiled], results: Sequence[Compiled]
) -> Compiled | None:
    """The result of the first condition that is true, else the last result."""
    tests, branches = [coerce(c, T.BooleanType()) for c in conditions], []
    for result in results:
        branch = coerce(result, call.type)
        if branch is None:
            return None
        branches.append(branch)
    if None in tests:
        return None
    certain = [test for test in tests if test is not None]
    raises = any(part.raises for part in (*certain, *branches))

    def eagerly(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        found = branches[-1].evaluate(columns, n)
        for test, branch in zip(reversed(certain), reversed(branches[:-1]), strict=True):
            condition = pc.fill_null(test.evaluate(columns, n), False)
            found = pc.if_else(condition, branch.evaluate(columns, n), found)
        return found

    def by_rows(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        open_rows = np.ones(n, np.bool_)
        found = pa.nulls(n, arrow_type(call.type))
        for test, branch in zip(certain, branches[:-1], strict=True):
            taken = true_rows(lazily(test, columns, n, open_rows)) & open_rows
            found = pc.if_else(pa.array(taken), lazily(branch, columns, n, taken), found)
            open_rows &= ~taken
        last = lazily(branches[-1], columns, n, open_rows)
        return pc.if_else(pa.array(open_rows), last, found)

    return Compiled(call.type, by_rows if raises else eagerly, call.columns, raises)


@kernel(exp.Coalesce, words=ANY, arguments=("this", "expressions"), flags=("is_nvl", "is_null"))
def coalesce(call: Call) -> Compiled | None:
    found = [coerce(operand, call.type) for operand in call.operands]
    if None in found:
        return None
    parts = [part for part in found if part is not None and not part.is_null]
    raises = any(part.raises for part in parts)
    if not parts:
        return null(call.type)

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        result = parts[0].evaluate(columns, n)
        for part in parts[1:]:
            if result.null_count == 0:
                return result
            missing = result.is_null().to_numpy(zero_copy_only=False)
            result = pc.if_else(result.is_valid(), result, lazily(part, columns, n, missing))
        return result

    return Compiled(call.type, evaluate, call.columns, raises)


@kernel(exp.Nullif, words="as =", arguments=("this", "expression"))
def nullif(call: Call) -> Compiled | None:
    subject, other = call.operands
    found = comparison_of("=", subject, other, call.settings)
    if found is None or subject.type != call.type or subject.raises:
        return None
    inner = Call(call.node, T.BooleanType(), (subject, other), call.settings)
    same = strict(inner, found[2], operands=found[:2])

    def evaluate(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
        array = subject.evaluate(columns, n)
        hidden = pc.fill_null(same.evaluate(columns, n), False)
        return pc.if_else(hidden, pa.scalar(None, array.type), array)

    return Compiled(call.type, evaluate, call.columns, same.raises)
