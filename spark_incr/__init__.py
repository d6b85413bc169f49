"""Incremental views for Apache Spark."""

from spark_incr.engine import Commit, Engine
from spark_incr.errors import IncrementalError
from spark_incr.serve.session import disable, enable, engine, session

__all__ = ["Commit", "Engine", "IncrementalError", "disable", "enable", "engine", "session"]
