"""Streams of Structured Streaming: any source that Spark can read, exactly once.

Law: Spark repeats a micro-batch under the same number until it has noted that it is done, and it notes
so after us. The number of the last micro-batch is committed with its rows; one that is not greater
is a repetition and is skipped. Numbers count within one checkpoint, so the checkpoint's identity is
committed too, and another one is refused.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_incr.errors import error
from spark_incr.frames import computed
from spark_incr.plan.types import arrow_schema
from spark_incr.runtime.columns import single
from spark_incr.sources.definition import SourceDefinition
from spark_incr.sources.files import MicroBatch

DELETES = "__incr_deletes"
Submit = Callable[[str, MicroBatch], None]


class AttachedStream:
    """A streaming DataFrame that feeds a source."""

    def __init__(
        self,
        definition: SourceDefinition,
        frame: DataFrame,
        deletes: DataFrame | None,
        state: Path,
        generation: int,
    ) -> None:
        self.definition = definition
        if deletes is not None:
            frame = frame.withColumn(DELETES, F.lit(False)).unionByName(
                deletes.withColumn(DELETES, F.lit(True))
            )
        self._frame = frame
        digest = hashlib.sha256(definition.name.lower().encode()).hexdigest()[:16]
        self._checkpoints = state / "checkpoints" / digest
        self._checkpoint = self._checkpoints / str(generation)
        self.query: StreamingQuery | None = None

    @property
    def failure(self) -> Exception | None:
        return None if self.query is None else self.query.exception()

    @property
    def active(self) -> bool:
        return self.query is not None and self.query.isActive

    def start(
        self, submit: Submit, committed: Callable[[], Mapping[str, Any]], trigger: dict[str, Any]
    ) -> None:
        """Run the query; each new micro-batch is handed to `submit`, which commits it."""

        def take(frame: DataFrame, number: int) -> None:
            offsets = committed()
            identity = self._identity()
            if "checkpoint" in offsets and offsets["checkpoint"] != identity:
                raise error("INCR_SOURCE_OFFSETS", source=self.definition.name)
            if number <= offsets.get("batch", -1):
                return
            submit(self.definition.name, self._batch(frame, number, identity))

        writer = self._frame.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        self.query = writer.trigger(**trigger).start()

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()

    def anew(self, generation: int) -> AttachedStream:
        """The same stream from its beginning, with a checkpoint of its own.

        A checkpoint of that number is what an attempt left that was not committed.
        """
        fresh = copy(self)
        fresh.query = None
        fresh._checkpoint = self._checkpoints / str(generation)
        shutil.rmtree(fresh._checkpoint, ignore_errors=True)
        return fresh

    def rest(self) -> list[MicroBatch]:
        """All that is there and was not read; its reader commits it."""
        batches: list[MicroBatch] = []
        self.start(lambda _, batch: batches.append(batch), dict, {"availableNow": True})
        assert self.query is not None
        self.query.awaitTermination()
        return batches

    def _identity(self) -> str:
        return str(json.loads((self._checkpoint / "metadata").read_text(encoding="utf-8"))["id"])

    def _batch(self, frame: DataFrame, number: int, identity: str) -> MicroBatch:
        found = computed(frame)
        deletes = None
        if DELETES in found.column_names:
            marks = single(found.column(DELETES))
            deletes = np.asarray(marks.to_numpy(zero_copy_only=False), dtype=np.bool_)
            found = found.drop_columns([DELETES])
        schema = arrow_schema(self.definition.delivered)
        rows = pa.Table.from_arrays(
            [single(found.column(name)).cast(schema.field(name).type) for name in schema.names],
            schema=schema,
        )
        origin = f"micro-batch {number}"
        return MicroBatch(
            rows, deletes, [(0, origin)], offsets={"batch": number, "checkpoint": identity}
        )
