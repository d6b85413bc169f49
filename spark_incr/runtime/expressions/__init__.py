"""Scalar expressions on Arrow arrays, for those that are verified to be equal to Spark's."""

from spark_incr.runtime.expressions.compile import compile_expression, subexpressions
from spark_incr.runtime.expressions.registry import KERNELS, Evaluate, Settings, Types

__all__ = ["KERNELS", "Evaluate", "Settings", "Types", "compile_expression", "subexpressions"]
