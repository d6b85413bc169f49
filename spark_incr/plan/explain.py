"""Plans as text: numbered relations, inputs first, the same text for the same plan.

r0 := Scan[orders: customer, amount]
r1 := Aggregate[r0]
    tier      homomorphic
    lineage   customer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from spark_incr.plan.facts import unique_keys
from spark_incr.plan.folding import fold_of
from spark_incr.plan.nodes import (
    AtMostOne,
    Constant,
    Filter,
    Generate,
    Join,
    JoinKind,
    Limit,
    Node,
    Project,
    Reapply,
    Recompute,
    Rederive,
    Repeat,
    Scan,
    Single,
    UnionAll,
    Window,
    walk,
)
from spark_incr.plan.stages import AggregateStage
from spark_incr.plan.types import type_text
from spark_incr.sql.dialect import print_sql, quoted

Size = Callable[[int], str | None]
BySpark = Callable[[int], Sequence[exp.Expr]]
_WIDTH = 11


def tier_of(node: Node) -> str:
    """The tier by which a node is maintained, with the reason where it is not the best one."""
    if isinstance(node, Join):
        return "bilinear" if node.keys else "bilinear (no equality to look up by)"
    if isinstance(node, (Reapply, Rederive)):
        return f"affected ({node.reason})"
    if isinstance(node, Window):
        return "affected (window function)"
    if isinstance(node, Recompute):
        return f"{node.tier} ({node.reason}: Spark runs it anew over all rows that it reads)"
    if isinstance(node, Limit):
        return "affected (first rows of each key)" if node.keys else "head"
    if isinstance(node, AggregateStage):
        if node.tier == "homomorphic":
            return "homomorphic (rows never leave)" if node.multisets else "homomorphic"
        reasons = sorted({d.function for d in node.derived})
        distinct = {a.multiset for a in node.accumulators if a.multiset}
        return f"multiset ({', '.join([*reasons, *(['distinct'] if distinct else [])])} without inverse)"
    return "linear"


def explain_plan(plan: Node, size: Size | None = None, by_spark: BySpark | None = None) -> str:
    """The plan, one relation after the other.

    `size` tells the state of each, `by_spark` which of its expressions Spark evaluates.
    """
    numbers: dict[Node, str] = {}
    lines: list[str] = []
    for number, node in enumerate(_visited(plan)):
        name = f"r{number}"
        inputs = [numbers[child] for child in node.inputs]
        numbers[node] = name
        lines.append(f"{name} := {_head(node, inputs)}")
        for label, text in _details(node):
            lines.append(f"    {label:<{_WIDTH}}{text}")
        lines.extend(
            f"    {'by Spark':<{_WIDTH}}{print_sql(expression)}"
            for expression in (by_spark(number) if by_spark else ())
        )
        state = size(number) if size else None
        if state:
            lines.append(f"    {'state':<{_WIDTH}}{state}")
    return "\n".join(lines)


def _visited(plan: Node) -> list[Node]:
    return list(dict.fromkeys(walk(plan)))


def _title(node: Node) -> str:
    if isinstance(node, Join) and node.kind is not JoinKind.INNER:
        return f"{node.kind.value.title()}Join"
    return "Aggregate" if isinstance(node, AggregateStage) else type(node).__name__


def _head(node: Node, inputs: Sequence[str]) -> str:
    match node:
        case Scan():
            columns = [
                c if c == n else f"{quoted(c)} AS {n}"
                for c, n in zip(node.columns, node.names, strict=True)
            ]
            inner = f"{node.relation}: {', '.join(columns)}"
        case Single():
            inner = "one row"
        case Constant():
            inner = node.query
        case Limit():
            keys = [f"{k.column}{' DESC' if k.descending else ''}" for k in node.order]
            rows = f"{node.limit if node.limit is not None else 'all'} rows from {node.offset}"
            per = f" per {', '.join(node.keys)}" if node.keys else ""
            inner = f"{inputs[0]}: {rows} by {', '.join(keys) or 'all columns'}{per}"
        case Reapply() | Rederive():
            inner = f"{inputs[0]}: {print_sql(node.query)}"
        case Window():
            inner = f"{inputs[0]}: " + ", ".join(
                f"{print_sql(w)} AS {n}" for n, w in node.functions
            )
        case Generate():
            outer = "outer " if node.outer else ""
            inner = f"{inputs[0]}: {outer}{print_sql(node.generator)} AS {', '.join(node.made)}"
        case Recompute():
            inner = ", ".join([*inputs, " ".join(node.query.split())])
        case Repeat():
            inner = f"{inputs[0]}: {node.times} times"
        case Project():
            pairs = zip(node.expressions, node.names, strict=True)
            inner = f"{inputs[0]}: " + ", ".join(
                n if print_sql(e) == quoted(n) else f"{print_sql(e)} AS {n}" for e, n in pairs
            )
        case Filter():
            inner = f"{inputs[0]}: {print_sql(node.condition)}"
        case _:
            inner = ", ".join(inputs)
    return f"{_title(node)}[{inner}]"


def _details(node: Node) -> list[tuple[str, str]]:
    if isinstance(
        node, (Scan, Single, Constant, AtMostOne, Generate, Repeat, Project, Filter, UnionAll)
    ):
        return []
    result = [("tier", tier_of(node))]
    if isinstance(node, Join):
        pairs = [
            f"{a} {'<=>' if safe else '='} {b}"
            for (a, b), safe in zip(node.keys, node.null_safe, strict=True)
        ]
        result.append(("lineage", ", ".join(pairs) or "none"))
    if isinstance(node, (Reapply, Rederive, Window)):
        result.append(("lineage", ", ".join(node.keys) or "none (all rows)"))
    if isinstance(node, Recompute):
        result.append(("lineage", "none (all rows)"))
    if isinstance(node, Limit) and node.keys:
        result.append(("lineage", ", ".join(node.keys)))
    if isinstance(node, AggregateStage):
        bits = " (bit by bit)" if node.exact else ""
        result.append(("lineage", (", ".join(node.keys) or "none (one row)") + bits))
        fold = fold_of(node)
        if fold is not None:
            side = "right" if fold.right else "left"
            result.append(("folds", f"the {side} side of the join by {', '.join(fold.keys)}"))
        result.append(("rows", "__incr_n: integer sum of 1"))
        for a in node.accumulators:
            what = " * ".join(a.terms) or "1"
            where = [f"{c} is not null" for c in a.present if c not in a.terms]
            over = [f"over distinct {a.multiset}"] if a.multiset else []
            text = " ".join([f"{a.name}: {a.monoid} sum of {what}", *_where(where), *over])
            result.append(("monoid", text))
        for m in node.multisets:
            condition = [f"where {m.condition}"] if m.condition else []
            grouped = ["with -0.0 as 0.0"] if m.grouped else []
            forgotten = [] if m.kept else ["of the batch alone"]
            text = " ".join([f"{m.name}: {', '.join(m.values)}", *condition, *grouped, *forgotten])
            result.append(("multiset", text))
        for d in node.derived:
            constants = "".join(f", {p}" for p in d.parameters)
            result.append(("derived", f"{d.name}: {d.function}({d.multiset}{constants})"))
        for answer in node.answers:
            if answer.function != "derived":
                inner = ", ".join(answer.inputs)
                type_ = type_text(answer.type)
                result.append(("answer", f"{answer.name}: {answer.function}({inner}) {type_}"))
    keys = sorted(", ".join(sorted(key)) for key in unique_keys(node) if key)
    if keys:
        result.append(("facts", "; ".join(f"unique ({key})" for key in keys)))
    return result


def _where(conditions: list[str]) -> list[str]:
    return [f"where {' and '.join(conditions)}"] if conditions else []
