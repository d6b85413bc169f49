"""A rehearsal: the relations of a state, without their rows, in a state of its own.

What is done there, creating views over views among it, meets every refusal that it would meet in
the state itself, but for those that rows cause; and it changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_incr.relation import PENDING, Status
from spark_incr.runtime.store import Store

_NEVER_READ: dict[str, Any] = {
    "changed": 0,
    "maintained": 0,
    "status": Status.ACTIVE.value,
    "failure": "",
    "offsets": {},
}


def copy_definitions(state: Path, copy: Path) -> None:
    """Make a state with the relations of another one, all of them empty.

    The other one is only read, and may be in use; if it does not exist, the copy is empty, too.
    """
    if not state.is_dir():
        return
    with Store.open(state, read_only=True) as store:
        body: Any = store.manifest.body
    with Store.open(copy) as made, made.begin() as transaction:
        transaction.commit(
            {
                "relations": [{**item, **_NEVER_READ} for item in body.get("relations", [])],
                "state": {
                    relation: {name: [] for name in kept if not name.startswith(PENDING)}
                    for relation, kept in body.get("state", {}).items()
                },
                "changes": {},
                "record": {},
            }
        )
