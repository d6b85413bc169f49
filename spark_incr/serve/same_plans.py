"""Whether two plans of Spark's are one query.

Spark's own comparison of plans says no where two equal plans differ by what no reader can
see: a recursion is numbered anew each time it is read, and rows of VALUES that hold maps are compared by
identity. So two plans are the same if Spark says so, or if they are nodes of one class with the same
fields. There the numbers of recursions, columns and shared values are matched one to one, rows are
compared as bytes, and the cells of lambdas' variables, which hold values only while one runs, are all
alike. Plans are compared as they stand: in canonical ones the number of a recursion may decide which
side of an equality comes first, and columns of different relations have one number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaObject, is_instance_of

from spark_incr.serve.spark_plans import items, rows_in_bytes

_CATALYST = "org.apache.spark.sql.catalyst"
_NODE = f"{_CATALYST}.trees.TreeNode"
_PLAN = f"{_CATALYST}.plans.QueryPlan"
_VALUES = f"{_CATALYST}.plans.logical.LocalRelation"
_RECURSIONS = tuple(f"{_CATALYST}.plans.logical.{name}" for name in ("UnionLoop", "UnionLoopRef"))
_NUMBERS = tuple(f"{_CATALYST}.expressions.{name}" for name in ("ExprId", "CommonExpressionId"))
_CELL = "java.util.concurrent.atomic.AtomicReference"
_SEQUENCE = "scala.collection.Seq"
_RECORD = "scala.Product"


@dataclass
class SamePlans:
    """One comparison of plans, and which number of one is which of the other so far."""

    gateway: Any
    numbers: dict[object, object] = field(default_factory=dict)

    def same(self, one: Any, two: Any) -> bool:
        if not isinstance(one, JavaObject) or not isinstance(two, JavaObject):
            return type(one) is type(two) and bool(one == two)
        if self._are(_PLAN, one, two) and one.sameResult(two):
            return all(map(self.same, _numbers(one), _numbers(two)))
        if self._are(_SEQUENCE, one, two):
            return one.size() == two.size() and all(map(self.same, items(one), items(two)))
        kind = str(one.getClass().getName())
        if kind != str(two.getClass().getName()):
            return False
        if kind in _NUMBERS:
            return self._matched(one.toString(), two.toString())
        if kind == _CELL:
            return True
        if kind == _VALUES:
            ours, theirs = (rows_in_bytes(values, self.gateway.jvm) for values in (one, two))
            return self.same(one.output(), two.output()) and ours == theirs
        ours, theirs = self._fields(one), self._fields(two)
        if not ours:
            return bool(one.equals(two))
        if kind in _RECURSIONS and not self._matched(ours.pop(0), theirs.pop(0)):
            return False
        return len(ours) == len(theirs) and all(map(self.same, ours, theirs))

    def _are(self, kind: str, *values: Any) -> bool:
        return all(is_instance_of(self.gateway, value, kind) for value in values)

    def _matched(self, one: object, two: object) -> bool:
        known = self.numbers.setdefault(one, two)
        return known == two and list(self.numbers.values()).count(two) == 1

    def _fields(self, record: Any) -> list[Any]:
        """The fields of a record, if it is one; the number of a column is not among its first ones."""
        if not self._are(_RECORD, record):
            return []
        fields = [record.productElement(i) for i in range(record.productArity())]
        return [*fields, *items(record.otherCopyArgs())] if self._are(_NODE, record) else fields


def _numbers(plan: Any) -> list[Any]:
    """The numbers of the columns of a plan."""
    return [column.exprId() for column in items(plan.output())]
