"""Models as statements: one CREATE OR REPLACE INCREMENTAL VIEW each.

Two fingerprints are kept as properties of a view, one of its query and one of its settings, so
that a model that is as before is left alone; dbt's materialization writes the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_incr.models.problems import model_error
from spark_incr.models.render import OWN, Rendered, written_name
from spark_incr.sql.names import join_name, quote_string

QUERY, SETTINGS = "model.query", "model.settings"
MATERIALIZATION = "incremental_view"
_OTHER = ("materialized", "on_configuration_change", "tags", "meta", "enabled", "schema", "docs")
_CHANGES = ("apply", "continue", "fail")


@dataclass(frozen=True)
class ModelStatement:
    """The statement of a model, and what tells whether it has changed."""

    name: str
    text: str
    query: str
    query_fingerprint: str
    settings_fingerprint: str
    on_configuration_change: str


def model_statement(rendered: Rendered, schema: str) -> ModelStatement:
    """The statement that makes a model's view."""
    settings = rendered.settings
    model = rendered.model.name
    for key in settings:
        if key not in (*OWN, *_OTHER):
            raise model_error(rendered.model, f"the setting {key} is not known")
    materialized = settings.get("materialized", MATERIALIZATION)
    if materialized != MATERIALIZATION:
        what = f"materialized is {materialized}, only {MATERIALIZATION} is made here"
        raise model_error(rendered.model, what)
    on_change = settings.get("on_configuration_change", "apply")
    if on_change not in _CHANGES:
        what = f"on_configuration_change is {on_change}, not {', '.join(_CHANGES)}"
        raise model_error(rendered.model, what)
    if settings.get("trigger") and settings.get("schedule"):
        what = "trigger and schedule are both set, and either says when the view is refreshed"
        raise model_error(rendered.model, what)
    own = clauses(settings)
    query_print, settings_print = fingerprint(rendered.query), fingerprint("\n".join(own))
    properties = {
        **{str(k): str(v) for k, v in (settings.get("tblproperties") or {}).items()},
        QUERY: query_print,
        SETTINGS: settings_print,
    }
    pairs = ", ".join(f"{quote_string(k)} = {quote_string(v)}" for k, v in properties.items())
    name = join_name([schema, model])
    lines = [
        f"CREATE OR REPLACE INCREMENTAL VIEW {written_name(schema, model)}",
        *(line for line in own if not line.startswith("TBLPROPERTIES")),
        f"TBLPROPERTIES ({pairs})",
        "AS",
        rendered.query,
    ]
    return ModelStatement(
        name, "\n".join(lines), rendered.query, query_print, settings_print, on_change
    )


def clauses(settings: Mapping[str, Any]) -> list[str]:
    """The clauses that a model's settings ask for."""
    result = []
    if settings.get("comment"):
        result.append(f"COMMENT {quote_string(str(settings['comment']))}")
    if settings.get("refresh_policy"):
        result.append(f"REFRESH POLICY {str(settings['refresh_policy']).upper()}")
    if settings.get("schedule"):
        result.append(f"SCHEDULE EVERY {str(settings['schedule']).upper()}")
    elif str(settings.get("trigger") or "").upper() == "MANUAL":
        result.append("MANUAL")
    elif settings.get("trigger"):
        result.append(f"TRIGGER {str(settings['trigger']).upper()}")
    if settings.get("tblproperties"):
        properties = {str(k): str(v) for k, v in settings["tblproperties"].items()}
        result.append(f"TBLPROPERTIES {json.dumps(properties, sort_keys=True)}")
    return result


def fingerprint(text: str) -> str:
    """A digest that dbt can compute, too."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
