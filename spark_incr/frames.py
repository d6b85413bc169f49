"""What Spark computes, as Arrow."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame


def computed(frame: DataFrame) -> pa.Table:
    """Run the query of a frame.

    NULL is allowed at any depth first: Arrow cannot take a NULL struct as one whose fields are
    never NULL.
    """
    kinds = [f.dataType for f in frame.schema.fields]
    nullable = [f.dataType for f in frame.schema.toNullable().fields]
    if kinds == nullable:
        return frame.toArrow()
    numbered = frame.toDF(*(str(place) for place in range(len(kinds))))
    columns = [numbered[str(place)].cast(kind) for place, kind in enumerate(nullable)]
    return numbered.select(columns).toArrow().rename_columns(frame.columns)
