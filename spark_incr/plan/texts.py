"""The SQL texts of a plan: what every operator does, as Spark SQL that runs as it stands.

A batch brings `changes_of_<relation>` for each relation that the plan scans. Each operator rN turns
the changes of its inputs into `rN_changes`. Its texts are assignments, carried out in order:

- a linear operator is one SELECT;
- a join merges ΔL into `rN_left`, pairs ΔL with R and L + ΔL with ΔR, and merges ΔR into
  `rN_right`; what an outer, semi or anti join tells by key is asked before and after;
- an aggregate is `homomorphism`, `merge` and `answer`; its change is the answer after the merge
  minus the answer before it, for the keys of the batch.

State is a relation that `merge` assigns anew: a FULL OUTER JOIN of what it was and what came.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from spark_incr.plan.affected_texts import (
    limit_texts,
    over,
    reapply_texts,
    recompute_texts,
    rederive_texts,
)
from spark_incr.plan.aggregate_texts import aggregate_texts
from spark_incr.plan.change_texts import (
    WEIGHT,
    StageTexts,
    Text,
    bag_state,
    changes_of,
    columns,
    consolidated,
    merged_bag,
    named,
    parse,
    relation,
    select,
)
from spark_incr.plan.generators import generator_query
from spark_incr.plan.join_texts import join_texts
from spark_incr.plan.nodes import (
    RELATION,
    AtMostOne,
    Constant,
    Filter,
    Generate,
    Join,
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
from spark_incr.plan.windows import rederived_window
from spark_incr.sql.dialect import DIALECT, SparkText, parse_query
from spark_incr.sql.names import quote
from spark_incr.sql.table_arguments import TableArgument

OUTPUT = "output"
_TOO_MANY_ROWS = "RAISE_ERROR('a scalar subquery has more than one row')"
FIRST_BATCH = "first_batch"
"""A relation that holds one row of weight 1 in the first batch, and none later."""


def texts_of(plan: Node) -> list[StageTexts]:
    """The texts of every operator, inputs first; the last one keeps the rows of the view."""
    names = {node: f"r{number}" for number, node in enumerate(dict.fromkeys(walk(plan)))}
    stages = [
        _stage(node, name, [changes_of(names[child]) for child in node.inputs])
        for node, name in names.items()
    ]
    delta = consolidated(plan.schema, changes_of(names[plan]), ()).subquery("d")
    merge = merged_bag(OUTPUT, plan.schema, delta)
    stages.append(
        StageTexts(OUTPUT, "the rows of the view", (merge,), (bag_state(OUTPUT, plan.schema),))
    )
    return stages


def stage_texts(plan: Node) -> str:
    """The texts of a plan, to be read and to be pasted into Spark."""
    blocks: list[str] = []
    for stage in texts_of(plan):
        title = [f"-- {stage.name}: {stage.operator}"]
        for number, text in enumerate(stage.texts):
            if any(text.query is later.query for later in stage.texts[number + 1 :]):
                continue
            earlier = [t.name for t in stage.texts[:number] if t.query is text.query]
            first = [f"{', '.join(earlier)} before the merge, then"] if earlier else []
            target = " ".join([*first, text.name])
            comment = f"-- {text.purpose}: {target} from {', '.join(text.reads)}"
            blocks.append("\n".join([*title, comment, f"{print_text(text.query)};"]))
            title = []
    return "\n\n".join(blocks)


class _Generator(SparkGenerator):
    SUPPORTS_TEMPORAL_PRECISION = True
    TYPE_MAPPING = SparkText.Generator.TYPE_MAPPING
    TRANSFORMS = SparkGenerator.TRANSFORMS | {
        TableArgument: SparkText.Generator.TRANSFORMS[TableArgument]
    }

    def nullsafeeq_sql(self, expression: exp.NullSafeEQ) -> str:
        return self.binary(expression, "<=>")


def print_text(query: exp.Expr) -> str:
    """A text as Spark SQL, with quotes only where a name needs them."""
    query = query.copy()
    for identifier in query.find_all(exp.Identifier):
        identifier.set("quoted", quote(identifier.name) != identifier.name)
    return _Generator(dialect=DIALECT, pretty=True, comments=False).generate(query)


def _stage(node: Node, name: str, inputs: Sequence[str]) -> StageTexts:
    match node:
        case AggregateStage():
            return aggregate_texts(node, name, inputs[0])
        case Join():
            return join_texts(node, name, inputs[0], inputs[1])
        case Scan():
            items = _renamed(columns(node.columns), node.names)
            return _linear(name, f"scan of {node.relation}", items, batch_of(node.relation))
        case Single():
            return _linear(name, "one row from the start", [], FIRST_BATCH)
        case Constant():
            rows = parse_query(node.query).subquery("c")
            rows.args["alias"].set(
                "columns", [exp.to_identifier(n, quoted=True) for n in node.names]
            )
            query = _change(columns(node.names), FIRST_BATCH).join(rows, join_type="cross")
            title = "rows from the start"
            return StageTexts(name, title, (Text(changes_of(name), "change", query),))
        case AtMostOne():
            several = f"IF({quote(node.count)} > 1 AND {WEIGHT} > 0, {_TOO_MANY_ROWS}, TRUE)"
            title = "at most one row of a scalar subquery"
            return _linear(name, title, columns(node.names), inputs[0], parse(several))
        case Generate():
            made = over(generator_query(node), {RELATION: inputs[0]})
            text = Text(changes_of(name), "change", made)
            return StageTexts(name, "generator", (text,))
        case Reapply():
            return reapply_texts(node, name, inputs[0])
        case Rederive():
            return rederive_texts(node, name, inputs[0])
        case Limit():
            return limit_texts(node, name, inputs[0])
        case Recompute():
            return recompute_texts(node, name, inputs)
        case Window():
            return rederive_texts(rederived_window(node), name, inputs[0])
        case Repeat():
            times = quote(node.times)
            weight = parse(f"{WEIGHT} * {times} AS {WEIGHT}")
            query = select([*columns(node.names), weight], relation(inputs[0]))
            query = query.where(parse(f"{times} <> 0"))
            title = f"each row {node.times} times"
            return StageTexts(name, title, (Text(changes_of(name), "change", query),))
        case Project():
            return _linear(name, "projection", _renamed(node.expressions, node.names), inputs[0])
        case Filter():
            return _linear(name, "filter", columns(node.names), inputs[0], node.condition)
        case UnionAll():
            parts = [
                _change(_renamed(columns(side.names), node.names), source)
                for side, source in zip(node.relations, inputs, strict=True)
            ]
            union = exp.union(*parts, distinct=False)
            return StageTexts(name, "union", (Text(changes_of(name), "change", union),))
    raise AssertionError(f"no texts for {type(node).__name__}")


def batch_of(relation: str) -> str:
    """The relation that holds what a batch brings to a relation of the catalog."""
    return f"changes_of_{relation}"


def _renamed(expressions: Sequence[exp.Expr], names: Sequence[str]) -> list[exp.Expr]:
    return [named(e, n) for e, n in zip(expressions, names, strict=True)]


def _change(items: Sequence[exp.Expr], source: str) -> exp.Select:
    return select([*items, exp.column(WEIGHT)], relation(source))


def _linear(
    name: str,
    operator: str,
    items: Sequence[exp.Expr],
    source: str,
    condition: exp.Expr | None = None,
) -> StageTexts:
    query = _change(items, source)
    if condition is not None:
        query = query.where(condition.copy())
    return StageTexts(name, operator, (Text(changes_of(name), "change", query),))
