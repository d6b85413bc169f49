"""The packs of rules, in the order in which they run."""

from __future__ import annotations

from spark_incr.rules.executor import Pack
from spark_incr.rules.incremental.maintain_aggregates import maintain_aggregates
from spark_incr.rules.incremental.maintain_windows import maintain_windows
from spark_incr.rules.logical.factor_conditions import factor_conditions
from spark_incr.rules.logical.find_join_keys import find_join_keys
from spark_incr.rules.logical.group_by_collation import group_by_collation
from spark_incr.rules.logical.hand_on_places import hand_on_places
from spark_incr.rules.logical.join_by_collation import join_by_collation
from spark_incr.rules.logical.merge_filters import merge_filters
from spark_incr.rules.logical.merge_projects import merge_projects
from spark_incr.rules.logical.merge_windows import merge_windows
from spark_incr.rules.logical.negate_memberships import negate_memberships
from spark_incr.rules.logical.order_joins import order_joins
from spark_incr.rules.logical.prune_columns import prune_columns
from spark_incr.rules.logical.push_filters import push_filters
from spark_incr.rules.logical.split_conditions import split_conditions

PACKS: tuple[Pack, ...] = (
    # What NOT IN is made of is the query as written, before conditions are moved for other reasons.
    Pack("memberships", (negate_memberships,), once=True, whole=True),
    # What reads a group's key must not be moved below, to where keys that are equal differ.
    Pack("groups", (group_by_collation,), once=True),
    # Joins are put in order while their conditions are together above all of them.
    Pack("joins", (merge_filters, order_joins), once=True),
    # Conditions have to be next to their join before they can become its keys.
    Pack("filters", (merge_filters, factor_conditions, push_filters, find_join_keys)),
    # Filters are below both sides by then, so that what a condition reads of them is little.
    Pack("conditions", (split_conditions,), once=True),
    # All keys of joins have been found, and what is left of conditions has been taken apart.
    Pack("keys", (join_by_collation,), once=True),
    # Windows have to be next to each other, which pruning ends.
    Pack("windows", (merge_windows,)),
    # Functions that are one window agree already; those of windows above each other are made to.
    Pack("places", (hand_on_places,), once=True),
    Pack("columns", (prune_columns,), whole=True),
    Pack("projections", (merge_projects,)),
    Pack("incremental", (maintain_aggregates, maintain_windows), once=True),
)
