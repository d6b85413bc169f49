"""placeholder"""

from spark_incr.plan.nodes import Node


def stage_texts(plan: Node) -> str:
    return ""
