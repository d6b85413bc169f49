"""What Spark computes, as Arrow."""

from __future__ import annotations

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import DataFrame

from spark_incr.errors import error


def computed(frame: DataFrame) -> pa.Table:
    """Run the query of a frame.

    NULL is allowed at any depth first: Arrow cannot take a NULL struct as one whose fields are
    never NULL.
    """
    kinds = [f.dataType for f in frame.schema.fields]
    nullable = [f.dataType for f in frame.schema.toNullable().fields]
    if kinds == nullable:
        return _collected(frame)
    numbered = frame.toDF(*(str(place) for place in range(len(kinds))))
    columns = [numbered[str(place)].cast(kind) for place, kind in enumerate(nullable)]
    return _collected(numbered.select(columns)).rename_columns(frame.columns)


def _collected(frame: DataFrame) -> pa.Table:
    """The rows of a frame, or Spark's error; `toArrow` passes some on as Java has them."""
    try:
        return frame.toArrow()
    except Py4JJavaError as failure:
        raise convert_exception(failure.java_exception) from None


def in_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column that Spark has computed, in the type of the plan.

    Arrow would cast structs by the names of their fields and fill in NULLs for what it misses.
    """
    if _names(array.type) != _names(kind):
        raise error("INCR_INTERNAL", what=f"Spark gives {array.type} in place of {kind}")
    return array.cast(kind)


def _names(kind: pa.DataType) -> list[object]:
    """The names of all fields, at any depth."""
    fields = [kind.field(i) for i in range(kind.num_fields)]
    names: list[object] = [f.name for f in fields] if pa.types.is_struct(kind) else []
    return [*names, *(_names(f.type) for f in fields)]
