"""What is wrong with a model, and where in its file."""

from __future__ import annotations

from spark_incr.errors import IncrementalError, Position, error
from spark_incr.models.project import ModelFile
from spark_incr.text_table import pointed


def model_error(
    model: ModelFile,
    what: str,
    position: Position | None = None,
    *,
    line: int | None = None,
    rendered: str | None = None,
) -> IncrementalError:
    """The error of a model; `line` is all that is known of a place at times.

    The position is one in the model's file, or in the text that it renders to if that is given.
    """
    head, _, rest = what.partition("\n")
    lines = [head]
    place = ""
    if position is not None:
        of = "" if rendered is None else " of what it renders to"
        place = f", line {position.line}, column {position.column}{of}"
        text = model.text if rendered is None else rendered
        lines.append(pointed(text, position.line, position.column))
    elif line is not None:
        place = f", line {line}"
    lines += [rest] if rest else []
    return error("INCR_MODEL", model=f"{model.name} ({model.path}{place})", what="\n".join(lines))
