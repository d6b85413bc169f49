"""Model files as SQL: the Jinja that models may use.

`config`, `ref`, `source`, `var`, `env_var` and `this` mean what they mean in dbt. Any other name
that a file calls or prints is an error by that name: a model that needs more needs dbt.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import SandboxedEnvironment

from spark_incr.errors import IncrementalError
from spark_incr.models.places import Places, find_places
from spark_incr.models.problems import model_error
from spark_incr.models.project import Folder, ModelFile
from spark_incr.sql.names import quote
from spark_incr.sql.tokens import is_word, leading_words, position_at

# What settings say of a view; they may stand under `meta`, where dbt wants keys that are not its own.
OWN = ("refresh_policy", "trigger", "schedule", "comment", "tblproperties")
_MISSING = object()


@dataclass(frozen=True)
class Rendered:
    """A model's query, the models it refers to, and its settings.

    `text` is what the model renders to, `places` tells where in the file it is from, if that is known.
    """

    model: ModelFile
    text: str
    places: Places | None
    reads: tuple[str, ...]
    sources: tuple[str, ...]
    settings: Mapping[str, Any]

    @property
    def query(self) -> str:
        return self.text.strip()

    def error_at(self, what: str, offset: int) -> IncrementalError:
        """An error at an offset of the query, shown in the file if it is known where."""
        at = len(self.text) - len(self.text.lstrip()) + offset
        if self.places is not None:
            return model_error(self.model, what, self.places.in_file(at))
        return model_error(self.model, what, position_at(self.text, at), rendered=self.text)


def written_name(schema: str, name: str) -> str:
    """A relation's name as dbt writes it: Spark takes keywords for names without quotes.

    >>> written_name("default", "orders"), written_name("default", "my model")
    ('default.orders', 'default.`my model`')
    """
    return ".".join(part if is_word(part) else quote(part) for part in (schema, name))


class _Unknown(Undefined):
    """A name that models may not use; whatever is done with it, the error says the name."""

    def _fail_with_undefined_error(self, *_: Any, **__: Any) -> NoReturn:
        raise _UnknownNameError(self._undefined_name or "")

    __call__ = __getattr__ = __getitem__ = __str__ = __iter__ = __bool__ = __eq__ = __len__ = (
        _fail_with_undefined_error
    )
    __hash__ = Undefined.__hash__


class _UnknownNameError(Exception):
    pass


class _UnusableError(Exception):
    """What a model asked for is not there."""


def render(model: ModelFile, folder: Folder, schema: str, variables: Mapping[str, Any]) -> Rendered:
    """Render a model whose relations live in a schema."""
    reads: dict[str, None] = {}
    read_sources: dict[str, None] = {}
    settings = dict(model.settings)

    def config(**given: Any) -> str:
        settings.update(given)
        return ""

    def ref(*names: str) -> str:
        name = names[-1]
        relation = written_name(schema, name)
        if name in folder.models:
            reads[name] = None
        elif name in folder.seeds:
            read_sources[relation] = None
        else:
            raise _UnusableError(f"ref('{name}') names no model of the folder")
        return relation

    def source(name: str, table: str) -> str:
        if (name, table) not in folder.sources:
            raise _UnusableError(
                f"source('{name}', '{table}') is declared in no .yml file of the folder"
            )
        found = folder.sources[name, table]
        read_sources[found] = None
        return found

    def var(name: str, default: Any = _MISSING) -> Any:
        if name in variables:
            return variables[name]
        if default is _MISSING:
            raise _UnusableError(f"var('{name}') has no value and no default")
        return default

    def env_var(name: str, default: Any = _MISSING) -> Any:
        if name in os.environ:
            return os.environ[name]
        if default is _MISSING:
            raise _UnusableError(f"env_var('{name}') is not set and has no default")
        return default

    environment = SandboxedEnvironment(undefined=_Unknown)
    environment.globals.clear()
    known = {"config": config, "ref": ref, "source": source, "var": var, "env_var": env_var}

    def rendered(text: str) -> str:
        template = environment.from_string(text)
        return template.render(**known, this=written_name(schema, model.name))

    try:
        text = rendered(model.text)
    except TemplateSyntaxError as failure:
        raise model_error(model, str(failure.message), line=failure.lineno) from failure
    except _UnknownNameError as failure:
        what = f"{failure} is not known here; models may use {', '.join([*known, 'this'])}"
        raise model_error(model, what, line=_line(failure.__traceback__)) from None
    except (_UnusableError, TemplateError, TypeError) as failure:
        line = _line(failure.__traceback__)
        raise model_error(model, str(failure), line=line) from failure
    if not leading_words(text, 1):
        raise model_error(model, "there is no query in its file")
    # The places are found by rendering again, which is not to tell anything anew.
    meta = settings.get("meta") or {}
    below = {key: meta[key] for key in OWN if key in meta}
    told = tuple(reads), tuple(read_sources), {**settings, **below}
    places = find_places(model.text, text, environment, rendered)
    return Rendered(model, text, places, *told)


def _line(trace: TracebackType | None) -> int | None:
    """The line of the template in which an exception was raised."""
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
