"""& | ^ ~ on integers: the narrower operand is widened with its sign."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_incr.plan.types import INTEGERS
from spark_incr.runtime.expressions.casts import coerce
from spark_incr.runtime.expressions.evaluation import strict
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
