"""Model files as SQL: the Jinja that models may use.

`config`, `ref`, `source`, `var`, `env_var` and `this` mean what they mean in dbt. Any other name
that a file calls or prints is an error by that name: a model that needs more needs dbt.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import SandboxedEnvironment

from spark_incr.errors import IncrementalError, Position, error
from spark_incr.models.project import Folder, ModelFile
from spark_incr.sql.names import quote
from spark_incr.sql.tokens import is_word

_MISSING = object()


@dataclass(frozen=True)
class Rendered:
    """A model's query, the models it refers to, and its settings."""

    model: ModelFile
    query: str
    reads: tuple[str, ...]
    sources: tuple[str, ...]
    settings: Mapping[str, Any]


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


def render(model: ModelFile, folder: Folder, schema: str, variables: Mapping[str, Any]) -> Rendered:
    """Render a model whose relations live in a schema."""
    reads: dict[str, None] = {}
    read_sources: dict[str, None] = {}
    settings = dict(model.settings)

    def fail(what: str) -> IncrementalError:
        return error("INCR_MODEL", model=model.name, what=what)

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
            raise fail(f"ref('{name}') names no model of the folder")
        return relation

    def source(name: str, table: str) -> str:
        if (name, table) not in folder.sources:
            raise fail(f"source('{name}', '{table}') is declared in no .yml file of the folder")
        found = folder.sources[name, table]
        read_sources[found] = None
        return found

    def var(name: str, default: Any = _MISSING) -> Any:
        if name in variables:
            return variables[name]
        if default is _MISSING:
            raise fail(f"var('{name}') has no value and no default")
        return default

    def env_var(name: str, default: Any = _MISSING) -> Any:
        if name in os.environ:
            return os.environ[name]
        if default is _MISSING:
            raise fail(f"env_var('{name}') is not set and has no default")
        return default

    environment = SandboxedEnvironment(undefined=_Unknown)
    environment.globals.clear()
    known = {"config": config, "ref": ref, "source": source, "var": var, "env_var": env_var}
    try:
        template = environment.from_string(model.text)
        text = template.render(**known, this=written_name(schema, model.name))
    except TemplateSyntaxError as failure:
        place = Position(failure.lineno, 1)
        what = f"{failure.message}"
        raise error("INCR_MODEL", model=model.name, what=what, position=place) from failure
    except _UnknownNameError as failure:
        what = f"{failure} is not known here; models may use {', '.join([*known, 'this'])}"
        raise fail(what) from None
    except (TemplateError, TypeError) as failure:
        raise fail(str(failure)) from failure
    return Rendered(model, text.strip(), tuple(reads), tuple(read_sources), settings)
