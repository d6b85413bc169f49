"""& | ^ ~ << >> on integers: the narrower operand is widened with its sign.

A shift is by as many bits as the last five bits of the distance say, or the last six for BIGINT.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from sqlglot import exp

from spark_incr.plan.types import INTEGERS
from spark_incr.runtime.expressions.casts import coerce
from spark_incr.runtime.expressions.evaluation import Values, any_null, array_of, strict, values_of
from spark_incr.runtime.expressions.registry import Call, Compiled, kernel

_FUNCTIONS: dict[type[exp.Expr], Callable[[pa.Array, pa.Array], pa.Array]] = {
    exp.BitwiseAnd: pc.bit_wise_and,
    exp.BitwiseOr: pc.bit_wise_or,
    exp.BitwiseXor: pc.bit_wise_xor,
}


@kernel(*_FUNCTIONS, words="integers")
def bitwise(call: Call) -> Compiled | None:
    sides = [coerce(operand, call.type) for operand in call.operands]
    if not isinstance(call.type, INTEGERS) or None in sides:
        return None
    operands = [side for side in sides if side is not None]
    return strict(call, _FUNCTIONS[type(call.node)], operands=operands)


@kernel(exp.BitwiseNot, words="integers", arguments=("this",))
def bitwise_not(call: Call) -> Compiled | None:
    if not isinstance(call.type, INTEGERS) or call.operands[0].type != call.type:
        return None
    return strict(call, pc.bit_wise_not)


_SHIFTS: dict[type[exp.Expr], Callable[[Values, Values], Values]] = {
    exp.BitwiseLeftShift: np.left_shift,
    exp.BitwiseRightShift: np.right_shift,
}


@kernel(*_SHIFTS, words="an INT or BIGINT, or what widens to INT")
def shift(call: Call) -> Compiled | None:
    sides = coerce(call.operands[0], call.type), coerce(call.operands[1], T.IntegerType())
    if not isinstance(call.type, T.IntegerType | T.LongType) or None in sides:
        return None
    move, mask = _SHIFTS[type(call.node)], call.arrow.bit_width - 1

    def shifted(number: pa.Array, distance: pa.Array) -> pa.Array:
        found = move(values_of(number), values_of(distance) & mask)
        return array_of(found, call.arrow, any_null(number, distance))

    return strict(call, shifted, operands=[side for side in sides if side is not None])
