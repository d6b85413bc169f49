"""A view's plan as operators: a change of the relations in, the change of the view out.

Operators are numbered inputs first, so the arrangements of one plan always have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from spark_incr.plan.folding import folds_in
from spark_incr.plan.nodes import (
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
from spark_incr.runtime.arrangement import Arrangement
from spark_incr.runtime.changes import consolidate, empty
from spark_incr.runtime.contents import Output
from spark_incr.runtime.evaluation import Evaluator
from spark_incr.runtime.operators.affected import RederiveOperator
from spark_incr.runtime.operators.aggregate import AggregateOperator
from spark_incr.runtime.operators.folded_join import FoldedJoinOperator
from spark_incr.runtime.operators.generate import GenerateOperator
from spark_incr.runtime.operators.join import JoinOperator
from spark_incr.runtime.operators.limit import KeyedLimitOperator, LimitOperator
from spark_incr.runtime.operators.linear import (
    AtMostOneOperator,
    ConstantOperator,
    FilterOperator,
    ProjectOperator,
    RepeatOperator,
    ScanOperator,
    SingleOperator,
    UnionOperator,
)
from spark_incr.runtime.operators.reapply import ReapplyOperator
from spark_incr.runtime.operators.recompute import RecomputeOperator
from spark_incr.runtime.operators.window import WindowOperator

_Operator = (
    AggregateOperator
    | FoldedJoinOperator
    | JoinOperator
    | FilterOperator
    | RepeatOperator
    | GenerateOperator
    | KeyedLimitOperator
    | LimitOperator
    | ReapplyOperator
    | RecomputeOperator
    | RederiveOperator
    | AtMostOneOperator
    | ConstantOperator
    | ProjectOperator
    | ScanOperator
    | SingleOperator
    | UnionOperator
    | WindowOperator
)


_LOOKING_UP = (JoinOperator, FoldedJoinOperator)
_LINEAR = (ProjectOperator, FilterOperator, GenerateOperator)


def _operator(node: Node, evaluator: Evaluator) -> _Operator:
    match node:
        case Scan():
            return ScanOperator(node)
        case Single():
            return SingleOperator()
        case Constant():
            return ConstantOperator(node, evaluator)
        case Repeat():
            return RepeatOperator(node)
        case Generate():
            return GenerateOperator(node, evaluator)
        case Limit():
            return LimitOperator(node) if not node.keys else KeyedLimitOperator(node)
        case Reapply():
            return ReapplyOperator(node, evaluator)
        case Rederive():
            return RederiveOperator(node, evaluator)
        case Window():
            return WindowOperator(node, evaluator)
        case Recompute():
            return RecomputeOperator(node, evaluator)
        case AtMostOne():
            return AtMostOneOperator(node)
        case Project():
            return ProjectOperator(node, evaluator)
        case Filter():
            return FilterOperator(node, evaluator)
        case UnionAll():
            return UnionOperator(node)
        case AggregateStage():
            return AggregateOperator(node, evaluator.settings.ansi)
    raise AssertionError(f"no operator for {type(node).__name__}")


@dataclass
class Dataflow:
    """The operators of one plan and their state; joins may look up the rows of tables there."""

    plan: Node
    evaluator: Evaluator
    tables: Mapping[str, Arrangement] = field(default_factory=dict)
    relations: frozenset[str] = field(init=False)
    arrangements: dict[str, Arrangement] = field(init=False)

    def __post_init__(self) -> None:
        # A node that stands in several places of the plan is one operator.
        self._nodes = list(dict.fromkeys(walk(self.plan)))
        self._numbers = {node: number for number, node in enumerate(self._nodes)}
        self._inputs = {node: node.inputs for node in self._nodes}
        self._operators = self._built()
        self.relations = frozenset(n.relation for n in self._nodes if isinstance(n, Scan))
        self.arrangements = {
            f"{number}.{name}": arrangement
            for number, operator in self._operators.items()
            for name, arrangement in operator.arrangements.items()
        }

    def _built(self) -> dict[int, _Operator]:
        """The operator of each node, but for nodes that are part of the one above them."""
        folds = folds_in(self._nodes)
        parts = {part for stage, fold in folds.items() for part in (*stage.inputs, fold.join)}
        result: dict[int, _Operator] = {}
        for number, node in enumerate(self._nodes):
            if node in parts:
                continue
            if node in folds:
                assert isinstance(node, AggregateStage)
                self._inputs[node] = folds[node].join.inputs
                ansi = self.evaluator.settings.ansi
                result[number] = FoldedJoinOperator(node, folds[node], ansi, self.tables)
            elif isinstance(node, Join):
                result[number] = JoinOperator(node, self.tables)
            else:
                result[number] = _operator(node, self.evaluator)
        return result

    def stage_arrangements(self, number: int) -> dict[str, Arrangement]:
        """The state of the operator of the numbered node."""
        operator = self._operators.get(number)
        return {} if operator is None else operator.arrangements

    def shared(self, number: int) -> dict[str, str]:
        """The sides of the numbered node that are looked up in a table, and which one."""
        operator = self._operators.get(number)
        return operator.shared if isinstance(operator, _LOOKING_UP) else {}

    def output(self, schema: pa.Schema) -> Output | None:
        """The rows of the view, where it ends in an aggregate whose columns are only renamed."""
        names = {name: name for name in self.plan.names}
        node = self.plan
        while isinstance(node, Project):
            columns = dict(zip(node.names, node.expressions, strict=True))
            if not all(isinstance(columns[name], exp.Column) for name in names.values()):
                return None
            names = {name: columns[below].name for name, below in names.items()}
            node = node.input
        if not isinstance(node, AggregateStage) or not set(node.keys) <= set(names.values()):
            return None
        operator = self._operators[self._numbers[node]]
        assert isinstance(operator, (AggregateOperator, FoldedJoinOperator))
        return operator.output.select(list(names.values()), schema)

    def by_spark(self, number: int) -> tuple[exp.Expr, ...]:
        """The expressions of the numbered node that Spark evaluates, for want of a kernel."""
        operator = self._operators.get(number)
        if isinstance(operator, (ProjectOperator, FilterOperator, GenerateOperator)):
            return operator.by_spark
        return ()

    def apply(
        self, changes: Mapping[str, pa.Table], start: bool = False, filling: bool = False
    ) -> pa.Table:
        """The change of the view.

        `start` is its first batch, where what is there without any input (the row of a scalar
        aggregate) comes into being. `filling` says that the tables hold all of the changes, also
        those of batches that follow: a side that is shared is whole, and only the other one arrives.
        """
        results: dict[int, pa.Table] = {}
        for number, operator in self._operators.items():
            node = self._nodes[number]
            inputs = [results[self._numbers[child]] for child in self._inputs[node]]
            if filling and isinstance(operator, _LOOKING_UP):
                inputs = operator.without_shared(*inputs)
            results[number] = self._run(node, operator, inputs, changes, start)
        return results[len(self._nodes) - 1]

    def _run(
        self,
        node: Node,
        operator: _Operator,
        inputs: list[pa.Table],
        changes: Mapping[str, pa.Table],
        start: bool,
    ) -> pa.Table:
        if isinstance(operator, ScanOperator):
            assert isinstance(node, Scan)
            change = changes.get(node.relation)
            return empty(operator.schema) if change is None else operator.apply(change)
        if isinstance(operator, (SingleOperator, ConstantOperator)):
            return operator.start() if start else empty(operator.schema)
        if not start and not any(batch.num_rows for batch in inputs):
            return empty(operator.schema)
        if isinstance(operator, _LINEAR):
            return _applied(operator, *inputs)
        return operator.apply(*inputs)


def _applied(
    operator: ProjectOperator | FilterOperator | GenerateOperator, changes: pa.Table
) -> pa.Table:
    """f(Δ), where f may fail at some rows.

    Rows that Δ adds and takes back, as the two terms of a join do, need never have been there. That
    f fails at one of them means nothing: Δ is summed then, and what is left of it comes or goes.
    """
    try:
        return operator.apply(changes)
    except Exception:
        summed = consolidate(changes)
        if summed.num_rows == changes.num_rows:
            raise
        return operator.apply(summed)
