"""Inside structs, arrays and maps: a part of NULL is NULL, a place beyond the array is an error."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.errors import error
from spark_incr.runtime.expressions.evaluation import array_of, nulls_of, strict
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel


def _field_operands(node: exp.Expr) -> list[exp.Expr] | None:
    return [node.this] if isinstance(node.args.get("expression"), exp.Identifier) else None


@kernel(
    exp.Dot,
    words="a field of a struct, by a name that is unique in any case",
    operands=_field_operands,
)
def field(call: Call) -> Compiled | None:
    (operand,) = call.operands
    if not isinstance(operand.type, T.StructType):
        return None
    wanted = call.node.args["expression"].name.lower()
    places = [k for k, name in enumerate(operand.type.names) if name.lower() == wanted]
    if len(places) != 1:
        return None
    return strict(call, lambda array: pc.struct_field(array, places))


def _index_operands(node: exp.Expr) -> list[exp.Expr] | None:
    index = node.args.get("expressions") or []
    if any(value and key not in ("this", "expressions") for key, value in node.args.items()):
        return None
    return [node.this, index[0]] if len(index) == 1 else None


@kernel(
    exp.Bracket, words="an element of an array, by a literal place from 0", operands=_index_operands
)
def element(call: Call) -> Compiled | None:
    operand, index = call.operands
    place = index.value if isinstance(index.type, T.IntegerType) else None
    if not isinstance(operand.type, T.ArrayType) or place is None or place < 0:
        return None
    if not call.settings.ansi:
        return None

    def pick(array: pa.Array) -> pa.Array:
        nulls = nulls_of(array)
        offsets = array.offsets.to_numpy()
        short = np.diff(offsets) <= place
        if nulls is not None:
            short &= ~nulls
        if short.any():
            raise error("INVALID_ARRAY_INDEX", index=place)
        where = pa.array(np.asarray(offsets[:-1] + place, np.int64), mask=nulls)
        return array.values.take(where)

    return strict(call, pick, raises=True, operands=(operand,))


@kernel(exp.ArraySize, "cardinality", words="arrays and maps; NULL for NULL", arguments=("this",))
def size(call: Call) -> Compiled | None:
    if len(call.operands) != 1 or not call.settings.ansi:
        return None
    if not isinstance(call.operands[0].type, T.ArrayType | T.MapType):
        return None

    def lengths(array: pa.Array) -> pa.Array:
        return array_of(np.diff(array.offsets.to_numpy()), pa.int32(), nulls_of(array))

    return strict(call, lengths)
