"""Spark's Thrift and Connect servers over one engine.

Both are Spark's own; all that is ours is the parser that their sessions are made with. They listen
on the loopback address unless a host is given.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from spark_incr.errors import error
from spark_incr.serve.shared import JVM_GONE, SharedEngine

LOOPBACK = "127.0.0.1"
_CONNECT = "org.apache.spark.sql.connect.SparkConnectPlugin"
_HADOOP = "spark.hadoop."
_HIVE = f"{_HADOOP}hive.server2."


@dataclass(frozen=True)
class Address:
    """Where to listen; a port of None closes that door."""

    host: str = LOOPBACK
    thrift_port: int | None = 10000
    connect_port: int | None = 15002
    confs: Mapping[str, str] = field(default_factory=dict)

    @property
    def ports(self) -> list[int]:
        return [port for port in (self.thrift_port, self.connect_port) if port is not None]

    def warnings(self) -> list[str]:
        """What a person should know before others can reach the doors."""
        if _is_loopback(self.host):
            return []
        result = []
        authentication = self.confs.get(f"{_HIVE}authentication", "NONE").upper()
        if self.thrift_port is not None and authentication in ("NONE", "NOSASL"):
            result.append(
                f"the Thrift door is open to everyone who reaches {self.host}:{self.thrift_port}; "
                f"set {_HIVE}authentication to KERBEROS, LDAP, PAM or CUSTOM"
            )
        if self.connect_port is not None and "spark.connect.authenticate.token" not in self.confs:
            result.append(
                f"the Connect door is open to everyone who reaches {self.host}:{self.connect_port};"
                " set spark.connect.authenticate.token"
            )
        return result

    def spark_confs(self) -> dict[str, str]:
        """Spark's settings for these doors; the user's own win."""
        plugins = [self.confs["spark.plugins"]] if "spark.plugins" in self.confs else []
        if self.connect_port is not None:
            plugins.append(_CONNECT)
        return {
            f"{_HIVE}thrift.bind.host": self.host,
            f"{_HIVE}thrift.port": str(self.thrift_port),
            "spark.connect.grpc.binding.address": self.host,
            "spark.connect.grpc.binding.port": str(self.connect_port),
            # Stack traces belong to the log, not to the clients.
            "spark.sql.connect.serverStacktrace.enabled": "false",
            # A frame of a client is read as of its execution; a cached plan would be older.
            "spark.connect.session.planCache.enabled": "false",
            **self.confs,
            "spark.plugins": ",".join(plugins),
        }


@contextmanager
def serving(state: Path, address: Address) -> Iterator[SharedEngine]:
    """Keep the doors open for as long as the block runs."""
    for port in address.ports:
        _check_free(address.host, port)
    shared = SharedEngine(state, address.spark_confs())
    thrift: Any = None
    try:
        if address.thrift_port is not None:
            jvm: Any = shared.spark._jvm
            for key, value in address.confs.items():
                # Hive's authentication looks for its settings here, and not among Spark's.
                if key.startswith(_HIVE):
                    jvm.java.lang.System.setProperty(key.removeprefix(_HADOOP), value)
            thriftserver = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
            thrift = thriftserver.startWithSparkSession(shared.spark._jsparkSession, False)
        yield shared
    finally:
        shared.drain()
        if thrift is not None:
            with contextlib.suppress(*JVM_GONE):
                thrift.stop()
        shared.close()


def _check_free(host: str, port: int) -> None:
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as failure:
        what = f"{host}:{port} cannot be listened on: {failure.strerror or failure}"
        raise error("INCR_SERVER", what=what, hint="Choose another port or host.") from failure


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
